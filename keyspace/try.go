package keyspace

import "lockd/resp"

// trial is a command that runs to see whether it would change anything.
type trial struct {
	running bool
	changes bool // it would: its reply means nothing
}

// Try answers a request that would change nothing as things are, such as SET NX of a key
// that is there; ok is false if it would. It runs the command's own function, up to its
// first change: that is in store, which a command that may be tried (Spec.Refuses) reaches
// before anything else of it shows. See cluster.Machine.
func (m *Machine) Try(at resp.Stamp, req resp.Request) (res resp.Result, ok bool) {
	if len(req.Cmds) != 1 || req.Watch != nil || req.Multi || req.Trace || req.Block != nil {
		return resp.Result{}, false
	}
	cmd := req.Cmds[0]
	if cmd.Spec == nil {
		cmd.Spec, _ = m.Find(cmd.Args)
	}
	if cmd.Spec == nil || !cmd.Spec.MayRefuse(cmd.Args) {
		return resp.Result{}, false
	}
	at.Tick = max(m.tick, at.Tick)
	m.draws, m.entry, m.request, m.reads = 0, m.newMeter(), m.newMeter(), nil
	m.trial = trial{running: true}
	c := ctx{m: m, at: at, db: cmd.DB}
	reply := c.execute(cmd)
	changes := m.trial.changes
	m.trial, m.messages = trial{}, nil
	if changes {
		return resp.Result{}, false
	}
	return resp.Result{Replies: []resp.Reply{reply}}, true
}

// stops reports whether a change is only tried, and notes that there would be one.
func (t *trial) stops() bool {
	t.changes = t.changes || t.running
	return t.running
}

// found looks at an entry that a trial reads. Whether its lease has ended when the request
// takes effect, only the log can say.
func (t *trial) found(c *ctx, e *entry) {
	if t.running && c.now() > e.deadline.tick {
		t.changes = true
	}
}
