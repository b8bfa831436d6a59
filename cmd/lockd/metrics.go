package main

import (
	"net/http"
	"runtime"

	"lockd/metrics"
	"lockd/resp"
)

// metricsHandler shows the figures of the node and of its server.
func (i *instance) metricsHandler() http.Handler {
	about := func() []resp.Metric {
		m := resp.Metric{
			Name: "lockd_build_info", Labels: []string{"version", "go"}, Help: "1; which lockd this is.",
		}
		m.Add(1, version, runtime.Version())
		return []resp.Metric{m}
	}
	return metrics.Handler(i.log, about, i.node.Metrics, i.server.Metrics)
}
