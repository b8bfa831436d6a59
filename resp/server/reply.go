package server

import (
	"strconv"

	"lockd/resp"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// replies are a session's replies on their way to its client: they gather in pending and go into the outbox. Any
// goroutine may use the outbox; the rest belongs to the session's goroutine.
type replies struct {
	to     *wire.Outbox
	of     *status
	totals *stats.Totals

	pending  []byte // not yet written
	replyOff bool   // CLIENT REPLY OFF
	skipping bool   // CLIENT REPLY SKIP: this command's reply is left out
	skipNext bool   // the next command's reply is left out
	pushing  bool   // pushes may come: the outbox has its writer goroutine
	closing  bool   // the connection closes when everything is written
}

// reply appends a reply to the pending ones.
func (o *replies) reply(r resp.Reply) {
	if !o.replyOff && !o.skipping {
		o.confirm(r)
	}
}

// replyHead appends the head of an array whose elements follow one by one.
func (o *replies) replyHead(elems int) {
	if !o.replyOff && !o.skipping {
		o.pending = append(strconv.AppendInt(append(o.pending, '*'), int64(elems), 10), "\r\n"...)
	}
}

// confirm appends the confirmation of a subscription: a push in RESP3. It is written even where CLIENT REPLY switched
// replies off.
func (o *replies) confirm(r resp.Reply) {
	o.pending = r.AppendTo(o.pending, int(o.of.proto.Load()))
}

// startPushing prepares for pushes between replies. The pending replies go out before them.
func (o *replies) startPushing() {
	if !o.pushing {
		o.pushing = true
		o.to.StartWriter()
	}
}

// handOver gives the pending replies to the writer goroutine, if there is one, without waiting. The hub's lock is
// held.
func (o *replies) handOver() {
	if o.pushing {
		o.to.Enqueue(o.pending)
		o.totals.OutputBytes.Add(int64(len(o.pending)))
		o.pending = o.pending[:0]
	}
}

// flush writes the pending replies.
func (o *replies) flush() error {
	if len(o.pending) == 0 {
		return nil
	}
	o.totals.OutputBytes.Add(int64(len(o.pending)))
	o.totals.Writes.Add(1)
	was := o.of.kind()
	o.of.enter(phaseWriting)
	err := o.to.Write(o.pending)
	o.of.enter(was)
	if o.pending = o.pending[:0]; cap(o.pending) > outputKeep {
		o.pending = nil
	}
	return err
}

// flushFull writes the pending replies if they have flushBytes or more.
func (o *replies) flushFull() {
	if len(o.pending) >= flushBytes && o.flush() != nil {
		o.closing = true
	}
}

// waitForRoom blocks while the session's outbox is full.
func (o *replies) waitForRoom() {
	if o.pushing && o.to.WaitForRoom() != nil {
		o.closing = true
	}
}

// replyAt returns the reply to command i. A missing reply breaks the contract of Do; the outcome is then unknown.
func replyAt(res resp.Result, i int) resp.Reply {
	if i < len(res.Replies) {
		return res.Replies[i]
	}
	return resp.Err(resp.ErrUnknown)
}
