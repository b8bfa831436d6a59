package wait

import "lockd/keyspace/lock"

// Kind is a kind of value for which commands wait: the byte by which images know it.
type Kind byte

// LockLine is the Kind of the queue for a lock, whose order is that of its lock.Line.
const LockLine Kind = 0

// Queue names the queue for values of a kind at a key.
type Queue struct {
	DB   int
	Key  string
	Kind Kind
}

// LineOf returns the queue for a lock.
func LineOf(name lock.Name) Queue { return Queue{name.Space, name.Key, LockLine} }

// Ready has the queues that were marked, each once, in the order of their marks. The marks are set and taken within one
// entry of the log.
type Ready struct {
	queues []Queue
	marked map[Queue]struct{}
}

// Mark marks a queue.
func (r *Ready) Mark(q Queue) {
	if r.Has(q) {
		return
	}
	if r.marked == nil {
		r.marked = map[Queue]struct{}{}
	}
	r.marked[q] = struct{}{}
	r.queues = append(r.queues, q)
}

// Has reports whether a queue is marked.
func (r *Ready) Has(q Queue) bool {
	_, marked := r.marked[q]
	return marked
}

// Take returns the queue that was marked first, without its mark; false: none is marked.
func (r *Ready) Take() (q Queue, ok bool) {
	if len(r.queues) == 0 {
		r.queues = nil
		return q, false
	}
	q, r.queues = r.queues[0], r.queues[1:]
	delete(r.marked, q)
	return q, true
}

// Len is the number of marked queues.
func (r *Ready) Len() int { return len(r.queues) }

// Truncate removes the marks behind the first n.
func (r *Ready) Truncate(n int) {
	for _, q := range r.queues[n:] {
		delete(r.marked, q)
	}
	r.queues = r.queues[:n]
}
