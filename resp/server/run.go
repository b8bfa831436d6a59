package server

import (
	"slices"
	"time"

	"lockd/resp"
	"lockd/resp/server/holders"
	"lockd/resp/server/observer"
)

// run holds commands of a pipeline that the backend takes at once.
type run struct {
	cmds    []resp.Cmd
	of      []*command // the commands of cmds, looked up
	size    int        // bytes of their arguments
	caching bool       // CLIENT CACHING came before the first of them
}

// expect makes room for the commands that have arrived together.
func (s *session) expect(commands int) {
	if s.run.cmds == nil {
		s.run.cmds = make([]resp.Cmd, 0, commands)
	}
}

// addToRun puts a command into the next run, which starts at once when it is full. A command that takes observations
// runs alone: beside a write it would go into the log, which has no place for them.
func (s *session) addToRun(c *command, args resp.Args) {
	alone := c.spec.Flags&resp.TakesObservations != 0
	if alone {
		s.endRun()
	}
	r := &s.run
	if len(r.cmds) == 0 {
		r.caching = s.track.Caching
	}
	r.cmds = append(r.cmds, resp.Cmd{DB: int(s.db.Load()), Args: args, Spec: c.spec})
	r.of = append(r.of, c)
	for _, a := range args {
		r.size += len(a)
	}
	if alone || len(r.cmds) >= pipelineCmdsMax || r.size >= pipelineBytesMax {
		s.endRun()
	}
}

// endRun has the backend run the gathered commands, and answers them. A run with large replies goes in pieces: the
// next one when the client has room for it.
func (s *session) endRun() {
	of := s.run.of
	for len(s.run.cmds) > 0 {
		if s.runPiece(); s.closing {
			break
		}
	}
	// A backend that stopped waiting may still hold the request: it is not reused.
	s.run.cmds, s.run.size = nil, 0
	clear(of)
	s.run.of = of[:0]
}

// runPiece runs as many gathered commands as the backend takes at once.
func (s *session) runPiece() {
	r, start := &s.run, s.srv.clock()
	req := s.request(r.cmds)
	req.Partly = true
	f := followRun(s, &req)
	counted := s.srv.counter.Begin(req.Cmds)
	res := s.do(req)
	n := len(r.cmds)
	if got := len(res.Replies); got > 0 {
		n = min(n, got)
	}
	if f != nil {
		f.Answered(res)
	}
	counted.End(res.Replies) // before answerFollowed, which holds the broker's lock
	reply := func(i int) {
		r := replyAt(res, i)
		s.reply(r)
		s.srv.countIfError(r)
	}
	if f != nil {
		answerFollowed(s, f, reply)
	} else {
		for i := 0; i < n && !s.closing; i++ {
			reply(i)
			s.flushFull()
		}
	}
	observe(&s.observer, start, r, res, n)
	showRun(s, n)
	s.srv.accountRun(s.client, start, r.of[:n], r.cmds[0].Args, res)
	r.cmds, r.of, r.caching = r.cmds[n:], r.of[n:], false
	s.flushFull()
}

// observe hands the first n commands of a run, which have been answered, to the observer.
func observe(w *observer.Session, start time.Time, r *run, res resp.Result, n int) {
	for i, c := range r.of[:n] {
		if c.watched != observer.None {
			w.Saw(c.watched, &r.cmds[i], replyAt(res, i), start.UnixMilli())
		}
	}
}

// showRun shows the first n commands of the run, which have been answered, to monitors.
func showRun(s *session, n int) {
	if !s.srv.hub.monitors.some.Load() {
		return
	}
	list := make([]shown, n)
	for i, c := range s.run.cmds[:n] {
		list[i] = shown{s.run.of[i], c.DB, c.Args}
	}
	show(s, list...)
}

// flushAll writes the pending replies, then the pushes that waited for them.
func (s *session) flushAll() error {
	err := s.flush()
	if s.locks.Asking() {
		s.srv.hub.holders.SendWaiting(&s.locks)
	}
	return err
}

// caller sends the requests of a client to the backend.
type caller struct {
	of  *client
	srv *shared

	asSent resp.Sender // the last result of sender; "": none yet
	asName string      // the client's name in asSent
}

// request returns the request for commands.
func (c *caller) request(cmds []resp.Cmd) resp.Request {
	return resp.Request{
		Cmds: cmds, Sender: c.sender(cmds), User: c.of.rights.ScriptUser(cmds), Observations: c.observations(cmds),
	}
}

// sender returns the client if one of the commands names it in the log; "": none does.
func (c *caller) sender(cmds []resp.Cmd) resp.Sender {
	if !slices.ContainsFunc(cmds, func(c resp.Cmd) bool { return c.Spec != nil && c.Spec.NamesClient() }) {
		return ""
	}
	name, _, _ := c.of.names.get()
	name = name[:min(len(name), loggedNameBytesMax)]
	if c.asSent == "" || c.asName != name {
		c.asSent = resp.Client{ID: uint64(c.of.id), Name: name, Addr: c.of.addr, Node: c.of.registry.node}.Sender()
		c.asName = name
	}
	return c.asSent
}

// observations returns this node's observations of locks, if one of the commands takes them.
func (c *caller) observations(cmds []resp.Cmd) string {
	if !slices.ContainsFunc(cmds, func(c resp.Cmd) bool { return c.Is(resp.TakesObservations) }) {
		return ""
	}
	return c.srv.observer.Report(c.of.registry.node, c.of.registry.observations())
}

// do has the backend run a request. If it may take a lock for which the client gets pushes, these wait for the replies,
// so that the grant arrives before the loss. What was published before the answer is in the outbox when do returns.
func (c *caller) do(req resp.Request) resp.Result {
	if c.takesLock(req.Cmds...) {
		c.srv.hub.holders.Ask(&c.of.locks)
	}
	res := c.srv.backend.Do(c.of.ctx, req)
	c.of.sub.Settle()
	c.of.locks.Saw(res.Index)
	for _, d := range res.Denied {
		c.srv.recordDenial(c.of, d.Reason, "lua", req.User, d.Object)
	}
	return res
}

// ask has the backend run one command, whole and by itself.
func (c *caller) ask(args resp.Args) resp.Result {
	return c.srv.backend.Do(c.of.ctx, resp.Request{Cmds: []resp.Cmd{{DB: int(c.of.db.Load()), Args: args}}})
}

// takesLock reports whether commands may take a lock for which the client gets pushes.
func (c *caller) takesLock(cmds ...resp.Cmd) bool {
	if c.of.proto.Load() < 3 {
		return false
	}
	_, lib, version := c.of.names.get()
	return holders.Takes(cmds, lib, version)
}
