package nemesis

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// watched is a target of which the history tells two things. Down and Up say when a
// process certainly did not run: leases do not run while no majority can. A process
// that dies at an armed point is not marked so. Serves, Leaves and Link say when a node
// certainly served, and whom it reached: then the cluster must answer.
type watched struct {
	target.Target
	history *history.Recorder
	nodes   map[string]*sync.Mutex // the marks of one node come in the order of what they tell

	mu    sync.Mutex           // held by no one who calls the target
	turns map[string]int       // of Leaves: who waits for a node to serve waits no longer after the next one
	serve map[string]bool      // as was told last
	links map[[2]string]string // likewise
}

// Watch returns t with marks in the history, and looks until ctx ends which nodes lack
// what they need a snapshot for. All nodes count as running and serving now, and all links
// as whole.
func Watch(ctx context.Context, t target.Target, h *history.Recorder) target.Target {
	w := &watched{
		Target:  t,
		history: h,
		nodes:   map[string]*sync.Mutex{},
		turns:   map[string]int{},
		serve:   map[string]bool{},
		links:   map[[2]string]string{},
	}
	for _, n := range t.Nodes() {
		w.nodes[n] = &sync.Mutex{}
		w.mark(history.Up, n)
		w.mark(history.Serves, n)
		w.serve[n] = true
	}
	t.Observe(target.Observer{Ended: w.leaves, Link: w.link})
	go func() {
		for sleep(ctx, lackLook) {
			for _, n := range t.Lacking() {
				w.lacks(n)
			}
		}
	}()
	return w
}

func (w *watched) mark(op, node string) {
	w.history.Record(history.Event{Process: history.Nemesis, Type: history.Info, Op: op, Node: node})
}

// leaves marks that a node serves no longer.
func (w *watched) leaves(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns[node]++
	w.serve[node] = false
	w.mark(history.Leaves, node)
}

// lacks marks that a node has not enough to serve, until it has.
func (w *watched) lacks(node string) {
	w.mu.Lock()
	serves := w.serve[node]
	w.mu.Unlock()
	if serves {
		w.leaves(node)
		w.attend(node)
	}
}

// serveMax bounds the wait for a node to serve, and serveLook is between two looks; lackLook
// is between two for nodes that lack something.
const (
	serveMax  = time.Minute
	serveLook = 50 * time.Millisecond
	lackLook  = 200 * time.Millisecond
)

// attend marks the node when it serves again, unless something else happens to it before.
func (w *watched) attend(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	turn := w.turns[node]
	go func() {
		for until := time.Now().Add(serveMax); time.Now().Before(until); time.Sleep(serveLook) {
			serves := w.Serving(node) && !slices.Contains(w.Lacking(), node)
			w.mu.Lock()
			over := w.turns[node] != turn
			if serves && !over {
				w.turns[node]++
				w.serve[node] = true
				w.mark(history.Serves, node)
			}
			w.mu.Unlock()
			if serves || over {
				return
			}
		}
	}()
}

// link marks what has become of a link.
func (w *watched) link(from, to string, s target.Shape) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := linkStates[s.State()]
	if last := w.links[[2]string{from, to}]; last == state || last == "" && state == history.LinkWhole {
		return
	}
	w.links[[2]string{from, to}] = state
	w.history.Record(history.Event{
		Process: history.Nemesis,
		Type:    history.Info,
		Op:      history.Link,
		Node:    from,
		Key:     to,
		Value:   []string{state},
	})
}

// linkStates are the words of the history.
var linkStates = map[target.LinkState]string{
	target.Whole: history.LinkWhole,
	target.Slow:  history.LinkSlow,
	target.Cut:   history.LinkCut,
}

func (w *watched) end(node string, do func(string)) {
	w.nodes[node].Lock()
	defer w.nodes[node].Unlock()
	w.leaves(node)
	do(node)
	w.mark(history.Down, node)
}

// Pause implements target.Target.
func (w *watched) Pause(node string) {
	w.leaves(node)
	w.Target.Pause(node)
}

// Resume implements target.Target.
func (w *watched) Resume(node string) {
	w.Target.Resume(node)
	w.attend(node)
}

// Kill implements target.Target.
func (w *watched) Kill(node string) { w.end(node, w.Target.Kill) }

// Shutdown implements target.Target.
func (w *watched) Shutdown(node string) { w.end(node, w.Target.Shutdown) }

// Replace implements target.Target.
func (w *watched) Replace(node string) { w.end(node, w.Target.Replace) }

// Damage implements target.Target.
func (w *watched) Damage(node string, do func(dir string) (late string)) (damaged bool) {
	w.end(node, func(node string) { damaged = w.Target.Damage(node, do) })
	return damaged
}

// PutBack implements target.Target.
func (w *watched) PutBack(node, copied string) (done bool) {
	w.end(node, func(node string) { done = w.Target.PutBack(node, copied) })
	return done
}

// Die implements target.Target.
func (w *watched) Die(node string, how target.Act) {
	w.end(node, func(node string) { w.Target.Die(node, how) })
}

// Restart implements target.Target.
func (w *watched) Restart(node string) error {
	w.nodes[node].Lock()
	defer w.nodes[node].Unlock()
	w.mark(history.Up, node)
	defer w.attend(node)
	return w.Target.Restart(node)
}
