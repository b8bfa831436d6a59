package cluster

import (
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster/store"
	"lockd/resp"
)

// durationBuckets bounds a histogram: the last bucket has all that took longer than half a minute.
const durationBuckets = 26

// durations counts how long something took. Its methods may be called concurrently.
type durations struct {
	micros atomic.Int64
	counts [durationBuckets]atomic.Int64
}

func (d *durations) add(took time.Duration) {
	micros := max(0, took.Microseconds())
	d.micros.Add(micros)
	d.counts[min(bits.Len64(uint64(micros)), durationBuckets-1)].Add(1)
}

func (d *durations) metric(name, help string) resp.Metric {
	counts := make([]int64, durationBuckets)
	for i := range counts {
		counts[i] = d.counts[i].Load()
	}
	return resp.Metric{Name: name, Help: help, Kind: resp.Histogram, Of: []resp.Sample{
		{Value: float64(d.micros.Load()) / 1e6, Counts: counts},
	}}
}

// writes follows the writes that have come to this node, from its clients and from other nodes, to tell whether they are
// stuck. Its methods may be called concurrently; times are monotonic.
type writes struct {
	open   atomic.Int64 // under way
	since  atomic.Int64 // time since which writes have waited and none was committed
	failed atomic.Int64 // time at which one ended without an outcome; 0: none has
}

// begin notes that a write waits from now on. One that comes soon after another has failed counts as waiting since
// that one did: programs try again.
func (w *writes) begin(now, patience time.Duration) {
	failed := w.failed.Load()
	if w.open.Add(1) == 1 && (failed == 0 || now-time.Duration(failed) >= patience) {
		w.since.Store(int64(now))
	}
}

// end notes how a write ended. One that was answered without an entry of the log, as it would have changed nothing, says
// neither that writes go on nor that they do not.
func (w *writes) end(now time.Duration, o outcome, index uint64) {
	w.note(now, o, index)
	w.open.Add(-1)
}

// note notes what has become of a part of a write.
func (w *writes) note(now time.Duration, o outcome, index uint64) {
	switch {
	case o != outcomeDone:
		w.failed.Store(int64(now))
	case index > 0:
		w.since.Store(int64(now))
		w.failed.Store(0)
	}
}

// stuck reports whether writes have waited for longer than patience, and none was committed in that time.
func (w *writes) stuck(now, patience time.Duration) bool {
	failed := w.failed.Load()
	waits := w.open.Load() > 0 || failed > 0 && now-time.Duration(failed) < patience
	return waits && now-time.Duration(w.since.Load()) > patience
}

// executions counts what the machine of this node has executed, by the family of the commands, and how
// long it took. Its methods may be called concurrently.
type executions struct {
	mu sync.Mutex
	of map[string]execution
}

type execution struct {
	commands int64
	took     time.Duration
}

// add counts commands, which share their time.
func (x *executions) add(cmds []resp.Cmd, took time.Duration) {
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

func (x *executions) metric() resp.Metric {
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

// diskRoom is the room on this node's disk as it was measured last. Its methods may be called concurrently.
type diskRoom struct{ last atomic.Pointer[store.Room] }

// now returns the room; the zero value where it is not known.
func (d *diskRoom) now() store.Room {
	if room := d.last.Load(); room != nil {
		return *room
	}
	return store.Room{}
}
