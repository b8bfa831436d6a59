package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	Undo          turn // when it is ended, among the faults of a step
	// Do begins a fault. It returns what it did, for the history, and how to end it;
	// undo may be nil.
	Do func(f *Field, fault Fault) (what string, undo func())
}

// turn is the place of a fault among those that end together. A node that comes back finds
// the links whole, and one that joins finds all others.
type turn int

const (
	links    turn = iota // heal, and what asks too much ends
	resumes              // what was paused goes on
	disarms              // no point is armed any more
	restarts             // what is down is started
	joins                // what lost its disk is replaced
)

// Table is every kind of fault.
var Table = []Kind{
	{
		"kill", "SIGKILL, and a restart at once, at the end of the fault or after 10 s",
		[]string{"leader", "follower", "majority", "all", "storm"}, false, restarts, kill,
	},
	{
		"pause", "SIGSTOP, and SIGCONT at the end of the fault",
		[]string{"leader", "follower", "majority", "all", "flutter"}, false, resumes, pause,
	},
	{
		Absent,
		"one node alone is killed or stopped for 1 to 6 s, when clients have come to wait at it; in a step of its own",
		[]string{"kill leader", "kill follower", "pause leader", "pause follower"}, false, restarts, absent,
	},
	{
		"partition",
		"links between nodes hold their bytes back",
		[]string{
			"leader alone", "follower alone", "minority", "leader deaf", "leader mute", "bridge", "ring",
			"halves", "flapping",
		},
		false,
		links,
		partition,
	},
	{
		"late",
		"the leader stops until another is elected, or hands over; then the last answers to it arrive",
		[]string{"leader", "hand-over"}, false, links, late,
	},
	{
		"slow",
		"links between nodes delay with jitter, drip, break in mid-stream, take and never answer, open no " +
			"connection, or drip while large values are written",
		[]string{"delay", "jitter", "drip", "reset", "torn", "half-open", "no dials", "clogged"}, false, links, slow,
	},
	{
		"port",
		"the port by which the others reach a node refuses again and again, or for all of the fault, though the node " +
			"lives; or another process has taken it while the node is dead",
		[]string{"flap leader", "flap follower", "cut leader", "cut follower", "apart", "silent", "rubbish"}, false, restarts,
		port,
	},
	{
		"clients", "links between clients and nodes do the same",
		[]string{"delay", "drip", "reset", "torn", "half-open", "cut answers"}, false, links, clients,
	},
	{"transfer", "leadership is handed over, again and again", []string{"once", "often"}, false, links, transfer},
	{
		"restart", "SIGTERM, and a restart at once or at the end of the fault; it must end within 2 s",
		[]string{"leader", "follower", "rolling", "leader at once"}, false, restarts, restart,
	},
	{
		"snapshot", "nodes take a snapshot and trim their log; then one is killed", []string{"all", "kill"},
		false, restarts, snapshot,
	},
	{
		"install",
		"a follower needs a snapshot from its leader, over links that drip, break or are cut; or the leader is " +
			"killed meanwhile, and started at once",
		[]string{"drip", "break", "cut", "kill"}, false, links, install,
	},
	{
		"disk", "a node is killed and its newest snapshot removed before it starts",
		[]string{"leader", "follower"}, false, restarts, disk,
	},
	{
		"flip", "a follower is killed and one bit of its data folder flipped before it starts",
		[]string{"log", "snapshot", "votes"}, false, restarts, flip,
	},
	{
		"member", "a node loses its disk; it is removed, and a new one joins under a new id",
		[]string{"leader", "follower"}, false, joins, member,
	},
	{
		"load", "many more clients: 64 that pipeline, 512 KiB values, 5,000 connections, scripts up to the limit",
		[]string{"burst", "large", "connections", "scripts"}, false, links, load,
	},
	{
		"descriptors",
		"a node has few file descriptors left, and more clients come than there are; or strangers to its peer port, " +
			"too",
		[]string{"leader", "follower", "leader strangers", "follower strangers"}, false, links, descriptors,
	},
	{
		"hostile",
		"hostile clients at every node: who say a byte a second, begin handshakes, read no answer, guess passwords, " +
			"send lines and commands without end",
		[]string{"drip", "handshakes", "crowd", "deaf", "guesses", "lines", "huge"}, false, links, hostile,
	},
	{
		"clock",
		"the wall clock steps, strobes, or runs 5 % fast or slow",
		[]string{
			"step one", "step leader", "step all", "strobe one", "strobe leader", "strobe all", "fast one",
			"fast leader", "slow one", "slow leader",
		},
		true,
		disarms,
		clock,
	},
	{
		"point", "nodes die at one of all fault points, by a kill or without power",
		[]string{"leader", "follower", "all"}, true, disarms, point,
	},
	{
		"store", "a write to the disk fails with EIO or ENOSPC; the node must stop",
		[]string{"leader error", "leader full", "follower error", "follower full"}, true, disarms, store,
	},
	{
		"full", "the disk has no space until the fault ends; the node must stop, again and again",
		[]string{"leader", "follower", "majority"}, true, disarms, full,
	},
	{
		"stall", "a write or a sync of the disk hangs for 0.5, 3 or 30 s", []string{"leader", "follower"}, true,
		disarms, stall,
	},
	{
		"drag", "every sync takes 20 to 300 ms longer, on all nodes up to 100 ms",
		[]string{"leader", "follower", "all"}, true, disarms, drag,
	},
	{
		"unsynced",
		"nodes lose power: what was not synced is lost, or torn",
		[]string{
			"drop leader", "drop follower", "drop majority", "drop all", "tear leader", "tear follower",
			"tear majority", "tear all",
		},
		true,
		restarts,
		unsynced,
	},
	{"vote", "a follower dies between the two halves of a vote", []string{"pause", "kill"}, true, disarms, vote},
	{
		"frame",
		"single messages of one kind between a node and the others are lost, held, or come twice, or what is " +
			"answered to them",
		frameKinds, false, links, frame,
	},
	{
		"build",
		"a node, one after the other, or all together are started from a build that knows one command more, and then " +
			"from their own: a majority of one build serves, the others are refused; in a step of its own",
		[]string{"leader", "follower", "rolling", "together"}, false, restarts, build,
	},
	{
		Upgrade,
		"nodes go to the next release and back, one at a time, and then all of them, when the level rises: after each " +
			"step every node serves; in a step of its own",
		[]string{"back", "up"}, false, restarts, upgrade,
	},
	{
		"quiet",
		"nobody asks for anything for 1 to 10 s; then one client does, once, at each node, which must answer within " +
			"1 s; then all at once; in a step of its own",
		[]string{"write", "read", "script", "straggler"}, false, links, quiet,
	},
	{
		"scenario",
		"steps that led to a bug before, in their order: save twice and lose an answer, hand over to a disk that " +
			"hangs, and so on; in a step of its own",
		[]string{
			"save twice", "hand over", "stop leader", "join", "install", "large", "folder", "elected", "stopping",
			"mute", "stale",
		},
		true,
		restarts,
		scenario,
	},
}

