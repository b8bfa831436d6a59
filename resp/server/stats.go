package server

import (
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockd/resp"
)

// stats counts what this node's connections did. RESETSTAT sets it back.
type stats struct {
	connections        atomic.Int64
	rejected           atomic.Int64 // over maxclients
	commands           atomic.Int64
	inputBytes         atomic.Int64
	outputBytes        atomic.Int64
	reads              atomic.Int64 // of sockets
	writes             atomic.Int64
	subscribersDropped atomic.Int64
	errorReplies       atomic.Int64

	mu     sync.Mutex
	errors map[string]int64 // by the first word of the error

	rate, inputRate, outputRate rate
}

// latencyBuckets bounds the histogram: bucket i holds what took less than 2^i
// microseconds; the last one everything longer, from some nine minutes on.
const latencyBuckets = 30

// commandStats are the figures of one command.
type commandStats struct {
	name     string
	calls    atomic.Int64
	micros   atomic.Int64
	rejected atomic.Int64 // refused before it ran
	failed   atomic.Int64 // answered with an error
	buckets  [latencyBuckets]atomic.Int64
}

func (c *commandStats) count(micros int64, failed bool) {
	c.calls.Add(1)
	c.micros.Add(micros)
	c.buckets[min(bits.Len64(uint64(micros)), latencyBuckets-1)].Add(1)
	if failed {
		c.failed.Add(1)
	}
}

func (c *commandStats) reset() {
	c.calls.Store(0)
	c.micros.Store(0)
	c.rejected.Store(0)
	c.failed.Store(0)
	for i := range c.buckets {
		c.buckets[i].Store(0)
	}
}

// percentile is the upper end of the bucket that holds the fraction q of calls.
func (c *commandStats) percentile(q float64) int64 {
	total := int64(0)
	for i := range c.buckets {
		total += c.buckets[i].Load()
	}
	want, seen := int64(q*float64(total)), int64(0)
	for i := range c.buckets {
		if seen += c.buckets[i].Load(); seen > 0 && seen >= want {
			return 1 << i
		}
	}
	return 0
}

// countError counts an error reply by its first word.
func (st *stats) countError(r resp.Reply) {
	st.errorReplies.Add(1)
	kind, _, _ := strings.Cut(r.Str, " ")
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.errors == nil {
		st.errors = map[string]int64{}
	}
	if _, known := st.errors[kind]; !known && len(st.errors) >= errorKindsMax {
		return
	}
	st.errors[strings.Clone(kind)]++
}

// errorKinds lists the counted errors by name.
func (st *stats) errorKinds() (kinds []string, counts []int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for kind := range st.errors {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		counts = append(counts, st.errors[kind])
	}
	return kinds, counts
}

func (st *stats) reset() {
	for _, n := range []*atomic.Int64{&st.connections, &st.rejected, &st.commands, &st.inputBytes, &st.outputBytes, &st.reads, &st.writes,
		&st.subscribersDropped, &st.errorReplies} {
		n.Store(0)
	}
	st.mu.Lock()
	st.errors = nil
	st.mu.Unlock()
}

// rate estimates how fast a figure grows, from samples that the janitor takes.
type rate struct {
	mu      sync.Mutex
	last    int64
	samples [16]float64
	next    int
}

func (r *rate) sample(sum int64, seconds float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seconds > 0 {
		r.samples[r.next%len(r.samples)] = max(0, float64(sum-r.last)/seconds)
		r.next++
	}
	r.last = sum
}

func (r *rate) perSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0.0
	for _, s := range r.samples {
		sum += s
	}
	return sum / float64(len(r.samples))
}
