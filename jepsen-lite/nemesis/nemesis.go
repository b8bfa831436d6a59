package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// Kind is one row of the table.
type Kind struct {
	Name, Summary string
	Variants      []string
	Port          bool // it needs the fault ports of a test build
	// Do begins a fault. It returns what it did, for the history, and how to end it;
	// undo may be nil.
	Do func(f *Field, fault Fault) (what string, undo func())
}

// Table is every kind of fault.
var Table = []Kind{
	{"kill", "SIGKILL, and a restart at once, at the end of the fault or after 10 s", []string{"leader", "follower", "majority", "all", "storm"}, false, kill},
	{"pause", "SIGSTOP, and SIGCONT at the end of the fault", []string{"leader", "follower", "majority", "all", "flutter"}, false, pause},
	{"partition", "links between nodes hold their bytes back", []string{"leader alone", "follower alone", "minority", "leader deaf", "leader mute", "bridge", "ring", "halves", "flapping"}, false, partition},
	{"late", "the leader stops until another is elected; then the last answers to it arrive", []string{"leader"}, false, late},
	{"slow", "links between nodes delay with jitter, drip, break in mid-stream, or take and never answer", []string{"delay", "jitter", "drip", "reset", "torn", "half-open"}, false, slow},
	{"clients", "links between clients and nodes do the same", []string{"delay", "drip", "reset", "torn", "half-open", "cut answers"}, false, clients},
	{"transfer", "leadership is handed over, again and again", []string{"once", "often"}, false, transfer},
	{"restart", "SIGTERM, and a restart at the end of the fault", []string{"leader", "follower", "rolling"}, false, restart},
	{"snapshot", "nodes take a snapshot and trim their log; then one is killed", []string{"all", "kill"}, false, snapshot},
	{"disk", "a node is killed and its newest snapshot removed before it starts", []string{"leader", "follower"}, false, disk},
	{"flip", "a follower is killed and one bit of its data folder flipped before it starts", []string{"log", "snapshot", "votes"}, false, flip},
	{"member", "a node loses its disk; it is removed, and a new one joins under a new id", []string{"leader", "follower"}, false, member},
	{"load", "many more clients: 64 that pipeline, 512 KiB values, 5,000 connections, scripts up to the limit", []string{"burst", "large", "connections", "scripts"}, false, load},
	{"clock", "the wall clock steps, strobes, or runs 5 % fast or slow", []string{"step one", "step leader", "step all", "strobe one", "strobe leader", "strobe all", "fast one", "fast leader", "slow one", "slow leader"}, true, clock},
	{"point", "nodes die at one of all fault points, by a kill or without power", []string{"leader", "follower", "all"}, true, point},
	{"store", "a write to the disk fails with EIO or ENOSPC; the node must stop", []string{"leader error", "leader full", "follower error", "follower full"}, true, store},
	{"stall", "the disk hangs for 0.5, 3 or 30 s", []string{"leader", "follower"}, true, stall},
	{"unsynced", "nodes lose power: what was not synced is lost, or torn", []string{"drop leader", "drop follower", "drop majority", "drop all", "tear leader", "tear follower", "tear majority", "tear all"}, true, unsynced},
	{"vote", "a follower dies between the two halves of a vote", []string{"pause", "kill"}, true, vote},
}

// Find returns the row of a name, or nil.
func Find(name string) *Kind {
	for i := range Table {
		if Table[i].Name == name {
			return &Table[i]
		}
	}
	return nil
}

// Fault is one planned fault.
type Fault struct {
	Kind, Variant string
	Dice          uint64 // chooses victims and sizes
}

// Step is one or more faults at once.
type Step struct {
	After  time.Duration // pause before it, with nothing broken
	For    time.Duration // how long it lasts
	Faults []Fault
}