// Find returns the row of a name, or nil. The name may be followed by a colon and one
// variant, with "-" for each space: that has its row alone.
func Find(name string) *Kind {
	name, variant, one := strings.Cut(name, ":")
	i := slices.IndexFunc(Table, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	k := Table[i]
	if one {
		v := slices.IndexFunc(k.Variants, func(v string) bool { return strings.ReplaceAll(v, " ", "-") == variant })
		if v < 0 {
			return nil
		}
		k.Variants = k.Variants[v : v+1]
	}
	return &k
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
	Wide   bool          // its faults may harm a majority
	Faults []Fault
}

// Absent is the kind of fault that harms one node alone, long enough for what its clients wait for to be free meanwhile.
const Absent = "absent"

// alone are the kinds of faults that have a step to themselves.
var alone = []string{Absent, "scenario", "quiet", OtherBuild, Upgrade}

// readers are the variants of faults that look into the messages between nodes, which TLS hides.
var readers = map[string][]string{"frame": frameKinds, "scenario": {"save twice", "mute", "stale"}}

// Reads are the variants of a row of Find that look into the messages between nodes; there are none of them where
// these speak TLS.
func (k *Kind) Reads() (variants []string) {
	for _, v := range k.Variants {
		if slices.Contains(readers[k.Name], v) {
			variants = append(variants, v)
		}
	}
	return variants
}

// blind is the row without them.
func (k *Kind) blind() *Kind {
	b := *k
	b.Variants = slices.DeleteFunc(slices.Clone(k.Variants), func(v string) bool { return slices.Contains(k.Reads(), v) })
	return &b
}

// wideOneIn is how many steps of a mixed plan there are for one that is wide.
const wideOneIn = 8

// Plan makes a schedule that is at least as long as total. Steps have one fault
// each, or, if mixed, up to four of different kinds; most of these together spare a
// majority of the nodes, as otherwise most of the time nothing could be answered. If blind, no variant is chosen
// that looks into the messages between nodes, and each kind must have others.
func Plan(seed uint64, total time.Duration, kinds []string, mixed, blind bool) []Step {
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
		s.Wide = true
		if mixed {
			s.Wide = rng.IntN(wideOneIn) == 0
			count = 1 + rng.IntN(min(4, len(kinds)))
		}
		for _, i := range rng.Perm(len(kinds))[:count] {
			k := Find(kinds[i])
			if blind {
				k = k.blind()
			}
			s.Faults = append(s.Faults, Fault{k.Name, k.Variants[rng.IntN(len(k.Variants))], rng.Uint64()})
		}
		if i := slices.IndexFunc(s.Faults, func(f Fault) bool { return slices.Contains(alone, f.Kind) }); i >= 0 {
			s.Faults = s.Faults[i : i+1] // others would spoil its order
		}
		steps = append(steps, s)
		sum += s.After + s.For
	}
	return steps
}

