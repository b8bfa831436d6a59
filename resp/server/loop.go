package server

import (
	"strings"

	"lockd/resp"
)

// serve is the session's goroutine.
func (s *session) serve() {
	defer s.end()
	s.stream.serve(s)
}

// trusted reports whether the limits before AUTH do not bind the client.
func (s *session) trusted() bool { return s.rights.Authenticated() }

// handle answers one command, or puts it into the run or the transaction.
func (s *session) handle(args resp.Args) {
	endCaching(s, s.dispatch(args))
	if s.skipping || s.skipNext {
		s.endRun()
		s.skipping, s.skipNext = s.skipNext, false
	}
	s.flushFull()
}

// dispatch passes a command through the gates, and runs or queues it. It returns the command, nil if there is none.
func (s *session) dispatch(args resp.Args) *command {
	s.sub.Settle()
	c, fail := s.srv.index.find(args)
	if c == nil {
		crossProtocol(s, args[0])
		s.refuse(args[0], fail)
		return nil
	}
	s.last.Store(c.spec)
	if why := s.forbids(c, args); why != "" {
		s.refuseCommand(c, why)
		return c
	}
	switch {
	case !waitOutPause(s, c): // its client has disconnected
	case s.tx.open && (c.act == nil || !c.act.unqueued):
		if why := s.tx.queue(c, args); why != "" {
			s.refuseCommand(c, why)
			break
		}
		s.reply(resp.Status("QUEUED"))
	case c.act == nil && c.spec.Blocks(args):
		s.endRun()
		s.wait(c, args)
	case c.act == nil:
		s.addToRun(c, args)
	default:
		s.endRun()
		s.runOwn(c, args)
	}
	return c
}

// forbids returns the error of the first gate that is closed to a command; "": it may pass.
func (s *session) forbids(c *command, args resp.Args) (why string) {
	for _, gate := range gates {
		if why = gate(s, c, args); why != "" {
			return why
		}
	}
	return ""
}

// crossProtocol ends a connection on which a browser speaks HTTP: a web page may be making it send commands.
func crossProtocol(s *session, name string) {
	if resp.Is(name, "POST") || resp.Is(name, "HOST:") {
		s.srv.log.Warn("possible cross-protocol attack: connection closed", "client", s.id, "addr", s.addr)
		s.closing = true
		s.kill()
	}
}

// refuse answers a command that was not run. It spoils an open transaction, or ends it if the command is EXEC.
func (s *session) refuse(name string, fail resp.Reply) {
	s.endRun()
	if resp.Is(name, "EXEC") {
		s.tx.discard()
		fail = resp.Err(resp.ExecAborted + strings.TrimPrefix(fail.Str, "ERR "))
	}
	s.tx.spoil()
	s.srv.stats.CountError(fail)
	s.reply(fail)
}

func (s *session) refuseCommand(c *command, why string) {
	c.stats.Reject()
	s.refuse(c.spec.Name, resp.Err(why))
}

// runOwn runs a command of the connection.
func (s *session) runOwn(c *command, args resp.Args) {
	start := s.srv.clock()
	if c.act.tracks {
		s.srv.backend.Await(s.ctx, s.track.Seen()) // the new mode does not repeat changes that the client knows already
	}
	var r resp.Reply
	if c.act.hubLocked {
		r = s.runLocked(c, args)
	} else {
		r = c.act.run(s, args)
		s.reply(r)
	}
	s.tell()
	if e := s.exec; e != nil {
		s.exec = nil
		e.finish()
	}
	show(s, shown{c, int(s.db.Load()), args})
	s.srv.account(s.client, start, c, args, r)
}

// runLocked runs a command of the connection under the hub's lock.
func (s *session) runLocked(c *command, args resp.Args) resp.Reply {
	s.srv.hub.broker.Lock()
	r := s.runHubLocked(c, args)
	s.reply(r)
	s.handOver()
	s.srv.hub.broker.Unlock()
	s.waitForRoom()
	return r
}

func (s *session) runHubLocked(c *command, args resp.Args) resp.Reply { return c.act.run(s, args) }

// leaveHub ends all subscriptions, tracking and pushes of the session. It may be called twice.
func (s *session) leaveHub() {
	if s.pushing {
		s.srv.hub.broker.Lock()
		s.sub.UnsubscribeAll()
		s.srv.hub.broker.Unlock()
	}
	s.srv.hub.forget(s.client)
	s.trackFlags.Store(0)
}

// end frees everything that the session holds.
func (s *session) end() {
	s.leaveHub()
	if why := s.sub.WhyDropped(); why != "" {
		s.srv.log.Info("subscriber dropped", "client", s.id, "addr", s.addr, "why", why)
	}
	s.tx.discard()
	s.kill()
	s.srv.clients.forget(s.client)
	s.srv.observer.Fold(s.client.observations())
}
