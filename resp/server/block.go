package server

import (
	"context"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// parked is what others may know of a blocking command that a session waits for.
type parked struct {
	unblock chan resp.Unblock // capacity 1: the first reason to wait no longer counts
	done    chan struct{}     // closed when reply is there
	reply   resp.Reply

	answered atomic.Bool // the client has its answer, or is about to
}

// park runs a blocking command. All before it in the pipeline has been answered, and
// what comes behind it waits. Other connections do not: the command is in nobody's run,
// and the backend lets go of the log while it waits.
func (s *session) park(c *command, args resp.Args) {
	if s.flush() != nil {
		s.closing = true
		return
	}
	p := &parked{unblock: make(chan resp.Unblock, 1), done: make(chan struct{})}
	s.parked.Store(p)
	if s.srv.draining.Load() {
		s.unpark(resp.UnblockStop) // Shutdown looks who is parked after it has set the flag
	}
	s.show(shown{c, int(s.db.Load()), args})
	p.reply = s.srv.backend.Block(
		s.ctx,
		resp.Cmd{DB: int(s.db.Load()), Args: args, Spec: c.spec},
		p.unblock,
		s.answer(p),
	)
	s.parked.Store(nil)
	close(p.done)
	if s.ctx.Err() != nil {
		s.closing = true // nobody is there to be told
		return
	}
	if p.answered.CompareAndSwap(false, true) {
		s.reply(p.reply)
	}
	s.waitForRoom()
	s.account(s.srv.clock(), []*command{c}, args, p.reply) // to wait is no work
}

// answer returns what gives a client that is pushed to the reply of a command that has
// waited, from the goroutine that applies: the push that tells what the command did comes
// behind it, as in Redis. How the session answers does not change while it is parked. It
// reports whether the client is there.
func (s *session) answer(p *parked) func(resp.Reply) bool {
	pushing, silent, proto := s.pushing, s.replyOff || s.skipping, int(s.proto.Load())
	return func(r resp.Reply) bool {
		if pushing && p.answered.CompareAndSwap(false, true) && !silent {
			form := r.AppendTo(nil, proto)
			s.out.Enqueue(form)
			s.srv.stats.OutputBytes.Add(int64(len(form)))
		}
		return !wire.HungUp(s.conn)
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
