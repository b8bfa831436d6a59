package nemesis

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// field is the means of one fault: the cluster, its victims, its own layer of the links, more clients, and the time that
// is left.
type field struct {
	Target  target.Target
	links   network
	clients extraClients
	choice
	deadline
	found     *findings
	history   *history.Recorder // nil in tests of single faults
	kinds     []string          // of all faults of the step
	quiet     func(on bool)     // see Runner.Quiet
	nextLevel int               // see Runner.nextLevel
	race      bool              // see Runner.Race
}

// field makes the field of one fault in a step with faults of some kinds. limit is nil in a step that may harm a
// majority.
func (r *Runner) field(limit *harmLimit, kinds ...string) *field {
	return &field{
		Target:    r.Target,
		links:     newNetwork(r.Target),
		clients:   extraClients{r.Target, r.Pace, r.Idle},
		choice:    choice{r.Target, limit},
		deadline:  deadline{r.over},
		found:     &r.found,
		history:   r.History,
		kinds:     kinds,
		quiet:     r.Quiet,
		nextLevel: r.NextLevel,
		race:      r.Race,
	}
}

// withOwnLinks returns the field with another layer of links, which can be cleared by itself.
func (f *field) withOwnLinks() *field {
	own := *f
	own.links = newNetwork(f.Target)
	return &own
}

// quietClients stops the clients until resume is called. Their running operations go on.
func (f *field) quietClients() (resume func()) {
	if f.quiet == nil {
		return func() {}
	}
	f.quiet(true)
	return sync.OnceFunc(func() { f.quiet(false) })
}

// deadline is the end of the run's time. A fault goes no further after it, and judges nothing that it would have to wait
// for.
type deadline struct {
	over <-chan struct{} // closed at the deadline; nil: never
}

// isOver reports whether the time of the run has ended.
func (d deadline) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// wait waits for a time. It returns false at once when the time of the run ends.
func (d deadline) wait(length time.Duration) bool {
	t := time.NewTimer(length)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.over:
		return false
	}
}

// untilOver returns a context that ends after a time, or when the time of the run ends.
func (d deadline) untilOver(length time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	go func() {
		select {
		case <-d.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// choice chooses the victims of a fault.
type choice struct {
	cluster target.Cluster
	limit   *harmLimit // of the step; nil: faults may harm a majority
}

// victims chooses nodes to harm until the end of the step, as pick does. Where the step spares a majority, they may be
// fewer than asked for, or nodes that another fault harms already.
func (c choice) victims(which string, dice uint64) []string { return c.limit.take(c.pick(which, dice)) }

// pick chooses nodes, at least one:
//
//	leader, follower, any   one node
//	few                     as many as are never a majority, the leader among them
//	others                  as many, without the leader
//	majority, all           as many as the word says
func (c choice) pick(which string, dice uint64) []string {
	nodes := slices.Clone(c.cluster.Nodes())
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
	leader := c.cluster.Leader()
	first := slices.Index(nodes, leader)
	if first < 0 || len(nodes) == 1 {
		return nodes[:1] // no node leads
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

// others returns all nodes but one.
func (c choice) others(node string) []string {
	return slices.DeleteFunc(slices.Clone(c.cluster.Nodes()), func(n string) bool { return n == node })
}

// harmLimit bounds how many nodes all faults of a step may harm at a time, so that a majority stays unharmed. A nil limit
// bounds nothing. Its methods may be called concurrently.
type harmLimit struct {
	most int

	mu     sync.Mutex
	harmed map[string]int // node -> number of faults that harm it
}

// newHarmLimit spares a majority of the nodes. It returns nil for one or two nodes, all of which would be spared.
func newHarmLimit(nodes int) *harmLimit {
	if nodes < 3 {
		return nil
	}
	return &harmLimit{most: (nodes - 1) / 2, harmed: map[string]int{}}
}

// take returns the wanted nodes that may be harmed until the end of the step. If none may, it returns a node that is
// harmed already.
func (l *harmLimit) take(wanted []string) (taken []string) {
	if l == nil {
		return wanted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range wanted {
		if l.admits(n) {
			l.harmed[n]++
			taken = append(taken, n)
		}
	}
	if len(taken) == 0 {
		taken = slices.Sorted(maps.Keys(l.harmed))[:1]
		l.harmed[taken[0]]++
	}
	return taken
}

// admits reports whether a node may be harmed. l.mu is held.
func (l *harmLimit) admits(node string) bool { return l.harmed[node] > 0 || len(l.harmed) < l.most }

// briefly calls do, which harms a node and leaves it whole. It does nothing if too many nodes are harmed already.
func (l *harmLimit) briefly(node string, do func()) {
	if l != nil {
		l.mu.Lock()
		admitted := l.admits(node)
		if admitted {
			l.harmed[node]++
		}
		l.mu.Unlock()
		if !admitted {
			return
		}
		defer l.giveBack(node)
	}
	do()
}

func (l *harmLimit) giveBack(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.harmed[node]--; l.harmed[node] == 0 {
		delete(l.harmed, node)
	}
}

// dice returns the random numbers of a fault beyond the choice of its victims.
func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// repeat calls do again and again until stop is called, which waits for the last call to end.
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

// sleep waits for a time, or returns false when ctx ends.
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
