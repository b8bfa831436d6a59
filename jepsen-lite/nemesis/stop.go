package nemesis

import (
	"fmt"
	"slices"
	"time"

	"lockd/jepsen-lite/target"
)

// restart ends nodes with SIGTERM and starts them again when the fault stops.
func restart(f *field, fault Fault) (string, func()) {
	switch fault.Variant {
	case "rolling":
		nodes := f.pick("all", fault.Dice)
		for _, n := range nodes {
			f.limit.briefly(n, func() {
				stopNode(f, n)
				bringBack(f, n)
			})
		}
		return fmt.Sprintf("restart rolling %v", nodes), func() { restartAll(f, nodes) }
	case "leader at once": // it counts for no harm limit, since it is away for a moment only
		nodes := f.pick("leader", fault.Dice)
		stopNode(f, nodes[0])
		restartAll(f, nodes)
		return fmt.Sprintf("restart leader at once %v", nodes), nil
	}
	nodes := f.victims(fault.Variant, fault.Dice)
	for _, n := range nodes {
		stopNode(f, n)
	}
	return fmt.Sprintf("restart %s %v", fault.Variant, nodes), func() { restartAll(f, nodes) }
}

// Times of a node that is told to end. It hands leadership over and answers the requests that it has taken, which takes
// a moment while the other nodes can do their part.
const (
	stopIn    = 2 * time.Second
	stopReady = 500 * time.Millisecond // for a node with little to do to answer a write
)

// timely are the faults beside which a node must end in time: they leave disks alone, and the links of clients.
var timely = []string{"kill", "pause", "partition", "transfer", "restart", "clock", "scenario"}

// stopNode ends a node with SIGTERM, and reports the node if that takes too long.
func stopNode(f *field, node string) {
	f.Target.Resume(node) // a paused node cannot obey
	ready := canStop(f, node) && takesWriteSoon(f, node)
	began := time.Now()
	f.Target.Shutdown(node)
	if took := time.Since(began); ready && took > stopIn && canStop(f, node) {
		f.found.add(
			"stopped late",
			fmt.Sprintf("%s ended %.1f s after SIGTERM, with a majority that it could reach; %s are well",
				node, took.Seconds(), stopIn),
		)
	}
}

// canStop reports whether nothing keeps a node from ending in time: its clients reach it, and it reaches enough others
// for a majority.
func canStop(f *field, node string) bool {
	whole := func(other string) bool {
		return f.Target.Net().State(node, other) == target.Whole && f.Target.Net().State(other, node) == target.Whole
	}
	if slices.ContainsFunc(f.kinds, func(kind string) bool { return !slices.Contains(timely, kind) }) ||
		!whole(target.Clients) {
		return false
	}
	reached := 1
	for _, o := range f.others(node) {
		if whole(o) && f.Target.Serving(o) {
			reached++
		}
	}
	return reached > len(f.Target.Nodes())/2
}

// takesWriteSoon reports whether a node answers a write within stopReady.
func takesWriteSoon(f *field, node string) bool {
	r, err := f.Target.Do(node, stopReady, "SET", provokeKey, time.Now().String())
	return err == nil && !r.IsErr()
}
