package server

import (
	"context"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// waiter is a blocking command that a session waits for. It implements resp.Waiter.
type waiter struct {
	of      *session
	cmd     *command
	args    resp.Args
	unblock chan resp.Unblock // capacity 1: the first reason to wait no longer counts
	done    chan struct{}     // closed when reply is there
	reply   resp.Reply

	// How the session answers, which does not change while it waits. A client with pushes, or one that may get its
	// first from this command, is answered through the outbox: what is pushed about the command comes behind its reply.
	pushes     bool
	subscribes bool
	silent     bool
	proto      int

	fate atomic.Int32 // whether the client gets the reply; decided once
}

// The fates of a blocking command.
const (
	fateOpen     = iota // it waits
	fatePromised        // the session answers it
	fateSent            // the reply is in the outbox
	fateLost            // it will not be answered: the client is gone
)

// wait runs a blocking command. All before it in the pipeline has been answered, and
// what comes behind it waits. Other connections do not: the command is in nobody's run,
// and the backend lets go of the log while it waits.
func (s *session) wait(c *command, args resp.Args) {
	if s.flushAll() != nil {
		s.closing = true
		return
	}
	cmd := resp.Cmd{DB: int(s.db.Load()), Args: args, Spec: c.spec}
	p := &waiter{
		of: s, cmd: c, args: args, unblock: make(chan resp.Unblock, 1), done: make(chan struct{}),
		pushes: s.waitsForLock(cmd) || s.pushing, subscribes: s.subscribed(),
		silent: s.replyOff || s.skipping, proto: int(s.proto.Load()),
	}
	stop := wire.WatchHangUp(s.conn, s.cancel)
	s.waiter.Store(p)
	if s.srv.draining.Load() {
		s.unblock(resp.UnblockStop) // Shutdown looks for those who wait after it has set the flag
	}
	s.show(shown{c, int(s.db.Load()), args})
	p.reply = s.srv.backend.Block(s.ctx, cmd, s.sender([]resp.Cmd{cmd}), p.unblock, p)
	stop()
	s.waiter.Store(nil)
	close(p.done)
	s.settle() // the reply may be on its way
	if !p.delivers() {
		s.closing = true // the client is gone
		return
	}
	if p.fate.CompareAndSwap(fatePromised, fateSent) {
		s.reply(p.reply)
		p.sendPending()
	}
	s.waitForRoom()
	s.account(s.srv.clock(), c, args, p.reply) // to wait is no work
}

// delivers reports whether the client gets the reply, now that the command has ended. Where Served has not decided
// that, a client that is still connected gets it.
func (p *waiter) delivers() bool {
	fate := int32(fatePromised)
	if p.of.ctx.Err() != nil {
		fate = fateLost
	}
	p.fate.CompareAndSwap(fateOpen, fate)
	return p.fate.Load() != fateLost
}

// sendPending writes the reply, and then what was pushed since Hold.
func (p *waiter) sendPending() {
	if !p.pushes {
		return
	}
	if p.of.flush() != nil {
		p.of.closing = true
	}
	p.of.out.Resume(nil)
}

// Hold implements resp.Waiter.
func (p *waiter) Hold() {
	if p.pushes {
		p.of.srv.hub.holdPushes(p.of, p.subscribes)
	}
}

// Release implements resp.Waiter.
func (p *waiter) Release() {
	if p.pushes {
		p.of.srv.hub.resumePushes(p.of, nil, p.subscribes)
	}
}

// Served implements resp.Waiter. A client that has closed its half of the connection is gone, as in Redis.
func (p *waiter) Served(r resp.Reply) bool {
	fate := int32(fatePromised)
	switch {
	case p.of.ctx.Err() != nil || wire.HungUp(p.of.conn):
		fate = fateLost
	case p.pushes:
		fate = fateSent
	}
	if p.fate.CompareAndSwap(fateOpen, fate) && fate == fateSent {
		var form []byte
		if !p.silent {
			form = r.AppendTo(nil, p.proto)
		}
		p.of.srv.hub.resumePushes(p.of, form, p.subscribes)
		p.of.srv.stats.OutputBytes.Add(int64(len(form)))
	}
	return p.fate.Load() != fateLost
}

// waits reports whether the client waits, in a blocking command or for the end of a pause.
// Who has hung up waits for no data, though the janitor may not have seen it yet.
func (s *session) waits() bool {
	return s.blocked.Load() || s.waiter.Load() != nil && !wire.HungUp(s.conn)
}

// unblock ends the wait of a session, from any goroutine; nil if it does not wait, or is
// about to end already.
func (s *session) unblock(why resp.Unblock) *waiter {
	p := s.waiter.Load()
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
func (p *waiter) unblocked(ctx context.Context) bool {
	select {
	case <-p.done:
		return p.reply.IsNil() || p.reply.Str == resp.ErrUnblocked || p.reply.Str == resp.ErrUnknown
	case <-ctx.Done():
		return false
	}
}
