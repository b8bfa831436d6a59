package keyspace

import (
	"math/bits"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/resp"
)

// The digest is a number into which each entry folds what it did: what it stored and removed,
// what its writes answered and emitted, and where the counters stand. It never forgets, so two
// machines that once did something else differ from then on, until an image is restored.
// Only what all nodes must agree on may go in, and nothing that says how a value is kept.
type digest uint64

const (
	digestBegin = 1       // of an empty machine
	digestBytes = 1 << 10 // that are looked at, at each end of a long string
	digestElems = 64      // that are looked at of an aggregate of replies

	// Two odd numbers with many bits set, those by which XXH64 multiplies.
	digestPrime1 = 0x9E3779B185EBCA87
	digestPrime2 = 0x85EBCA77C2B2AE63
)

// Digest is the digest as of the last entry.
func (m *Machine) Digest() uint64 { return uint64(m.digest) }

// add folds a number in.
func (d *digest) add(n uint64) {
	h := bits.RotateLeft64(uint64(*d)^n, 29)*digestPrime1 + digestPrime2
	h ^= h >> 32
	*d = digest(h)
}

// text folds a string in; of a long one its ends.
func (d *digest) text(s string) {
	d.add(uint64(len(s)))
	if len(s) > 2*digestBytes {
		d.add(xxh3.HashString(s[:digestBytes]))
		s = s[len(s)-digestBytes:]
	}
	d.add(xxh3.HashString(s))
}

// stored folds in what a key holds from now on; nil: nothing.
func (d *digest) stored(db int, key string, e *store.Entry) {
	d.add(uint64(db))
	d.text(key)
	if e == nil {
		d.add(0)
		return
	}
	d.add(uint64(e.Tick))
	if agg := e.Aggregate(); agg != nil {
		d.add(uint64(agg.Kind().Image)<<48 ^ uint64(agg.Len()))
		d.add(uint64(e.Size()))
		d.lock(e.Lock())
	} else {
		d.text(e.Str())
	}
	if e.Mark() == store.IsLock {
		f := e.Facts()
		d.add(uint64(f.SinceMs))
		d.add(uint64(f.Renewals))
	}
	if t := e.Tag(); t != nil {
		d.text(t.Owner)
		d.text(t.Note)
	}
}

// lock folds in how many may hold a lock, who got it last, and whose lease ends first.
func (d *digest) lock(l *lock.Many) {
	if l == nil {
		return
	}
	d.add(uint64(max(l.Mode(), 0)))
	for _, h := range [...]*lock.Holder{l.First(), l.Newest()} {
		d.text(h.Token)
		d.add(h.Fence)
		d.add(uint64(h.Tick))
	}
}

// reply folds in what a write answered. Of an error only that it is one: its words are for
// people.
func (d *digest) reply(r resp.Reply) {
	d.add(uint64(r.Kind))
	if r.IsErr() {
		return
	}
	d.add(uint64(r.Int))
	d.text(r.Str)
	d.add(uint64(len(r.Elems)))
	for _, e := range r.Elems[:min(len(r.Elems), digestElems)] {
		d.reply(e)
	}
}

// event folds in what has become of a lock.
func (d *digest) event(record []byte) { d.add(xxh3.Hash(record)) }

// message folds in what subscribers and waiters get.
func (d *digest) message(m *resp.Message) {
	switch m.Kind {
	case resp.MessageChanges: // for clients that track; what changed was stored
	case resp.MessageLock, resp.MessageHeld: // of an event, which was folded in, or of a renewal
	case resp.MessageBlock:
		d.add(m.Block.ID.Session)
		d.add(m.Block.ID.Number)
		d.add(uint64(m.Block.How))
		d.reply(m.Block.Reply)
	default:
		d.add(uint64(m.Kind))
		d.text(m.Channel)
		d.text(m.Payload)
	}
}
