// Package figures counts and measures the work of a node's parts, for monitoring.
package figures

import (
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster/peer"
	"lockd/cluster/store"
	"lockd/resp"
)

// durationBuckets is the number of buckets of a histogram: bucket i counts durations below 2^i µs, the last one all
// from 17 seconds on.
const durationBuckets = 26

// Durations is a histogram of durations. Its methods may be called concurrently.
type Durations struct {
	micros atomic.Int64
	counts [durationBuckets]atomic.Int64
}

// Add counts one duration.
func (d *Durations) Add(took time.Duration) {
	micros := max(0, took.Microseconds())
	d.micros.Add(micros)
	d.counts[min(bits.Len64(uint64(micros)), durationBuckets-1)].Add(1)
}

// Metric returns the histogram.
func (d *Durations) Metric(name, help string) resp.Metric {
	counts := make([]int64, durationBuckets)
	for i := range counts {
		counts[i] = d.counts[i].Load()
	}
	return resp.Metric{Name: name, Help: help, Kind: resp.Histogram, Of: []resp.Sample{
		{Value: float64(d.micros.Load()) / 1e6, Counts: counts},
	}}
}

// Writes follows the writes of this node, from its clients and from other nodes, and reports whether they are stuck:
// some wait, and none has been committed for a while. Its methods may be called concurrently; times are monotonic.
type Writes struct {
	open   atomic.Int64 // in progress
	since  atomic.Int64 // time since which writes have waited without a commit
	failed atomic.Int64 // time at which one ended without an outcome; 0: none has
}

// Begin records that a write waits from now on. A write that comes soon after the failure of another one counts as
// waiting since that failure: programs try again.
func (w *Writes) Begin(now, patience time.Duration) {
	failed := w.failed.Load()
	if w.open.Add(1) == 1 && (failed == 0 || now-time.Duration(failed) >= patience) {
		w.since.Store(int64(now))
	}
}

// End records the outcome of a write, and the index of its entry. A write that was answered without an entry (index 0),
// because it would have changed nothing, counts neither as progress nor as stuck.
func (w *Writes) End(now time.Duration, o peer.Outcome, index uint64) {
	w.Note(now, o, index)
	w.open.Add(-1)
}

// Note records the outcome of a part of a write.
func (w *Writes) Note(now time.Duration, o peer.Outcome, index uint64) {
	switch {
	case o != peer.Done:
		w.failed.Store(int64(now))
	case index > 0:
		w.since.Store(int64(now))
		w.failed.Store(0)
	}
}

// Stuck reports whether writes have waited for longer than patience, and none was committed in that time.
func (w *Writes) Stuck(now, patience time.Duration) bool {
	failed := w.failed.Load()
	waits := w.open.Load() > 0 || failed > 0 && now-time.Duration(failed) < patience
	return waits && now-time.Duration(w.since.Load()) > patience
}

// Executions counts the commands that this node's machine has executed, by family, with their times. Its methods may be
// called concurrently.
type Executions struct {
	mu sync.Mutex
	of map[string]execution
}

type execution struct {
	commands int64
	took     time.Duration
}

// Add counts commands that took a time together.
func (x *Executions) Add(cmds []resp.Cmd, took time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range cmds {
		if cmds[i].Spec == nil {
			continue
		}
		e := x.of[cmds[i].Spec.Group]
		e.commands++
		e.took += took / time.Duration(len(cmds))
		if x.of == nil {
			x.of = map[string]execution{}
		}
		x.of[cmds[i].Spec.Group] = e
	}
}

// Metric returns the sums by family.
func (x *Executions) Metric() resp.Metric {
	m := resp.Metric{
		Name: "lockd_command_execution_seconds", Kind: resp.Summary, Labels: []string{"family"},
		Help: "How long this node's machine took to execute commands, without any wait: writes are executed on every " +
			"node, reads on the leader. Requests of an entry share its time by their work.",
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, family := range slices.Sorted(maps.Keys(x.of)) {
		e := x.of[family]
		m.Of = append(m.Of, resp.Sample{Labels: []string{family}, Value: e.took.Seconds(), Count: e.commands})
	}
	return m
}

// Room keeps the latest measurement of the space on this node's disk. Its methods may be called concurrently.
type Room struct{ last atomic.Pointer[store.Room] }

// Set stores a measurement.
func (d *Room) Set(room store.Room) { d.last.Store(&room) }

// Now returns the last measurement; the zero value if there is none.
func (d *Room) Now() store.Room {
	if room := d.last.Load(); room != nil {
		return *room
	}
	return store.Room{}
}
