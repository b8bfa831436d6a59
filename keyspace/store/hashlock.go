package store

import (
	"slices"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

const (
	// HashHoldersMax bounds the holders that are recorded: each change of such a lock looks at all of them.
	HashHoldersMax = 64
	// HashHolderBytes is the memory that a recorded holder counts for; its token is the hash's own.
	HashHolderBytes = 48
)

// HashLock is an outsideEntry that is a lock as Redisson keeps it: a hash with a field for each holder, which changes
// in place. The facts of the holders stand beside it.
type HashLock struct {
	outsideLock
	Holders []HashHolder // is not changed
}

// HashHolder is a holder of a HashLock. Its lease is the lease of the key.
type HashHolder struct {
	Token              string // its field
	SinceTick, SinceMs int64
	Client             uint32 // see lock.Facts
	Shared             bool   // others may hold it as well
}

// HashLock returns the lock that the key is, if that is a hash; nil of anything else, and of no entry.
func (e *Entry) HashLock() *HashLock {
	if e == nil || e.Mark() != IsLock || e.Aggregate() == nil {
		return nil
	}
	return asHashLock(e)
}

// Hash returns the hash that the lock is; nil if the entry holds another aggregate.
func (l *HashLock) Hash() *value.Hash {
	h, _ := l.Aggregate().(*value.Hash)
	return h
}

// Shared reports whether more may hold the lock.
func (l *HashLock) Shared() bool { return len(l.Holders) > 0 && l.Holders[0].Shared }

// Holder returns one of the holders, in the form of package lock. The fence of the key is that of the newest, and of
// all who share the lock. What an older one was given is not kept: 0.
func (l *HashLock) Holder(h *HashHolder) lock.Holder {
	f, fence := l.Facts, l.Fence
	f.SinceTick, f.SinceMs, f.Client = h.SinceTick, h.SinceMs, h.Client
	if newest := l.Holders[len(l.Holders)-1]; !h.Shared && !h.is(newest) {
		fence = 0
	}
	return lock.Holder{
		Token: h.Token, Fence: fence, Tick: l.Tick, WallMs: l.wallMs, Facts: f,
	}
}

// is reports whether both have the same token.
func (h *HashHolder) is(other HashHolder) bool { return h.Token == other.Token }

// write writes the holders behind the hash.
func (l *HashLock) write(w *value.Writer) {
	w.U64(uint64(len(l.Holders)))
	for _, h := range l.Holders {
		parts := uint64(0)
		if h.Shared {
			parts = hashHolderShared
		}
		w.Parts(parts)
		w.Text(h.Token)
		w.U64(uint64(h.SinceTick))
		w.U64(uint64(h.SinceMs))
		w.U64(uint64(h.Client))
	}
}

// hashHolderShared is the part of a holder that says that others may hold the lock as well.
const hashHolderShared = 1

// Read reads the holders behind the hash. names reports whether a field of the hash may stand for one.
func (l *HashLock) Read(r *value.Reader, names func(field string) bool) {
	h := l.Hash()
	if h == nil {
		return // readEntry has refused it
	}
	n := r.U64()
	for ; n > 0 && r.OK(); n-- {
		parts := r.Parts("a holder of a lock that is a hash", hashHolderShared)
		next := HashHolder{Token: r.Text(), SinceTick: r.I64(), SinceMs: r.I64(), Shared: parts&hashHolderShared != 0}
		client := r.U64()
		next.Client = uint32(client)
		if _, there := h.Get(next.Token); !there || !names(next.Token) || client != uint64(next.Client) ||
			len(l.Holders) == HashHoldersMax || slices.ContainsFunc(l.Holders, next.is) {
			r.Fail("a holder of a lock that can not be")
		}
		l.Holders = append(l.Holders, next)
	}
}