// SettleMax is how long faults may last beyond the time of a run: what is under way when that
// is over is cut short, and made whole. A node that does not end when it is told to, which is
// reported, may take longer.
const SettleMax = 30 * time.Second

// Field is where faults take place.
type Field struct {
	Target  target.Target
	History *history.Recorder
	Quiet   func(on bool) // has the clients ask for nothing, or again; may be nil
	// NextLevel is the highest level that the next build can do, if that is no stand-in: it has neither the command nor
	// the setting of that. 0: it is.
	NextLevel int
	Race      bool // the nodes have Go's race detector, which takes memory

	over    <-chan struct{} // closed when the time of the run is over; nil: it never is
	found   *findings
	links   *target.Layer // of one fault
	toll    *toll         // of one step
	kinds   []string      // of the faults of the step
	ids     atomic.Int64
	current atomic.Pointer[string]
}

// Finding is something wrong that a fault has seen itself.
type Finding struct{ Kind, Text string }

// findings are collected; add may be called concurrently.
type findings struct {
	mu    sync.Mutex
	all   []Finding
	least map[string]int64 // bytes of memory that a node had
}

func (f *findings) add(kind, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, Finding{kind, text})
}

func (f *Field) finds() *findings {
	if f.found == nil {
		f.found = &findings{}
	}
	return f.found
}

// Found is what was wrong. It may be called when Run has returned.
func (f *Field) Found() []Finding { return f.finds().all }

// hush has the clients ask for nothing until speak is called. What is under way goes on.
func (f *Field) hush() (speak func()) {
	if f.Quiet == nil {
		return func() {}
	}
	f.Quiet(true)
	return sync.OnceFunc(func() { f.Quiet(false) })
}

// own is the field for one fault of a step of some kinds: what others do to links is not
// undone with it.
func (f *Field) own(t *toll, kinds ...string) *Field {
	return &Field{
		Target:    f.Target,
		History:   f.History,
		Quiet:     f.Quiet,
		Race:      f.Race,
		NextLevel: f.NextLevel,
		over:      f.over,
		links:     f.Target.Net().Layer(),
		toll:      t,
		kinds:     kinds,
		found:     f.finds(),
	}
}

