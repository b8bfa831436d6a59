// Package metrics shows what a node counts as Prometheus reads it.
//
// Its law: it counts nothing. Each figure has its one place, where it is counted for INFO as well or
// for nobody else; who owns it says its name and its help (resp.Metric), and is asked when somebody
// looks. So a command costs no more by being watched.
package metrics
