package resp

// MetricKind says how a figure behaves.
type MetricKind uint8

// The kinds of a Metric.
const (
	Gauge     MetricKind = iota // it rises and falls
	Counter                     // it only rises, until it begins at 0 again
	Histogram                   // how long things took
	Summary                     // how long things took in all, and how many they were
)

// Metric is what a node counts under one name, for those who watch it from outside. A label has few
// values, of which no client can make another.
type Metric struct {
	Name   string // in Prometheus's words, with the unit
	Help   string // what it says, in a sentence
	Kind   MetricKind
	Labels []string // the names of the labels that each sample has
	Of     []Sample
}

// Sample is one figure of a Metric.
type Sample struct {
	Labels []string // values, in the order of the names
	Value  float64  // of a Histogram and a Summary: seconds in all
	Count  int64    // of a Summary
	// Counts are those of a Histogram: Counts[i] is how many took less than 2^i microseconds and no
	// less than half of it; the last one has all that took longer, too.
	Counts []int64
}

// GaugeOf is a figure without labels.
func GaugeOf[N int | int64 | uint64 | float64](name, help string, value N) Metric {
	return Metric{Name: name, Help: help, Kind: Gauge, Of: []Sample{{Value: float64(value)}}}
}

// CounterOf is a figure without labels that only rises.
func CounterOf[N int | int64 | uint64 | float64](name, help string, value N) Metric {
	m := GaugeOf(name, help, value)
	m.Kind = Counter
	return m
}

// Add adds a figure with values for the labels.
func (m *Metric) Add(value float64, labels ...string) {
	m.Of = append(m.Of, Sample{Labels: labels, Value: value})
}

// One is 1 for true and 0 for false.
func One(is bool) int {
	if is {
		return 1
	}
	return 0
}
