package metrics

import (
	"log/slog"
	"math"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lockd/resp"
)

// Source returns metrics with their present values. It is called concurrently, and may take a second.
type Source func() []resp.Metric

// readersMax bounds concurrent scrapes, which may need no password. Others get 503.
const readersMax = 4

// Handler serves the metrics of all sources, and those of the process and its Go runtime.
func Handler(log *slog.Logger, sources ...Source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector(sources),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError), MaxRequestsInFlight: readersMax,
	})
}

// collector asks the sources at each scrape.
type collector []Source

// Describe implements prometheus.Collector. It describes nothing: the metrics are known only when collected.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, source := range c {
		for _, m := range source() {
			desc := prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
			for _, s := range m.Of {
				out <- metricOf(desc, m.Kind, s)
			}
		}
	}
}

// metricOf converts one sample. The registry reports a mistake in its labels.
func metricOf(desc *prometheus.Desc, kind resp.MetricKind, s resp.Sample) prometheus.Metric {
	var m prometheus.Metric
	var err error
	switch kind {
	case resp.Counter:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, s.Labels...)
	case resp.Histogram:
		count, buckets := cumulated(s.Counts)
		m, err = prometheus.NewConstHistogram(desc, count, s.Value, buckets, s.Labels...)
	case resp.Summary:
		m, err = prometheus.NewConstSummary(desc, uint64(s.Count), s.Value, nil, s.Labels...)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, s.Labels...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}

// The exported buckets, as powers of two microseconds: 16 us to 17 s. Shorter durations count in the first, longer
// ones only in the total.
const (
	bucketFirst = 4
	bucketLast  = 24
)

// cumulated returns the number of durations, and how many of them are below each bucket's end in seconds.
func cumulated(counts []int64) (count uint64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	for i := range max(len(counts), bucketLast+1) {
		if i < len(counts) {
			count += uint64(counts[i])
		}
		if i >= bucketFirst && i <= bucketLast {
			buckets[math.Ldexp(1e-6, i)] = count
		}
	}
	return count, buckets
}
