package nemesis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// SettleMax bounds how long faults may last after the time of a run has ended. A fault that is on at that time goes no
// further, and what it has broken is made whole. Only a node that does not end when told to may take longer; it is
// reported.
const SettleMax = 30 * time.Second

// Runner carries out a plan: it waits, starts the faults of a step, waits, and stops them in the order of their turns.
// Each fault is an event of the history from its start to its stop.
type Runner struct {
	Target  target.Target
	History *history.Recorder
	Quiet   func(on bool) // stops the clients (true) until as many calls with false; may be nil
	// NextLevel is the highest level that NextBuild can do if it is a real build, which has neither NextCommand nor
	// NextSetting. It is 0 if NextBuild is the stand-in.
	NextLevel int
	// Pace is the pause of a load's client between two steps. Simulated nodes take no time, so clients without a pause
	// would send without end.
	Pace time.Duration
	// Idle is the number of idle clients that a load connects; 0: thousands, or the most that this process may have files
	// for. The connections of simulated nodes take memory of this program at both ends.
	Idle int
	Race bool // the nodes have Go's race detector, which takes memory

	over    <-chan struct{} // closed when the time of the run has ended; nil: never
	found   findings
	ids     atomic.Int64
	current atomic.Pointer[string]
}

// Run carries out a plan until ctx ends, and stops the faults that are on then, within SettleMax. When it returns, the
// cluster is whole.
func (r *Runner) Run(ctx context.Context, plan []Step) {
	r.over = ctx.Done()
	defer r.Heal()
	for _, s := range plan {
		if !sleep(ctx, s.After) {
			return
		}
		r.step(ctx, s)
	}
}

// step carries out one step.
func (r *Runner) step(ctx context.Context, s Step) {
	var limit *harmLimit
	if !s.Wide {
		limit = newHarmLimit(len(r.Target.Nodes()))
	}
	var kinds []string
	for _, fault := range s.Faults {
		kinds = append(kinds, fault.Kind)
	}
	var on []active
	all := ""
	for _, fault := range s.Faults {
		f := r.field(limit, kinds...)
		if f.isOver() {
			break
		}
		a := r.start(f, fault)
		on, all = append(on, a), all+a.what+"; "
	}
	r.current.Store(&all)
	sleep(ctx, s.For)
	sortByTurn(on)
	for _, a := range on {
		r.stop(a)
	}
	none := ""
	r.current.Store(&none)
}

// active is a fault that has been started.
type active struct {
	turn  turn
	what  string // what it does, and to whom
	stop  func() // may be nil
	event history.Event
}

// start starts a fault. Its event begins before it, without its victims, which are not chosen yet.
func (r *Runner) start(f *field, fault Fault) active {
	event := history.Event{
		Process: history.Nemesis, Type: history.Invoke, Op: fault.Kind, Key: fmt.Sprint(r.ids.Add(1)),
		Value: []string{fault.Variant},
	}
	r.History.Record(event)
	kind := Find(fault.Kind)
	what, stop := kind.Start(f, fault)
	return active{kind.StopTurn, what, stop, event}
}

// stop stops a fault.
func (r *Runner) stop(a active) {
	if a.stop != nil {
		a.stop()
	}
	a.event.Type, a.event.Value = history.OK, []string{a.what}
	r.History.Record(a.event)
}

// sortByTurn puts faults into the order in which they are stopped.
func sortByTurn(on []active) {
	slices.SortStableFunc(on, func(a, b active) int { return int(a.turn - b.turn) })
}

// Heal makes the cluster whole.
func (r *Runner) Heal() {
	r.Target.Net().Heal()
	for _, n := range r.Target.Nodes() {
		r.Target.Resume(n)
		_ = r.Target.Restart(n) // the health check finds a node that cannot start
	}
}

// Found returns what faults found wrong. It may be called when Run has returned.
func (r *Runner) Found() []Finding { return r.found.all }

// AtStake returns how often faults put rules at stake, by the rules' ids. It may be called when Run has returned.
func (r *Runner) AtStake() map[string]int { return r.found.atStake }

// Current describes the faults that are on now; "" if there is none.
func (r *Runner) Current() string {
	if s := r.current.Load(); s != nil {
		return *s
	}
	return ""
}

// Finding is something wrong that a fault itself has seen.
type Finding struct{ Kind, Text string }

// findings collects findings. Its methods may be called concurrently.
type findings struct {
	mu      sync.Mutex
	all     []Finding
	atStake map[string]int   // id of a rule -> how often it was at stake
	least   map[string]int64 // node -> the least memory that it was seen to have, in bytes
}

// stake counts that a rule was at stake.
func (f *findings) stake(rule string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.atStake == nil {
		f.atStake = map[string]int{}
	}
	f.atStake[rule]++
}

// add adds a finding.
func (f *findings) add(kind, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, Finding{kind, text})
}
