// Package figures counts and measures what the parts of a node do, for those who watch it from outside.
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

// durationBuckets bounds a histogram: bucket i counts less than 2^i µs, the last one everything from 17 seconds on.
const durationBuckets = 26

// Durations counts how long something took, as a histogram. Its methods may be called concurrently.
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

// Writes follows the writes that have come to this node, from its clients and from other nodes, and tells whether they
// are stuck: they wait, and none has been committed for a while. Its methods may be called concurrently; times are monotonic.
type Writes struct {
	open   atomic.Int64 // under way
	since  atomic.Int64 // time since which writes have waited and none was committed
	failed atomic.Int64 // time at which one ended without an outcome; 0: none has
}

// Begin records that a write waits from now on. A write that comes soon after another has failed counts as waiting since
// that failure: programs try again.
func (w *Writes) Begin(now, patience time.Duration) {
	failed := w.failed.Load()
	if w.open.Add(1) == 1 && (failed == 0 || now-time.Duration(failed) >= patience) {
		w.since.Store(int64(now))
	}
}

// End records how a write ended, and the index of its entry. A write that was answered without an entry, index 0, because
// it would have changed nothing, says neither that writes go on nor that they are stuck.
func (w *Writes) End(now time.Duration, o peer.Outcome, index uint64) {
	w.Note(now, o, index)
	w.open.Add(-1)
}

// Note records how a part of a write ended.
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

// Executions counts the commands that the machine of this node has executed, by family, and the time that they took. Its
// methods may be called concurrently.
type Executions struct {
	mu sync.Mutex
	of map[string]execution
}

type execution struct {
	commands int64
	took     time.Duration
}

// Add counts commands that have shared the time took.
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

// Room keeps the room on this node's disk as it was measured last. Its methods may be called concurrently.
type Room struct{ last atomic.Pointer[store.Room] }

// Set keeps a measurement.
func (d *Room) Set(room store.Room) { d.last.Store(&room) }

// Now returns the last measurement; the zero value if there is none.
func (d *Room) Now() store.Room {
	if room := d.last.Load(); room != nil {
		return *room
	}
	return store.Room{}
}
