package server

import (
	"context"

	"lockd/resp"
)

// parked is what others may know of a blocking command that a session waits for.
type parked struct {
	unblock chan resp.Unblock // capacity 1: the first reason to wait no longer counts
	done    chan struct{}     // closed when reply is there
	reply   resp.Reply
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
	p.reply = s.srv.backend.Block(s.ctx, resp.Cmd{DB: int(s.db.Load()), Args: args}, p.unblock)
	s.parked.Store(nil)
	close(p.done)
	if s.ctx.Err() != nil {
		s.closing = true // nobody is there to be told
		return
	}
	s.reply(p.reply)
	s.account(s.srv.clock(), []*command{c}, args, p.reply) // to wait is no work
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
