package resp

// MetricKind is the kind of a Metric, in Prometheus's words.
type MetricKind uint8

// The kinds of a Metric.
const (
	Gauge     MetricKind = iota // rises and falls
	Counter                     // only rises, except that it may restart at 0
	Histogram                   // a distribution of durations
	Summary                     // a sum of durations and their number
)

// Metric is one metric family of a node. A label has few values, and clients cannot add one.
type Metric struct {
	Name   string // Prometheus's name, with the unit
	Help   string // one sentence
	Kind   MetricKind
	Labels []string // names of the labels of each sample
	Of     []Sample
}

// Sample is one value of a Metric.
type Sample struct {
	Labels []string // values, in the order of the names
	Value  float64  // of a Histogram and a Summary: the sum in seconds
	Count  int64    // of a Summary
	// Counts are the buckets of a Histogram: Counts[i] counts durations below 2^i microseconds and not below half of
	// it; the last one counts all longer durations, too.
	Counts []int64
}

// GaugeOf returns a gauge without labels.
func GaugeOf[N int | int64 | uint64 | float64](name, help string, value N) Metric {
	return Metric{Name: name, Help: help, Kind: Gauge, Of: []Sample{{Value: float64(value)}}}
}

// CounterOf returns a counter without labels.
func CounterOf[N int | int64 | uint64 | float64](name, help string, value N) Metric {
	m := GaugeOf(name, help, value)
	m.Kind = Counter
	return m
}

// Add adds a sample with values of the labels.
func (m *Metric) Add(value float64, labels ...string) {
	m.Of = append(m.Of, Sample{Labels: labels, Value: value})
}

// One returns 1 for true and 0 for false.
func One(is bool) int {
	if is {
		return 1
	}
	return 0
}
