package wait

import (
	"cmp"
	"strings"

	"github.com/tidwall/btree"
)

// Queues has the queues of all keys. A waiter has the same place in the queue of each of its keys.
type Queues struct{ places *btree.BTreeG[place] }

// place is the place of a waiter in the queue of one of its keys. Each kind has a queue of its own, so waiters for
// another kind are not visited.
type place struct {
	Queue
	seq uint64
	of  *Waiter
}

func byPlace(a, b place) bool {
	return cmp.Or(
		cmp.Compare(a.DB, b.DB),
		strings.Compare(a.Key, b.Key),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.seq, b.seq),
	) < 0
}

// Len is the number of places in all queues.
func (s *Queues) Len() int { return s.places.Len() }

func (s *Queues) enter(w *Waiter) {
	for _, key := range w.Keys() {
		s.places.Set(w.place(key))
	}
}

func (s *Queues) leave(w *Waiter) {
	for _, key := range w.Keys() {
		s.places.Delete(w.place(key))
	}
}

// Next returns the waiter that has waited longest in the queue of a key, among those behind a place; nil: there is
// none.
func (s *Queues) Next(q Queue, behind uint64) *Waiter {
	var found *Waiter
	s.places.Ascend(place{Queue: q, seq: behind + 1}, func(p place) bool {
		if p.Queue == q {
			found = p.of
		}
		return false
	})
	return found
}

// Keys lists the keys of a database in whose queues somebody waits, in their order.
func (s *Queues) Keys(db int) (keys []string) {
	s.places.Ascend(place{Queue: Queue{DB: db}}, func(p place) bool {
		if p.DB == db && (len(keys) == 0 || keys[len(keys)-1] != p.Key) {
			keys = append(keys, p.Key)
		}
		return p.DB == db
	})
	return keys
}
