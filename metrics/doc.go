// Package metrics exports a node's figures in Prometheus's format.
//
// Its law: it counts nothing. Each figure is counted in one place, for INFO and metrics alike; its owner gives it a
// name and a help text (resp.Metric), and is asked when Prometheus scrapes. So commands cost no more while they are
// monitored.
package metrics
