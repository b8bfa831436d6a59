package pubsub

import (
	"sync"

	"lockd/resp"
)

// queue is the queue of messages for this node's subscribers, in the order of the log. The goroutine that
// applies the log adds them and goes on; another one, which runs while the queue is not empty, delivers them. So no
// write waits while this node finds out which clients get a message.
//
// Other pushes to a client that subscribes, and replies to its blocking commands, join the queue: the client gets
// all of them in one order.
type queue struct {
	handOut func() // takes parcels by next until the queue is empty

	mu      sync.Mutex
	passed  sync.Cond // done has risen
	list    []parcel
	size    int    // messages in the parcels that are neither done nor skipped
	bytes   int    // their bytes
	added   uint64 // parcels so far: the number of the last one
	done    uint64 // the number of the last one that was handed out
	skipped uint64 // parcels up to this number are not handed out
	running bool
}

// parcel is an element of the queue: the messages of an entry; a push, or a reply, to one subscriber; or the notice that
// subscribers have missed messages.
type parcel struct {
	number uint64
	msgs   []resp.Message
	bytes  int // of the messages, or of the form
	to     *Subscriber
	form   []byte
	turn   turn
	missed bool
}

// turn is the effect of a parcel for one subscriber.
type turn uint8

const (
	turnPush   turn = iota // push form
	turnDelay              // later pushes wait for a reply
	turnResume             // form is that reply; if it is empty, there is none
)

// parcelOf makes a parcel of messages.
func parcelOf(msgs []resp.Message) parcel {
	p := parcel{msgs: msgs}
	for i := range msgs {
		p.bytes += len(msgs[i].Channel) + len(msgs[i].Payload) + len(msgs[i].Event)
	}
	return p
}

// size returns the number of messages that the parcel counts as.
func (p *parcel) size() int { return max(1, len(p.msgs)) }

func newQueue(handOut func()) *queue {
	q := &queue{handOut: handOut}
	q.passed.L = &q.mu
	return q
}

// add adds a parcel.
func (q *queue) add(p parcel) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(p)
}

// join adds a parcel if others are waiting, and reports whether it did.
func (q *queue) join(p parcel) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	on := q.done < q.added
	if on {
		q.put(p)
	}
	return on
}

// put adds a parcel. Beyond its limits the queue skips the waiting parcels, and records that subscribers miss them.
func (q *queue) put(p parcel) {
	if q.size+p.size() > queuedMax || q.bytes+p.bytes > queuedBytesMax {
		q.skipAll()
		q.append(parcel{missed: true})
	}
	if p.size() <= queuedMax {
		q.append(p)
	}
}

func (q *queue) append(p parcel) {
	q.added++
	p.number = q.added
	q.list = append(q.list, p)
	q.size += p.size()
	q.bytes += p.bytes
	if !q.running {
		q.running = true
		go q.handOut()
	}
}

// skip skips all waiting parcels: their receivers have been dropped.
func (q *queue) skip() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.skipAll()
}

func (q *queue) skipAll() { q.skipped, q.size, q.bytes = q.added, 0, 0 }

// last returns the number of the parcel added last.
func (q *queue) last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.added
}

// next takes the next parcel, after the one before was handed out. skipped: do not deliver it. If ok is false the
// queue is empty, and its goroutine must end: another one may be started.
func (q *queue) next(before *parcel) (p parcel, skipped, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if before.number > 0 {
		if q.done = before.number; q.done > q.skipped {
			q.size -= before.size()
			q.bytes -= before.bytes
		}
		q.passed.Broadcast()
	}
	if len(q.list) == 0 {
		q.list, q.running = nil, false
		return p, false, false
	}
	p, q.list[0] = q.list[0], parcel{}
	q.list = q.list[1:]
	return p, p.number <= q.skipped, true
}

// wait waits until all parcels added before have been handed out. Handing out never blocks.
func (q *queue) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for end := q.added; q.done < end; {
		q.passed.Wait()
	}
}
