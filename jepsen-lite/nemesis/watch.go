package nemesis

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// watched is a target that writes into the history when nodes certainly ran and served. Up and Down are marks of
// processes: leases do not run while no majority can run. A process that dies at an armed point is not marked so.
// Serves, Leaves and Link are marks of when a node certainly served, and which nodes it reached: while a majority does,
// the cluster must answer.
type watched struct {
	target.Target
	history *history.Recorder
	nodes   map[string]*target.LongLock // orders the marks of one node

	mu    sync.Mutex           // not held during calls of the target
	turns map[string]int       // changes of a node's service; a wait for it to serve ends at the next one
	serve map[string]bool      // as last marked
	links map[[2]string]string // as last marked
}

// Watch returns t with marks in the history. Until ctx ends it also looks for nodes that need a snapshot of another
// node. At first all nodes count as running and serving, and all links as whole.
func Watch(ctx context.Context, t target.Target, h *history.Recorder) target.Target {
	w := &watched{
		Target:  t,
		history: h,
		nodes:   map[string]*target.LongLock{},
		turns:   map[string]int{},
		serve:   map[string]bool{},
		links:   map[[2]string]string{},
	}
	for _, n := range t.Nodes() {
		w.nodes[n] = &target.LongLock{}
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

// mark records an event of a node.
func (w *watched) mark(op, node string) {
	w.history.Record(history.Event{Process: history.Nemesis, Type: history.Info, Op: op, Node: node})
}

// leaves marks that a node no longer serves.
func (w *watched) leaves(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns[node]++
	w.serve[node] = false
	w.mark(history.Leaves, node)
}

// lacks marks that a node lacks entries and cannot serve, until it has them.
func (w *watched) lacks(node string) {
	w.mu.Lock()
	serves := w.serve[node]
	w.mu.Unlock()
	if serves {
		w.leaves(node)
		w.attend(node)
	}
}

// Times of looking at nodes.
const (
	// for a node to serve
	serveMax = time.Minute
	// between two looks whether it serves
	serveLook = 50 * time.Millisecond
	// between two looks for nodes that lack entries
	lackLook = 200 * time.Millisecond
)

// attend marks the node when it serves again, unless its service changes before.
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

// link marks a change of a link's state.
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

// end ends a process by do, with its marks.
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
func (w *watched) Damage(node string, do func(target.Folder) (late string)) (damaged bool) {
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
