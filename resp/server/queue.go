package server

import (
	"sync"

	"lockd/resp"
)

// deliveries are the messages on their way to this node's subscribers, in the order of the log. The goroutine that
// applies the log adds them and goes on; another one, which runs while there are any, hands them out. So nobody's
// writes wait while this node finds out who gets a message.
//
// What else is pushed to a session that subscribes, and the reply to a command of it that has waited, joins the
// messages: the session gets all of it in one order.
type deliveries struct {
	handOut func() // takes what there is by next, until that has nothing more

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

// parcel is one of these: messages of an entry; a push, or a reply, to one session; the notice that subscribers have
// missed messages.
type parcel struct {
	number uint64
	msgs   []resp.Message
	bytes  int // of the messages, or of the form
	to     *session
	form   []byte
	turn   turn
	missed bool
}

// turn is what a parcel to one session does.
type turn uint8

const (
	turnPush   turn = iota // form is pushed
	turnHold               // what is pushed from now on waits for a reply
	turnResume             // form is that reply; if it is empty, none comes
)

// parcelOf are messages, with their bytes.
func parcelOf(msgs []resp.Message) parcel {
	p := parcel{msgs: msgs}
	for i := range msgs {
		p.bytes += len(msgs[i].Channel) + len(msgs[i].Payload) + len(msgs[i].Event)
	}
	return p
}

// size is how many messages it counts for.
func (p *parcel) size() int { return max(1, len(p.msgs)) }

func newDeliveries(handOut func()) *deliveries {
	q := &deliveries{handOut: handOut}
	q.passed.L = &q.mu
	return q
}

// add adds a parcel.
func (q *deliveries) add(p parcel) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(p)
}

// join adds a parcel if others are on their way, and reports whether it has.
func (q *deliveries) join(p parcel) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	on := q.done < q.added
	if on {
		q.put(p)
	}
	return on
}

// put adds a parcel. Beyond its limits the queue skips what waits in it, and notes that subscribers miss that.
func (q *deliveries) put(p parcel) {
	if q.size+p.size() > deliveriesMax || q.bytes+p.bytes > deliveryBytesMax {
		q.skipAll()
		q.append(parcel{missed: true})
	}
	if p.size() <= deliveriesMax {
		q.append(p)
	}
}

func (q *deliveries) append(p parcel) {
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

// skip skips all that waits: whoever would get it is gone.
func (q *deliveries) skip() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.skipAll()
}

func (q *deliveries) skipAll() { q.skipped, q.size, q.bytes = q.added, 0, 0 }

// last is the number of the parcel that was added last.
func (q *deliveries) last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.added
}

// next takes the next parcel, once the one before was handed out. skipped says that it is not to be delivered. Without
// one the queue has come to an end, and another goroutine may be started for it.
func (q *deliveries) next(before *parcel) (p parcel, skipped, ok bool) {
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

// wait waits until all that was added before has been handed out. Handing out waits for nobody.
func (q *deliveries) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for end := q.added; q.done < end; {
		q.passed.Wait()
	}
}
