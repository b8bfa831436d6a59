package server

import (
	"slices"
	"time"

	"lockd/resp"
	"lockd/resp/server/holders"
	"lockd/resp/server/witness"
)

// gathered holds the commands of the next run.
type gathered struct {
	run      []resp.Cmd
	runOf    []*command // the commands of run, looked up
	runSize  int        // bytes of their arguments
	runFirst bool       // CLIENT CACHING came before the first of them
}

// addToRun puts a command into the next run, which starts at once when it is full. A command that takes sightings
// runs alone: beside a write it would go into the log, which has no place for them.
func (s *session) addToRun(c *command, args resp.Args) {
	alone := c.spec.Flags&resp.TakesSightings != 0
	if alone {
		s.endRun()
	}
	if len(s.run) == 0 {
		s.runFirst = s.track.Caching
	}
	s.run = append(s.run, resp.Cmd{DB: int(s.db.Load()), Args: args, Spec: c.spec})
	s.runOf = append(s.runOf, c)
	for _, a := range args {
		s.runSize += len(a)
	}
	if alone || len(s.run) >= pipelineCmdsMax || s.runSize >= pipelineBytesMax {
		s.endRun()
	}
}

// endRun has the backend run the gathered commands, and answers them. A run with large replies goes in pieces: the
// next one when the client has room for it.
func (s *session) endRun() {
	of := s.runOf
	for len(s.run) > 0 {
		if s.runPiece(); s.closing {
			break
		}
	}
	// A backend that stopped waiting may still hold the request: it is not reused.
	s.run, s.runSize = nil, 0
	clear(of)
	s.runOf = of[:0]
}

// request returns the request for commands.
func (s *session) request(cmds []resp.Cmd) resp.Request {
	return resp.Request{
		Cmds: cmds, Sender: s.sender(cmds), User: s.rights.ScriptUser(cmds), Sightings: s.srv.sightings(cmds),
	}
}

// runPiece runs as many gathered commands as the backend takes at once.
func (s *session) runPiece() {
	start := s.srv.clock()
	req := s.request(s.run)
	req.Partly = true
	f := s.followRun(&req)
	s.asksForLock(req.Cmds)
	counted := s.srv.counter.Begin(req.Cmds)
	res := s.srv.backend.Do(s.ctx, req)
	s.sub.Settle()
	s.locks.Saw(res.Index)
	s.noteScripts(req.User, res)
	n := len(s.run)
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
		s.countIfError(r)
	}
	if f != nil {
		s.answerFollowed(f, reply)
	} else {
		for i := 0; i < n && !s.closing; i++ {
			reply(i)
			s.flushFull()
		}
	}
	s.observe(start, res, n)
	s.showRun(n)
	s.accountRun(start, s.runOf[:n], s.run[0].Args, res)
	s.run, s.runOf, s.runFirst = s.run[n:], s.runOf[n:], false
	s.flushFull()
}

// showRun shows the first n commands of the run, which have been answered, to monitors.
func (s *session) showRun(n int) {
	if !s.srv.hub.monitored.Load() {
		return
	}
	list := make([]shown, n)
	for i, c := range s.run[:n] {
		list[i] = shown{s.runOf[i], c.DB, c.Args}
	}
	s.show(list...)
}

// ask has the backend run one command, whole and by itself.
func (s *session) ask(args resp.Args) resp.Result {
	return s.srv.backend.Do(s.ctx, resp.Request{Cmds: []resp.Cmd{{DB: int(s.db.Load()), Args: args}}})
}

// takesLock reports whether commands may take a lock for which the client gets pushes.
func (s *session) takesLock(cmds ...resp.Cmd) bool {
	if s.proto.Load() < 3 {
		return false
	}
	_, lib, version := s.names.get()
	return holders.Takes(cmds, lib, version)
}

// asksForLock is called before commands run. If they may take a lock for which the client gets pushes, pushes wait
// for the replies, so that the grant arrives before the loss.
func (s *session) asksForLock(cmds []resp.Cmd) {
	if s.takesLock(cmds...) {
		s.srv.hub.holders.Ask(&s.locks, true)
	}
}

// flushAll writes the pending replies, then the pushes that waited for them.
func (s *session) flushAll() error {
	err := s.flush()
	if s.locks.Asking() {
		s.srv.hub.holders.SendWaiting(&s.locks)
	}
	return err
}

// sightings returns this node's observations of locks, if one of the commands takes them.
func (s *shared) sightings(cmds []resp.Cmd) string {
	if !slices.ContainsFunc(cmds, func(c resp.Cmd) bool { return c.Is(resp.TakesSightings) }) {
		return ""
	}
	return s.witness.Report(s.clients.node, s.clients.sightings())
}

// observe hands the answered commands of a run to the witness.
func (s *session) observe(start time.Time, res resp.Result, n int) {
	for i, c := range s.runOf[:n] {
		if c.watched != witness.None {
			s.witness.Saw(c.watched, &s.run[i], replyAt(res, i), start.UnixMilli())
		}
	}
}
