package nemesis

import (
	"sync"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// watched is a target whose processes' ends and starts are written into the
// history: leases do not run while no majority can. An end is written when the
// process has gone and a start before it is made, so what lies between them is
// certainly without it. A process that dies at an armed point is not marked.
type watched struct {
	target.Target
	history *history.Recorder
	nodes   map[string]*sync.Mutex // the marks of one node come in the order of what they tell
}

// Watch returns t with marks in the history. All nodes count as running now.
func Watch(t target.Target, h *history.Recorder) target.Target {
	w := &watched{t, h, map[string]*sync.Mutex{}}
	for _, n := range t.Nodes() {
		w.nodes[n] = &sync.Mutex{}
		w.mark(history.Up, n)
	}
	return w
}

func (w *watched) mark(op, node string) {
	w.history.Record(history.Event{Process: history.Nemesis, Type: history.Info, Op: op, Node: node})
}

func (w *watched) end(node string, do func(string)) {
	w.nodes[node].Lock()
	defer w.nodes[node].Unlock()
	do(node)
	w.mark(history.Down, node)
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

// Die implements target.Target.
func (w *watched) Die(node string, how target.Act) {
	w.end(node, func(node string) { w.Target.Die(node, how) })
}

// Restart implements target.Target.
func (w *watched) Restart(node string) error {
	w.nodes[node].Lock()
	defer w.nodes[node].Unlock()
	w.mark(history.Up, node)
	return w.Target.Restart(node)
}
