package pubsub

import (
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// delayed is a push that waits until the subscriber being answered has its replies.
type delayed struct {
	to   *Subscriber
	form []byte
}

// BeginAnswer begins to answer a request of a subscriber: until EndAnswer its pushes join the replies, and pushes to
// others wait. The lock is held throughout.
func (b *Broker) BeginAnswer(s *Subscriber, replies *[]byte) { b.answering, b.replies = s, replies }

// EndAnswer sends the delayed pushes. The lock is held.
func (b *Broker) EndAnswer() {
	b.answering, b.replies = nil, nil
	for _, d := range b.delayed {
		d.to.Push(d.form)
	}
	b.delayed = nil
}

// Push sends a push. The subscriber being answered gets it after its replies so far; others get theirs when those
// replies are handed over. The lock is held.
func (s *Subscriber) Push(form []byte) {
	b := s.broker
	switch {
	case s.dropped:
	case s == b.answering:
		*b.replies = append(*b.replies, form...)
	case b.answering != nil:
		b.delayed = append(b.delayed, delayed{s, form})
	default:
		s.Send(form)
	}
}

// Send sends a push, also while another subscriber is answered: after the messages on their way to it, if it
// subscribes. The lock is held.
func (s *Subscriber) Send(form []byte) {
	_, subscribes := s.broker.members[s]
	if (subscribes || s.underway.Load() > 0) && s.queues(parcel{to: s, form: form, bytes: len(form)}) {
		return
	}
	s.sendNow(form, s.broker.limit())
}

// sendNow appends a push to the outbox, and drops the subscriber if that is full. The lock is held.
func (s *Subscriber) sendNow(form []byte, limit wire.PushLimit) {
	if !s.dropped && !s.out.Push(form, limit) {
		s.drop(stats.DropSlow, "its output buffer is full")
	}
}

// DelayPushes delays later pushes until the reply to a blocking command. If the client subscribes, the messages on
// their way are not delayed. The goroutine that applies calls it, without the lock.
func (s *Subscriber) DelayPushes(subscribes bool) {
	if !subscribes || !s.queues(parcel{to: s, turn: turnDelay}) {
		s.out.DelayPushes()
	}
}

// ResumePushes ends DelayPushes, with the reply or, if form is empty, without. It is called without the lock, by any
// goroutine.
func (s *Subscriber) ResumePushes(form []byte, subscribes bool) {
	if !subscribes || !s.queues(parcel{to: s, turn: turnResume, form: form, bytes: len(form)}) {
		s.out.ResumePushes(form)
	}
}

// queues adds a parcel for the subscriber if others are on their way, and reports whether it did.
func (s *Subscriber) queues(p parcel) bool {
	s.underway.Add(1)
	if s.broker.queue.join(p) {
		return true
	}
	s.underway.Add(-1)
	return false
}

// Settle waits until the outbox has all messages published before, if the client subscribes: the next reply follows
// them. The client's own goroutine calls it, without the lock.
func (s *Subscriber) Settle() {
	if s.Subscribes() || s.underway.Load() > 0 {
		s.broker.queue.wait()
	}
}
