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

// Source says what somebody has counted, as it is now. It is called concurrently, and may take a second.
type Source func() []resp.Metric

// readersMax is how many may read the figures at a time: there need be no password. Others are told 503.
const readersMax = 4

// Handler answers with the figures of all sources, and those of the process and its Go runtime.
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

// collector asks the sources whenever somebody looks.
type collector []Source

// Describe implements prometheus.Collector. What there is is known when it is collected.
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

// metricOf is one figure. A mistake in its labels is told by the registry.
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

// The buckets that are shown, as powers of two of microseconds: 16 us to 17 s. What is below the first
// is in it, what is above the last in the sum of all.
const (
	bucketFirst = 4
	bucketLast  = 24
)

// cumulated is how many took at most so many seconds.
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
