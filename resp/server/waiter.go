package server

import (
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// waiter is the blocking command that a session waits for. It implements resp.Waiter.
type waiter struct {
	of      *session
	cmd     *command
	args    resp.Args
	unblock chan resp.Unblock // capacity 1: only the first reason counts
	done    chan struct{}     // closed when the command has ended, and the next two are set
	reply   resp.Reply
	cut     bool // a value on unblock has ended it

	// How the session answers; none of it changes during the wait. A client that gets pushes, or whose first may come
	// from this command, is answered through the outbox, so that pushes about the command come after its reply.
	takes      bool // a lock, about which the client gets pushes
	pushes     bool
	subscribes bool
	silent     bool
	proto      int

	delivery atomic.Int32 // decided once: whether the client gets the reply
}

// The values of delivery.
const (
	deliveryOpen = iota // it waits
	deliveryDue         // the session will send the reply
	deliverySent        // the outbox has the reply
	deliveryLost        // no reply: the client has disconnected
)

// wait runs a blocking command. All commands before it in the pipeline have been answered, and those after it wait.
// Other connections do not: the command is in no run, and the backend does not hold up the log while it waits.
func (s *session) wait(c *command, args resp.Args) {
	if s.flushAll() != nil {
		s.closing = true
		return
	}
	cmd := resp.Cmd{DB: int(s.db.Load()), Args: args, Spec: c.spec}
	takes := s.takesLock(cmd)
	if takes {
		s.srv.hub.holders.Wait(&s.locks, cmd.DB, args[1], args[2])
		defer s.srv.hub.holders.LeaveLine(&s.locks)
	}
	p := &waiter{
		of: s, cmd: c, args: args, unblock: make(chan resp.Unblock, 1), done: make(chan struct{}),
		takes: takes, pushes: takes || s.pushing, subscribes: s.sub.Subscribes(),
		silent: s.replyOff || s.skipping, proto: int(s.proto.Load()),
	}
	stop := wire.WatchHangUp(s.conn, s.cancel)
	s.waiter.Store(p)
	if s.srv.clients.draining.Load() {
		s.unblock(resp.UnblockStop) // Shutdown looks for waiting sessions after it has set the flag
	}
	show(s, shown{c, int(s.db.Load()), args})
	p.reply, p.cut = s.srv.backend.Block(s.ctx, cmd, s.sender([]resp.Cmd{cmd}), p.unblock, p)
	stop()
	s.waiter.Store(nil)
	close(p.done)
	s.sub.Settle() // the reply may be on its way
	if !p.delivers() {
		s.closing = true // the client is gone
		return
	}
	if p.delivery.CompareAndSwap(deliveryDue, deliverySent) {
		s.reply(p.reply)
		p.sendPending()
	}
	s.waitForRoom()
	s.srv.account(s.client, s.srv.clock(), c, args, p.reply) // waiting counts as no work
}

// delivers reports, after the command has ended, whether the client gets the reply. Where Served has not decided, a
// client that is still connected gets it.
func (p *waiter) delivers() bool {
	delivery := int32(deliveryDue)
	if p.of.ctx.Err() != nil {
		delivery = deliveryLost
	}
	p.delivery.CompareAndSwap(deliveryOpen, delivery)
	return p.delivery.Load() != deliveryLost
}

// sendPending writes the reply, then the pushes that were delayed.
func (p *waiter) sendPending() {
	if !p.pushes {
		return
	}
	if p.of.flush() != nil {
		p.of.closing = true
	}
	p.of.out.ResumePushes(nil)
}

// DelayPushes implements resp.Waiter.
func (p *waiter) DelayPushes() {
	if p.pushes {
		p.of.sub.DelayPushes(p.subscribes)
	}
}

// ResumePushes implements resp.Waiter.
func (p *waiter) ResumePushes() {
	if p.pushes {
		p.of.sub.ResumePushes(nil, p.subscribes)
	}
}

// Served implements resp.Waiter. A client that has closed its half of the connection counts as disconnected, as in
// Redis.
func (p *waiter) Served(r resp.Reply) bool {
	delivery := int32(deliveryDue)
	switch {
	case p.of.ctx.Err() != nil || wire.HungUp(p.of.conn):
		delivery = deliveryLost
	case p.pushes:
		delivery = deliverySent
	}
	if p.delivery.CompareAndSwap(deliveryOpen, delivery) && delivery == deliverySent {
		var form []byte
		if !p.silent {
			form = r.AppendTo(nil, p.proto)
		}
		p.of.sub.ResumePushes(form, p.subscribes)
		p.of.srv.stats.OutputBytes.Add(int64(len(form)))
		if p.takes && r.Kind == resp.KindInt {
			p.of.srv.hub.holders.Told(&p.of.locks, uint64(r.Int))
		}
	}
	return p.delivery.Load() != deliveryLost
}
