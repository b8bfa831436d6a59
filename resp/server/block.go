package server

import (
	"context"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// parked is what others may know of a blocking command that a session waits for.
type parked struct {
	cmd     *command
	args    resp.Args
	unblock chan resp.Unblock // capacity 1: the first reason to wait no longer counts
	done    chan struct{}     // closed when reply is there
	reply   resp.Reply

	fate atomic.Int32 // whether the client gets the reply; decided once
}

// The fates of a blocking command.
const (
	fateOpen     = iota // it waits
	fatePromised        // the session answers it
	fateSent            // the reply is in the outbox
	fateLost            // it will not be answered: the client is gone
)

// park runs a blocking command. All before it in the pipeline has been answered, and
// what comes behind it waits. Other connections do not: the command is in nobody's run,
// and the backend lets go of the log while it waits.
func (s *session) park(c *command, args resp.Args) {
	if s.flushAll() != nil {
		s.closing = true
		return
	}
	p := &parked{cmd: c, args: args, unblock: make(chan resp.Unblock, 1), done: make(chan struct{})}
	s.parked.Store(p)
	if s.srv.draining.Load() {
		s.unpark(resp.UnblockStop) // Shutdown looks who is parked after it has set the flag
	}
	s.show(shown{c, int(s.db.Load()), args})
	cmd := resp.Cmd{DB: int(s.db.Load()), Args: args, Spec: c.spec}
	served := s.answer(p, s.parksForLock(cmd))
	p.reply = s.srv.backend.Block(s.ctx, cmd, s.sender([]resp.Cmd{cmd}), p.unblock, served)
	s.parked.Store(nil)
	close(p.done)
	if !p.delivers(s.ctx) {
		s.closing = true // the client is gone
		return
	}
	if p.fate.CompareAndSwap(fatePromised, fateSent) {
		s.reply(p.reply)
	}
	s.waitForRoom()
	s.account(s.srv.clock(), c, args, p.reply) // to wait is no work
}

// delivers reports whether the client gets the reply, now that the command has ended. Where answer has not decided
// that, a client that is still connected gets it.
func (p *parked) delivers(ctx context.Context) bool {
	fate := int32(fatePromised)
	if ctx.Err() != nil {
		fate = fateLost
	}
	p.fate.CompareAndSwap(fateOpen, fate)
	return p.fate.Load() != fateLost
}

// answer returns a function for the goroutine that applies. It takes the reply of a command that was executed, and
// reports whether the client gets it: if not, what the client was given can go to another. A client that has closed
// its half of the connection is gone, as in Redis.
//
// A client with pushes, or one that gets its first from this command, is answered at once: the push about what the
// command did comes behind its reply, as in Redis. How the session answers does not change while it is parked.
func (s *session) answer(p *parked, willPush bool) func(resp.Reply) bool {
	pushing, silent, proto := s.pushing, s.replyOff || s.skipping, int(s.proto.Load())
	return func(r resp.Reply) bool {
		fate := int32(fatePromised)
		switch {
		case s.ctx.Err() != nil || wire.HungUp(s.conn):
			fate = fateLost
		case pushing || willPush:
			fate = fateSent
		}
		if p.fate.CompareAndSwap(fateOpen, fate) && fate == fateSent && !silent {
			form := r.AppendTo(nil, proto)
			if pushing {
				s.out.Enqueue(form)
			} else {
				s.out.Push(form, wire.PushLimit{}) // which starts the writer
			}
			s.srv.stats.OutputBytes.Add(int64(len(form)))
		}
		return p.fate.Load() != fateLost
	}
}

// waits reports whether the client waits, in a blocking command or for the end of a pause.
// Who has hung up waits for no data, though the janitor may not have seen it yet.
func (s *session) waits() bool {
	return s.blocked.Load() || s.parked.Load() != nil && !wire.HungUp(s.conn)
}

// unpark ends the wait of a session, from any goroutine; nil if it does not wait, or is
// about to end already.
func (s *session) unpark(why resp.Unblock) *parked {
	p := s.parked.Load()
	if p == nil {
		return nil
	}
	select {
	case p.unblock <- why:
		return p
	default:
		return nil
	}
}

// unblocked waits until the command has ended and reports whether that was our doing:
// it may have been served just before.
func (p *parked) unblocked(ctx context.Context) bool {
	select {
	case <-p.done:
		return p.reply.IsNil() || p.reply.Str == resp.ErrUnblocked || p.reply.Str == resp.ErrUnknown
	case <-ctx.Done():
		return false
	}
}