// Plan makes a schedule that is at least as long as total. Steps have one fault
// each, or, if mixed, up to four of different kinds.
func Plan(seed uint64, total time.Duration, kinds []string, mixed bool) []Step {
	rng := rand.New(rand.NewPCG(seed, 0x6e656d65736973))
	var steps []Step
	for sum := time.Duration(0); len(kinds) > 0 && sum < total; {
		s := Step{
			After: time.Duration(300+rng.IntN(1700)) * time.Millisecond,
			For:   time.Duration(100+rng.IntN(2400)) * time.Millisecond,
		}
		if rng.IntN(3) == 0 {
			s.For *= 3
		}
		count := 1
		if mixed {
			count = 1 + rng.IntN(min(4, len(kinds)))
		}
		for _, i := range rng.Perm(len(kinds))[:count] {
			k := Find(kinds[i])
			s.Faults = append(s.Faults, Fault{k.Name, k.Variants[rng.IntN(len(k.Variants))], rng.Uint64()})
		}
		steps = append(steps, s)
		sum += s.After + s.For
	}
	return steps
}

// Field is where faults take place.
type Field struct {
	Target  target.Target
	History *history.Recorder

	links   *target.Layer // of one fault
	ids     atomic.Int64
	current atomic.Pointer[string]
}

// own is the field for one fault: what others do to links is not undone with it.
func (f *Field) own() *Field {
	return &Field{Target: f.Target, History: f.History, links: f.Target.Net().Layer()}
}

// Current is what is broken now, "" if nothing is.
func (f *Field) Current() string {
	if s := f.current.Load(); s != nil {
		return *s
	}
	return ""
}

// Run carries out a plan until ctx ends. When it returns the cluster is whole.
func (f *Field) Run(ctx context.Context, plan []Step) {
	defer f.Heal()
	for _, s := range plan {
		if !sleep(ctx, s.After) {
			return
		}
		f.step(ctx, s)
	}
}

func (f *Field) step(ctx context.Context, s Step) {
	var undo []func()
	all := ""
	for _, fault := range s.Faults {
		id := fmt.Sprint(f.ids.Add(1))
		ev := history.Event{Process: history.Nemesis, Type: history.Invoke, Op: fault.Kind, Key: id}
		// The window begins before the fault does: its victim is not known yet.
		ev.Value = []string{fault.Variant}
		f.History.Record(ev)
		what, end := Find(fault.Kind).Do(f.own(), fault)
		all += what + "; "
		undo = append(undo, func() {
			if end != nil {
				end()
			}
			ev.Type, ev.Value = history.OK, []string{what}
			f.History.Record(ev)
		})
	}
	f.current.Store(&all)
	sleep(ctx, s.For)
	for _, u := range undo {
		u()
	}
	none := ""
	f.current.Store(&none)
}

// Heal makes the cluster whole.
func (f *Field) Heal() {
	f.Target.Net().Heal()
	for _, n := range f.Target.Nodes() {
		f.Target.Resume(n)
		_ = f.Target.Restart(n) // what cannot start is found by the health check
	}
}

// victims chooses nodes: "leader", "follower", "majority" or "all".
func (f *Field) victims(which string, dice uint64) []string {
	nodes := slices.Clone(f.Target.Nodes())
	rand.New(rand.NewPCG(dice, 1)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	switch which {
	case "all":
		return nodes
	case "majority":
		return nodes[:len(nodes)/2+1]
	}
	leader := f.Target.Leader()
	for _, n := range nodes {
		if (n == leader) == (which == "leader") {
			return []string{n}
		}
	}
	return nodes[:1] // nobody leads
}

func (f *Field) others(node string) []string {
	return slices.DeleteFunc(slices.Clone(f.Target.Nodes()), func(n string) bool { return n == node })
}

// dice are the throws that a fault makes beyond the choice of its victims.
func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// repeat calls do again and again until the returned function is called, which
// waits for the last call to end.
func repeat(every time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for {
			do()
			if !sleep(ctx, every) {
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
