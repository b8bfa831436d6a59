package server

import (
	"strings"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// serve is the session's goroutine: it reads, runs commands and writes replies, until the client disconnects, QUIT,
// or Shutdown.
func (s *session) serve() {
	defer s.end()
	for !s.closing {
		s.enter(phaseReading)
		if s.srv.clients.draining.Load() {
			break // Shutdown looks at the phase after it has set the flag
		}
		n, err := s.in.Fill(s.conn)
		s.enter(phaseRunning)
		if err != nil {
			if s.srv.clients.draining.Load() {
				break
			}
			s.out.Finish(wallClock().Add(lingerMax)) // the client may have closed only its sending direction
			return
		}
		s.srv.stats.InputBytes.Add(int64(n))
		s.srv.stats.Reads.Add(1)
		s.activeAt.Store(s.srv.clients.ticks.Load())
		s.inputBytes.Store(int64(s.in.Pending()))
		if s.process(); s.closing {
			s.leaveHub() // it may linger, and a client that has the answer to QUIT expects to be gone
		}
		s.inputBytes.Store(int64(s.in.Pending()))
		if s.flushAll() != nil {
			return
		}
	}
	s.linger()
}

// process runs every whole command that has arrived. Replies stay in pending.
func (s *session) process() {
	defer s.in.Release()
	for !s.closing {
		set := s.srv.hub.settings
		cmds, more, err := s.in.Take(wire.Limits{
			BulkMax: int(set.BulkBytesMax.Load()), QueryMax: int(set.QueryBytesMax.Load()), Trusted: s.rights.Authenticated()})
		for i, args := range cmds {
			if s.run == nil {
				s.run = make([]resp.Cmd, 0, len(cmds)-i)
			}
			if s.handle(args); s.closing {
				return // commands pipelined after QUIT do not run
			}
		}
		s.endRun()
		if err != nil {
			s.reply(resp.Err("ERR " + err.Error()))
			s.srv.log.Debug("protocol error", "client", s.id, "addr", s.addr, "err", err)
			s.closing = true
		}
		if !more {
			return
		}
	}
}

// handle answers one command, or puts it into the run or the transaction.
func (s *session) handle(args resp.Args) {
	s.endCaching(s.dispatch(args))
	if s.skipping || s.skipNext {
		s.endRun()
		s.skipping, s.skipNext = s.skipNext, false
	}
	s.flushFull()
}

// dispatch passes a command through Redis's gates, in Redis's order (processCommand of server.c), and runs or queues
// it. It returns the command, nil if there is none.
func (s *session) dispatch(args resp.Args) *command {
	s.sub.Settle()
	c, fail := s.srv.index.find(args)
	if c == nil {
		s.crossProtocol(args[0])
		s.refuse(args[0], fail)
		return nil
	}
	s.last.Store(c.spec)
	if why := s.forbids(c, args); why != "" {
		s.refuseCommand(c, why)
		return c
	}
	switch {
	case !s.waitOutPause(c): // its client has disconnected
	case s.tx != nil && (c.act == nil || !c.act.unqueued):
		if why := s.queue(c, args); why != "" {
			s.refuseCommand(c, why)
		}
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

// forbids returns the error if the session's state does not allow a command; "": it does.
func (s *session) forbids(c *command, args resp.Args) (why string) {
	if why = s.refreshUsers(c); why != "" {
		return why
	}
	switch {
	case s.rights.MustAuth() && c.spec.Flags&resp.NoAuth == 0:
		return resp.ErrNoAuth
	case s.tx != nil && c.spec.Flags&resp.NoMulti != 0:
		return "ERR Command not allowed inside a transaction"
	}
	if s.rights.Limited() {
		if why = s.denies(c, args); why != "" {
			return why
		}
	}
	if why = s.redirects(c, args); why != "" {
		return why
	}
	switch {
	case s.sub.Subscribes() && s.proto.Load() < 3 && (c.act == nil || !c.act.whileSubscribed):
		return "ERR Can't execute '" + c.spec.Name +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	case s.monitors.Load() && c.spec.Flags&(resp.ReadOnly|resp.Write|resp.MayReplicate) != 0:
		return "ERR Replica can't interact with the keyspace"
	}
	return ""
}

// crossProtocol ends a connection on which a browser speaks HTTP: a web page may be making it send commands.
func (s *session) crossProtocol(name string) {
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
		s.discard()
		fail = resp.Err(resp.ExecAborted + strings.TrimPrefix(fail.Str, "ERR "))
	}
	if s.tx != nil {
		s.tx.spoiled = true
	}
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
	if f := s.followed; f != nil {
		s.followed = nil
		s.answerFollowed(f, func(int) {})
	}
	if s.executed != nil {
		s.executed()
		s.executed = nil
	}
	s.show(shown{c, int(s.db.Load()), args})
	s.account(start, c, args, r)
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

// linger closes in order: all replies are written, and the client has a moment to read them. A socket closed over
// unread input would be reset, and the last replies could be lost.
func (s *session) linger() {
	if s.flush() != nil {
		return
	}
	deadline := wallClock().Add(lingerMax)
	s.out.Finish(deadline)
	half, ok := s.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	s.conn.SetReadDeadline(deadline)
	var scratch [4096]byte
	for read := 0; read < lingerBytes; {
		n, err := s.conn.Read(scratch[:])
		if err != nil {
			return
		}
		read += n
	}
}

// leaveHub ends all subscriptions, tracking and pushes of the session. It may be called twice.
func (s *session) leaveHub() {
	if s.pushing {
		s.srv.hub.broker.Lock()
		s.sub.UnsubscribeAll()
		s.srv.hub.broker.Unlock()
	}
	s.srv.hub.forget(s)
	s.trackFlags.Store(0)
}

// end frees everything that the session holds.
func (s *session) end() {
	s.leaveHub()
	if why := s.sub.WhyDropped(); why != "" {
		s.srv.log.Info("subscriber dropped", "client", s.id, "addr", s.addr, "why", why)
	}
	s.discard()
	s.kill()
	s.srv.clients.forget(s.client)
	s.srv.witness.Fold(s.sightings())
}
