package nemesis

import (
	"fmt"
	"slices"
	"sync"
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

// Times of the fault together.
const (
	togetherIdle  = 8 * time.Second // without a write: longer than the log clock may lag behind
	togetherDark  = time.Second     // without a node
	togetherLag   = 5 * time.Second // by which a restart of all nodes may make a lease longer, beyond the time without them
	togetherSlack = time.Second     // for an election, and for a busy machine
	togetherEarly = 50 * time.Millisecond
)

// restartTogether ends all nodes at once, and starts them again. The clients are silent before, so that the log clock lags
// behind as far as it may. A lease is then longer by the time without nodes and a bound, and nothing is lost.
func restartTogether(f *field, fault Fault) (string, func()) {
	what := "together: " + fault.Variant + " all"
	speak := f.quietClients()
	defer speak()
	drain(f)
	if !settled(f) {
		return what + " (not settled)", nil
	}
	l := openLedger(f, fault.Dice)
	defer l.close()
	l.wait(busyMin)
	l.stop()
	l.lock("held")
	before, ok := l.look()
	if !ok || !f.wait(togetherIdle) {
		return what, nil
	}
	ending := time.Now()
	endAll(f, fault.Variant == "stop")
	ended := time.Now()
	f.wait(togetherDark)
	dark := time.Since(ended)
	restartAll(f, f.Target.Nodes())
	for until := ended.Add(settleMax); time.Now().Before(until) && !f.isOver() && l.lock("last") == 0; {
	}
	back := time.Now()
	if after, ok := l.look(); ok && !f.isOver() {
		l.judgeRestart(before, after, dark, back.Sub(ending))
	}
	return fmt.Sprintf("%s, and back in %.1f s", what, back.Sub(ending).Seconds()), nil
}

// endAll ends all nodes at the same time.
func endAll(f *field, inOrder bool) {
	var all sync.WaitGroup
	for _, n := range f.Target.Nodes() {
		all.Go(func() {
			if inOrder {
				f.Target.Shutdown(n)
			} else {
				f.Target.Kill(n)
			}
		})
	}
	all.Wait()
}

// looked is a look at a ledger: what its witnesses wrote, and the rest of the lease of its lock "held".
type looked struct {
	from, to time.Time
	entries  []string
	left     time.Duration
}

// look looks at the ledger, through the first node that answers.
func (l *ledger) look() (at looked, ok bool) {
	for _, node := range l.Target.Nodes() {
		if l.isOver() {
			return at, false
		}
		entries, err := l.Target.Do(node, ledgerWait, l.reading()...)
		if err != nil || len(entries.Elems) == 0 {
			continue
		}
		at.from, at.entries = time.Now(), entries.Texts()
		left, err := l.Target.Do(node, ledgerWait, "PTTL", l.name("held"))
		if at.to, at.left = time.Now(), time.Duration(left.Int)*time.Millisecond; err == nil && left.Kind == ':' {
			return at, true
		}
	}
	return at, false
}

// judgeRestart compares what was there before and after a restart of all nodes. dark: no node ran for so long; away: no
// node did a write for so long.
func (l *ledger) judgeRestart(before, after looked, dark, away time.Duration) {
	l.found.stake("lease-over-restarts")
	l.found.stake("lease-not-short-over-restarts")
	ran := before.left - after.left
	least, most := after.from.Sub(before.to)-away-togetherLag-togetherSlack, after.to.Sub(before.from)-dark
	if after.left < 0 || ran < least {
		l.found.add("lease too long", fmt.Sprintf("%s of it are gone after a restart of all nodes, and at least %s must be: "+
			"the nodes were away for %s", ran, least, away))
	}
	if ran > most+togetherEarly {
		l.found.add("lease too short", fmt.Sprintf("%s of it are gone after a restart of all nodes, and %s were with a "+
			"node: none ran for %s", ran, most, dark))
	}
	l.found.stake("nothing-lost-in-restarts")
	if lacks, torn := l.check(after.entries, l.acked()); lacks != "" || torn != "" {
		l.found.add("lost in a restart", fmt.Sprintf("the state after a restart of all nodes %s%s", lacks, torn))
	}
}
