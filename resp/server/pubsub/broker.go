package pubsub

import (
	"sync"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// Broker has the subscribers of a node. The goroutine that applies the log calls Publish, which does bounded work and
// never blocks: messages go into a queue, from which another goroutine appends them to the outboxes. A subscriber whose
// outbox is too full is dropped.
//
// Its mutex guards subscribers and their subscriptions. Callers guard with it what else makes pushes, so that pushes,
// subscriptions and replies to a client have one order.
type Broker struct {
	limit      func() wire.PushLimit
	subscribed atomic.Int64 // subscribers with subscriptions: Publish reads it first
	queue      *queue
	matching   matching

	counting sync.Mutex // taken before the other: of many questions that list much, at most one competes for that
	sync.Mutex
	channels topics
	shards   topics
	patterns patterns
	members  subscribers // all with subscriptions

	answering *Subscriber // its followed request is being answered
	replies   *[]byte     // its replies so far
	delayed   []delayed   // pushes to others, until the replies are handed over
}

// NewBroker returns a broker without subscribers. limit returns how much output may wait for a client.
func NewBroker(limit func() wire.PushLimit) *Broker {
	b := &Broker{limit: limit, channels: topics{}, shards: topics{}, patterns: newPatterns(), members: subscribers{}}
	b.queue = newQueue(b.handOut)
	return b
}

// InUse reports whether any client subscribes. It needs no lock.
func (b *Broker) InUse() bool { return b.subscribed.Load() > 0 }

// Publish queues messages, in the order of the log. It needs no lock.
func (b *Broker) Publish(msgs []resp.Message) { b.queue.add(parcelOf(msgs)) }

// Settle waits until all messages published before are in the outboxes. It is called without the lock.
func (b *Broker) Settle() { b.queue.wait() }

// Sizes returns the numbers of channels, patterns and shard channels with subscribers.
func (b *Broker) Sizes() (channels, patterns, shards int) {
	b.Lock()
	defer b.Unlock()
	return len(b.channels), len(b.patterns.byGlob), len(b.shards)
}

// DropAll drops every subscriber, because it may have missed messages: its client then subscribes and reads again. The
// lock is held.
func (b *Broker) DropAll(why string) {
	b.queue.skip()
	b.dropMembers(b.queue.last()+1, stats.DropUnsure, why)
}

// dropMembers drops the members that subscribed before the parcel of this number was added. The lock is held.
func (b *Broker) dropMembers(number uint64, reason stats.DropReason, why string) {
	for s, since := range b.members {
		if since < number {
			s.drop(reason, why)
		}
	}
}

// enter and leave keep count of the members. The lock is held.
func (b *Broker) enter(s *Subscriber) {
	if _, in := b.members[s]; !in {
		b.members[s] = b.queue.last()
		b.subscribed.Add(1)
	}
}

func (b *Broker) leave(s *Subscriber) {
	if _, in := b.members[s]; in {
		delete(b.members, s)
		b.subscribed.Add(-1)
	}
}