// Current is what is broken now, "" if nothing is.
func (f *Field) Current() string {
	if s := f.current.Load(); s != nil {
		return *s
	}
	return ""
}

// isOver reports whether the time of the run is over. A fault then goes no further, and
// judges nothing that it would have had to wait for.
func (f *Field) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// wait waits for d, or until the time of the run is over: then it reports false.
func (f *Field) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.over:
		return false
	}
}

// Run carries out a plan until ctx ends, and what is under way then for SettleMax at most.
// When it returns the cluster is whole.
func (f *Field) Run(ctx context.Context, plan []Step) {
	f.over = ctx.Done()
	defer f.Heal()
	for _, s := range plan {
		if !sleep(ctx, s.After) {
			return
		}
		f.step(ctx, s)
	}
}

func (f *Field) step(ctx context.Context, s Step) {
	var t *toll
	if !s.Wide {
		t = newToll(len(f.Target.Nodes()))
	}
	var kinds []string
	for _, fault := range s.Faults {
		kinds = append(kinds, fault.Kind)
	}
	undo := make([]func(), len(s.Faults))
	all := ""
	for i, fault := range s.Faults {
		if f.isOver() {
			s.Faults = s.Faults[:i]
			break
		}
		id := fmt.Sprint(f.ids.Add(1))
		ev := history.Event{Process: history.Nemesis, Type: history.Invoke, Op: fault.Kind, Key: id}
		// The window begins before the fault does: its victim is not known yet.
		ev.Value = []string{fault.Variant}
		f.History.Record(ev)
		what, end := Find(fault.Kind).Do(f.own(t, kinds...), fault)
		all += what + "; "
		undo[i] = func() {
			if end != nil {
				end()
			}
			ev.Type, ev.Value = history.OK, []string{what}
			f.History.Record(ev)
		}
	}
	f.current.Store(&all)
	sleep(ctx, s.For)
	for _, i := range undoOrder(s.Faults) {
		undo[i]()
	}
	none := ""
	f.current.Store(&none)
}

// undoOrder is the order in which faults are ended, as indexes.
func undoOrder(faults []Fault) []int {
	order := make([]int, len(faults))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(
		order,
		func(a, b int) int { return int(Find(faults[a].Kind).Undo - Find(faults[b].Kind).Undo) },
	)
	return order
}

// Heal makes the cluster whole.
func (f *Field) Heal() {
	f.Target.Net().Heal()
	for _, n := range f.Target.Nodes() {
		f.Target.Resume(n)
		_ = f.Target.Restart(n) // what cannot start is found by the health check
	}
}

// victims chooses nodes to harm, as pick does. If the step spares a majority, they may be
// fewer, or others that are harmed already.
func (f *Field) victims(which string, dice uint64) []string { return f.toll.take(f.pick(which, dice)) }

// pick chooses nodes: "leader", "follower", "any", "few" (as many as are never a majority,
// with the leader), "others" (as many without it), "majority" or "all". There is always one.
func (f *Field) pick(which string, dice uint64) []string {
	nodes := slices.Clone(f.Target.Nodes())
	rand.New(rand.NewPCG(dice, 1)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	few := max(1, (len(nodes)-1)/2)
	switch which {
	case "all":
		return nodes
	case "majority":
		return nodes[:len(nodes)/2+1]
	case "any":
		return nodes[:1]
	}
	leader := f.Target.Leader()
	first := slices.Index(nodes, leader)
	if first < 0 || len(nodes) == 1 {
		return nodes[:1] // nobody leads
	}
	nodes = slices.Insert(slices.Delete(nodes, first, first+1), 0, leader)
	switch which {
	case "leader":
		return nodes[:1]
	case "few":
		return nodes[:few]
	case "others":
		return nodes[1 : 1+few]
	}
	return nodes[1:2]
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
