package pubsub

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// Conn is the connection of a Subscriber.
type Conn interface {
	// Proto returns the version of RESP that the client speaks, 2 or 3. Any goroutine may call it.
	Proto() int
	// Dropped ends the connection of a client that misses messages. It is called at most once, with the broker's lock
	// held, and does not block.
	Dropped(stats.DropReason)
	// Reserve takes memory for a subscription; the error is the client's, if there is no room. Release gives it back.
	// Only the client's own goroutine calls them.
	Reserve(bytes int) error
	Release(bytes int)
}

// Subscriber has the subscriptions of a client, and sends it pushes. Its own goroutine changes them, with the broker's
// lock held, and reads them without; others read them with the lock. Methods that need no lock say so.
type Subscriber struct {
	broker *Broker
	conn   Conn
	out    *wire.Outbox

	names  [kinds]map[string]uint64 // by Kind: the name and its sequence number
	seq    uint64
	counts [kinds]atomic.Int32 // of names, for everybody

	dropped  bool
	why      string       // it was dropped
	underway atomic.Int64 // parcels for it alone in the queue
}

// Init makes a new subscriber of a connection, and of its outbox. It is called before anything else.
func (s *Subscriber) Init(b *Broker, conn Conn, out *wire.Outbox) {
	s.broker, s.conn, s.out = b, conn, out
}

// drop ends the connection of a client that cannot get all its messages. The lock is held.
func (s *Subscriber) drop(reason stats.DropReason, why string) {
	if s.dropped {
		return
	}
	s.dropped, s.why = true, why
	s.conn.Dropped(reason)
}

// WhyDropped returns why the client was dropped, "" if it was not. It takes the lock.
func (s *Subscriber) WhyDropped() string {
	s.broker.Lock()
	defer s.broker.Unlock()
	return s.why
}

// Kind is one of the three ways to subscribe.
type Kind int

// The kinds.
const (
	Channel Kind = iota
	Pattern
	Shard
	kinds
)

// check returns why a name is none to subscribe to.
func (k Kind) check(name string) error {
	switch {
	case k == Pattern && len(name) > patternBytesMax:
		return resp.Error("ERR pattern is too long")
	case len(name) > channelBytesMax:
		return resp.Error("ERR channel name is too long")
	}
	return nil
}

// Count returns the number of subscriptions of a kind. It needs no lock.
func (s *Subscriber) Count(k Kind) int { return int(s.counts[k].Load()) }

// Subscribes reports whether there are subscriptions. It needs no lock.
func (s *Subscriber) Subscribes() bool { return s.total() > 0 }

func (s *Subscriber) total() int { return s.Count(Channel) + s.Count(Pattern) + s.Count(Shard) }

// Names lists the subscriptions of a kind, in any order.
func (s *Subscriber) Names(k Kind) iter.Seq[string] { return maps.Keys(s.names[k]) }

// Ordered lists the subscriptions of a kind in the order in which they came.
func (s *Subscriber) Ordered(k Kind) []string {
	names := s.names[k]
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Compare(names[a], names[b]) })
}

// Subscribe adds a subscription, if the client does not have it already. The lock is held.
func (s *Subscriber) Subscribe(k Kind, name string) error {
	if _, have := s.names[k][name]; have {
		return nil
	}
	if err := k.check(name); err != nil {
		return err
	}
	name = strings.Clone(name)
	if err := s.conn.Reserve(len(name) + subscriptionBytes); err != nil {
		return err
	}
	if s.total() >= subscriptionsMax || s.dropped || !s.broker.add(k, name, s) {
		s.conn.Release(len(name) + subscriptionBytes)
		return resp.Error("ERR too many subscriptions")
	}
	if s.names[k] == nil {
		s.names[k] = map[string]uint64{}
	}
	s.seq++
	s.names[k][name] = s.seq
	s.counts[k].Add(1)
	s.broker.enter(s)
	return nil
}

// Unsubscribe ends a subscription, if the client has it. The lock is held.
func (s *Subscriber) Unsubscribe(k Kind, name string) {
	if _, have := s.names[k][name]; !have {
		return
	}
	delete(s.names[k], name)
	s.conn.Release(len(name) + subscriptionBytes)
	s.broker.remove(k, name, s)
	s.counts[k].Add(-1)
	if s.total() == 0 {
		s.broker.leave(s)
	}
}

// UnsubscribeAll ends all subscriptions. The lock is held.
func (s *Subscriber) UnsubscribeAll() {
	for k := range kinds {
		for name := range s.names[k] {
			s.Unsubscribe(k, name)
		}
	}
}

// add adds a subscription of a kind, and reports whether there was room. The lock is held.
func (b *Broker) add(k Kind, name string, s *Subscriber) bool {
	since := b.queue.last()
	switch k {
	case Pattern:
		return b.patterns.add(name, s, since)
	case Shard:
		b.shards.add(name, s, since)
	default:
		b.channels.add(name, s, since)
	}
	return true
}

func (b *Broker) remove(k Kind, name string, s *Subscriber) {
	switch k {
	case Pattern:
		b.patterns.remove(name, s)
	case Shard:
		b.shards.remove(name, s)
	default:
		b.channels.remove(name, s)
	}
}
