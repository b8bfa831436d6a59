package server

import (
	"maps"
	"slices"

	"lockd/resp"
	"lockd/resp/server/stats"
)

// Publish distributes messages, in order; news of locks goes to their holders after everything else. Messages for
// subscribers join the queue of deliveries.
func (h *Hub) Publish(msgs []resp.Message) {
	anybody, locks, queued := h.subscribers.Load() > 0, false, 0
	flush := func(end, next int) {
		if anybody && end > queued {
			h.queue.add(parcelOf(msgs[queued:end]))
		}
		queued = next
	}
	for i := range msgs {
		m := &msgs[i]
		locks = locks || m.Form != nil
		if m.Kind == resp.MessageChannel || m.Kind == resp.MessageShard || m.Kind == resp.MessageLock {
			continue // it is queued together with the next ones
		}
		flush(i, i+1)
		switch {
		case m.Kind == resp.MessageConfig:
			h.settings.apply(m.Channel, m.Payload)
		case m.Kind == resp.MessageUser || m.Kind == resp.MessageUsers:
			h.publishUsers(m)
		case m.Kind == resp.MessageChanges && h.tracking.InUse():
			h.publishChanges(m)
		}
	}
	flush(len(msgs), 0)
	if locks && h.holders.inUse.Load() > 0 {
		h.publishLocks(msgs)
	}
}

// handOut delivers everything in the queue. One goroutine at a time runs it.
func (h *Hub) handOut() {
	h.matching.begin()
	for p, skipped, ok := h.queue.next(&parcel{}); ok; p, skipped, ok = h.queue.next(&p) {
		switch {
		case p.to != nil:
			h.pass(&p, skipped)
		case skipped:
		case p.missed:
			h.mu.Lock()
			h.dropMembers(p.number, stats.DropMissed, errMissed)
			h.mu.Unlock()
		default:
			for i := range p.msgs {
				h.deliver(&p.msgs[i], p.number)
			}
		}
	}
}

// errMissed is the reason to drop subscribers that have missed messages for which this node had no room.
const errMissed = "more messages waited than this node keeps"

// pass hands a parcel for one session to its outbox. A session whose parcel was skipped is dropped.
func (h *Hub) pass(p *parcel, skipped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch p.to.underway.Add(-1); {
	case skipped:
		h.drop(p.to, stats.DropMissed, errMissed)
	case p.turn == turnHold:
		p.to.out.Hold()
	case p.turn == turnResume:
		p.to.out.Resume(p.form)
	default:
		h.sendNow(p.to, p.form, h.settings.pushLimit())
	}
}

// deliver hands a message to all who subscribed before it was published: first to its channel, then to patterns, in
// the order of their creation.
func (h *Hub) deliver(m *resp.Message, number uint64) {
	channel, payload := m.Channel, func() string { return m.Payload }
	word, of := "message", h.channels
	switch m.Kind {
	case resp.MessageShard:
		word, of = "smessage", h.shards
	case resp.MessageLock:
		channel = m.Form.Channel(m.Event)
		payload = once(func() string { return m.Form.Payload(m.Event) })
	}
	d := delivery{hub: h, number: number}
	h.mu.Lock()
	d.send(of[channel], func() resp.Reply { return pushOf(word, channel, payload()) })
	var patterns []*pattern
	if m.Kind != resp.MessageShard {
		patterns = h.candidates(channel)
	}
	h.mu.Unlock()
	if len(patterns) == 0 {
		return
	}
	matching, dear := match(patterns, channel, h.matching.note)
	if p := h.matching.costliest(); p != nil {
		dear = append(dear, p)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range matching {
		d.send(p.subs, func() resp.Reply { return pushOf("pmessage", p.glob, channel, payload()) })
	}
	for _, p := range dear {
		h.refuse(p)
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

// delivery hands one message to sessions.
type delivery struct {
	hub    *Hub
	number uint64 // of the message: later subscribers do not get it
}

// send sends a push to subscribers. It encodes the push once for each protocol, and releases the hub's lock now and
// then if there are many subscribers. mu is held.
func (d *delivery) send(subs subscribers, push func() resp.Reply) {
	if len(subs) == 0 {
		return
	}
	var forms [2][]byte
	lim := d.hub.settings.pushLimit()
	one := func(s *session) {
		if since, in := subs[s]; !in || since >= d.number {
			return
		}
		proto := int(s.proto.Load())
		form := &forms[proto-2]
		if *form == nil {
			*form = push().AppendTo(nil, proto)
		}
		d.hub.sendNow(s, *form, lim)
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
		d.hub.mu.Unlock()
		d.hub.mu.Lock()
	}
}

// refuse drops the subscribers of a pattern that takes too long to match. They may have missed a message, and a
// client must never miss one without noticing. mu is held.
func (h *Hub) refuse(p *pattern) {
	for s := range p.subs {
		h.drop(s, stats.DropPattern, "a pattern takes too long to match")
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

// receivers counts the subscribers that a message to the channel reaches, as PUBLISH answers.
func (h *Hub) receivers(channel string, shard bool) int64 {
	if h.subscribers.Load() == 0 {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if shard {
		return int64(len(h.shards[channel]))
	}
	n, patterns := len(h.channels[channel]), h.candidates(channel)
	if len(patterns) > 0 {
		h.mu.Unlock()
		patterns, _ = match(patterns, channel, nil)
		h.mu.Lock()
	}
	for _, p := range patterns {
		n += len(p.subs)
	}
	return int64(n)
}
