package pubsub

import (
	"maps"
	"slices"

	"lockd/resp"
	"lockd/resp/server/stats"
)

// handOut delivers everything in the queue. One goroutine at a time runs it.
func (b *Broker) handOut() {
	b.matching.begin()
	for p, skipped, ok := b.queue.next(&parcel{}); ok; p, skipped, ok = b.queue.next(&p) {
		switch {
		case p.to != nil:
			b.pass(&p, skipped)
		case skipped:
		case p.missed:
			b.Lock()
			b.dropMembers(p.number, stats.DropMissed, errMissed)
			b.Unlock()
		default:
			for i := range p.msgs {
				b.deliver(&p.msgs[i], p.number)
			}
		}
	}
}

// errMissed is the reason to drop subscribers that have missed messages for which this node had no room.
const errMissed = "more messages waited than this node keeps"

// pass hands a parcel for one subscriber to its outbox. A subscriber whose parcel was skipped is dropped.
func (b *Broker) pass(p *parcel, skipped bool) {
	b.Lock()
	defer b.Unlock()
	switch p.to.underway.Add(-1); {
	case skipped:
		p.to.drop(stats.DropMissed, errMissed)
	case p.turn == turnDelay:
		p.to.out.DelayPushes()
	case p.turn == turnResume:
		p.to.out.ResumePushes(p.form)
	default:
		p.to.sendNow(p.form, b.limit())
	}
}

// deliver hands a message to the clients that subscribed before it was published: first to its channel, then to
// patterns, in the order of their creation.
func (b *Broker) deliver(m *resp.Message, number uint64) {
	channel, payload := m.Channel, func() string { return m.Payload }
	word, of := "message", b.channels
	switch m.Kind {
	case resp.MessageShard:
		word, of = "smessage", b.shards
	case resp.MessageLock:
		channel = m.Form.Channel(m.Event)
		payload = once(func() string { return m.Form.Payload(m.Event) })
	}
	d := delivery{broker: b, number: number}
	b.Lock()
	d.send(of[channel], func() resp.Reply { return pushOf(word, channel, payload()) })
	var patterns []*pattern
	if m.Kind != resp.MessageShard {
		patterns = b.patterns.candidates(channel)
	}
	b.Unlock()
	if len(patterns) == 0 {
		return
	}
	matching, dear := match(patterns, channel, b.matching.note)
	if p := b.matching.costliest(); p != nil {
		dear = append(dear, p)
	}
	b.Lock()
	defer b.Unlock()
	for _, p := range matching {
		d.send(p.subs, func() resp.Reply { return pushOf("pmessage", p.glob, channel, payload()) })
	}
	for _, p := range dear {
		b.refuse(p)
	}
}

// once returns say with its result cached.
func once(say func() string) func() string {
	said, done := "", false
	return func() string {
		if !done {
			said, done = say(), true
		}
		return said
	}
}

// delivery hands one message to subscribers.
type delivery struct {
	broker *Broker
	number uint64 // of the message: later subscribers do not get it
}

// send sends a push to subscribers. It encodes the push once for each protocol, and releases the broker's lock now and
// then if there are many subscribers. The lock is held.
func (d *delivery) send(subs subscribers, push func() resp.Reply) {
	if len(subs) == 0 {
		return
	}
	var forms [2][]byte
	lim := d.broker.limit()
	one := func(s *Subscriber) {
		if since, in := subs[s]; !in || since >= d.number {
			return
		}
		proto := s.conn.Proto()
		form := &forms[proto-2]
		if *form == nil {
			*form = push().AppendTo(nil, proto)
		}
		s.sendNow(*form, lim)
	}
	if len(subs) <= deliveriesAtOnce {
		for s := range subs {
			one(s)
		}
		return
	}
	for list := range slices.Chunk(slices.Collect(maps.Keys(subs)), deliveriesAtOnce) {
		for _, s := range list {
			one(s)
		}
		d.broker.Unlock()
		d.broker.Lock()
	}
}

// refuse drops the subscribers of a pattern that takes too long to match. They may have missed a message, and a
// client must never miss one without noticing. The lock is held.
func (b *Broker) refuse(p *pattern) {
	for s := range p.subs {
		s.drop(stats.DropPattern, "a pattern takes too long to match")
	}
}

// match returns the patterns that match a channel, in the order of their creation, and those that take too long to
// match (dear). The heads of all patterns match already. It takes a millisecond or two at most, and sorts patterns.
// note, unless nil, gets the steps that each pattern took.
func match(patterns []*pattern, channel string, note func(p *pattern, steps int)) (matching, dear []*pattern) {
	left := globStepsPerMessageMax
	slices.SortFunc(patterns, comparePatterns)
	for _, p := range patterns {
		left -= globStepsPerPattern
		steps := min(left, globStepsMax)
		before := steps
		match := resp.Glob(p.rest, channel[len(p.head):], &steps)
		took := before - max(steps, 0)
		left -= took
		if note != nil {
			note(p, took)
		}
		switch {
		case steps < 0:
			dear = append(dear, p)
		case match:
			matching = append(matching, p)
		}
	}
	return matching, dear
}

// matching sums the steps of matching since the queue was last empty: deliveries are late by that much. Beyond
// globStepsBehindMax the pattern that took the most is refused. Only the goroutine that hands out uses it and the
// fields run and steps of patterns.
type matching struct {
	run   uint64 // counts the runs of handOut
	steps int
	of    []*pattern
}

func (n *matching) begin() {
	n.run++
	n.steps, n.of = 0, nil
}

func (n *matching) note(p *pattern, steps int) {
	if p.run != n.run {
		p.run, p.steps = n.run, 0
		n.of = append(n.of, p)
	}
	p.steps += steps
	n.steps += steps
}

// costliest returns the pattern to refuse, or nil: the one with the most steps, the latest of several with as many.
func (n *matching) costliest() (worst *pattern) {
	if n.steps <= globStepsBehindMax {
		return nil
	}
	for _, p := range n.of {
		if worst == nil || p.steps > worst.steps || p.steps == worst.steps && p.number > worst.number {
			worst = p
		}
	}
	n.steps -= worst.steps
	worst.steps = 0
	return worst
}

func pushOf(words ...string) resp.Reply {
	r := resp.Bulks(words...)
	r.Kind = resp.KindPush
	return r
}
