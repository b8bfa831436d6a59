// Package digest sums up what the entries of the log did, so that nodes notice that their states differ.
package digest

import (
	"math/bits"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/resp"
)

// Digest is a number into which each entry folds what it did: what it stored and removed, what its writes answered and
// emitted, and where the counters stand. It never forgets, so two machines that once did something else differ from
// then on, until an image is restored. Only what all nodes must agree on may go in, and nothing that says how a value
// is kept.
type Digest uint64

// Begin is the digest of an empty machine.
const Begin Digest = 1

const (
	endBytes = 1 << 10 // looked at, at each end of a long string
	elemsMax = 64      // looked at of an aggregate of replies

	// Two odd numbers with many bits set, those by which XXH64 multiplies.
	prime1 = 0x9E3779B185EBCA87
	prime2 = 0x85EBCA77C2B2AE63
)

// Add folds a number in.
func (d *Digest) Add(n uint64) {
	h := bits.RotateLeft64(uint64(*d)^n, 29)*prime1 + prime2
	h ^= h >> 32
	*d = Digest(h)
}

// text folds a string in; of a long one its ends.
func (d *Digest) text(s string) {
	d.Add(uint64(len(s)))
	if len(s) > 2*endBytes {
		d.Add(xxh3.HashString(s[:endBytes]))
		s = s[len(s)-endBytes:]
	}
	d.Add(xxh3.HashString(s))
}

// Stored folds in what a key holds from now on; nil: nothing.
func (d *Digest) Stored(db int, key string, e *store.Entry) {
	d.Add(uint64(db))
	d.text(key)
	if e == nil {
		d.Add(0)
		return
	}
	d.Add(uint64(e.Tick))
	if agg := e.Aggregate(); agg != nil {
		d.Add(uint64(agg.Kind().Image)<<48 ^ uint64(agg.Len()))
		d.Add(uint64(e.Size()))
		d.lock(e.Lock())
	} else {
		d.text(e.Str())
	}
	if e.Mark() == store.IsLock {
		f := e.Facts()
		d.Add(uint64(f.SinceMs))
		d.Add(uint64(f.Renewals))
	}
	if t := e.Tag(); t != nil {
		d.text(t.Owner)
		d.text(t.Note)
	}
}

// lock folds in the mode of a lock, its newest holder, and the holder whose lease ends first.
func (d *Digest) lock(l *lock.Many) {
	if l == nil {
		return
	}
	d.Add(uint64(max(l.Mode(), 0)))
	for _, h := range [...]*lock.Holder{l.First(), l.Newest()} {
		d.text(h.Token)
		d.Add(h.Fence)
		d.Add(uint64(h.Tick))
	}
}

// Reply folds in the answer of a write. Of an error it folds in its kind alone: the words are for people.
func (d *Digest) Reply(r resp.Reply) {
	d.Add(uint64(r.Kind))
	if r.IsErr() {
		return
	}
	d.Add(uint64(r.Int))
	d.text(r.Str)
	d.Add(uint64(len(r.Elems)))
	for _, e := range r.Elems[:min(len(r.Elems), elemsMax)] {
		d.Reply(e)
	}
}

// Event folds in what has become of a lock.
func (d *Digest) Event(record []byte) { d.Add(xxh3.Hash(record)) }

// Message folds in what subscribers and waiters get.
func (d *Digest) Message(m *resp.Message) {
	switch m.Kind {
	case resp.MessageChanges: // for clients that track; what changed was stored
	case resp.MessageLock, resp.MessageHeld: // of an event, which was folded in, or of a renewal
	case resp.MessageBlock:
		d.Add(m.Block.ID.Session)
		d.Add(m.Block.ID.Number)
		d.Add(uint64(m.Block.How))
		d.Reply(m.Block.Reply)
	default:
		d.Add(uint64(m.Kind))
		d.text(m.Channel)
		d.text(m.Payload)
	}
}
