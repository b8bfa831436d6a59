package lifecycle

import (
	"slices"
	"strings"

	"lockd/keyspace/history"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
)

// A lock of Redisson's kind is a hash that scripts keep: each field is a holder, its value counts how often. The facts
// of the lock stand in its entry, beside the hash, which changes in place.

const hashMode = "mode" // the field in which a read-write lock says how it is held

// HashWrite ends the token of a holder that writes.
const HashWrite = ":write"

// RedissonPrefix begins the names of what belongs to a lock of Redisson.
const RedissonPrefix = "redisson_"

// NamesHolder reports whether a field stands for a holder of a lock: it begins with a UUID, which the program has
// drawn.
func NamesHolder(field string) bool {
	if len(field) > TokenBytesMax {
		return false
	}
	digits := 0
	for i := 0; i < len(field) && digits < 32; i++ {
		switch c := field[i]; {
		case '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'f':
			digits++
		case c != '-' || i != 8 && i != 13 && i != 18 && i != 23:
			return false
		}
	}
	return digits == 32
}

// HelpsRedisson reports whether a key belongs to a lock of Redisson: the answer to a release, kept for one
// that is sent again, or the lease of a reader. Scripts give them a lease, but they are no locks.
func HelpsRedisson(key string) bool {
	return strings.HasPrefix(key, RedissonPrefix) || strings.Contains(key, ":rwlock_timeout:")
}

// HashMark returns the mark of a hash that a script makes: it may be a lock, if it counts one holder, or says how it
// will be held.
func (r Recorder) HashMark(key string, h *value.Hash) store.Mark {
	if h.Len() > 2 || !r.NamesLock(key) {
		return store.NoLock
	}
	for i := range h.Len() {
		if name, count := h.At(i); name != hashMode && (count != "1" || !NamesHolder(name)) {
			return store.NoLock
		}
	}
	return store.MayBeLock
}

// completeHash completes a lock that is a hash with its facts and its holders; raises is that of Complete.
func (r Recorder) completeHash(why *Cause, was, next *store.Entry) (raises bool) {
	before, after := was.HashLock(), next.HashLock()
	if after == nil {
		return false
	}
	if before == nil {
		after.Facts = r.newFacts(why, next.Tick)
	} else if was.Deadline() != next.Deadline() {
		after.Facts.Renew(next.Tick, r.Tick)
	}
	held := holdersOfHash(before)
	after.Holders = r.hashHolders(why, held, after.Hash())
	return before != nil && joins(after.Holders, stayed(held, after.Holders, func(*store.HashHolder) {}))
}

func holdersOfHash(l *store.HashLock) []store.HashHolder {
	if l == nil {
		return nil
	}
	return l.Holders
}

// recordHash records losses and grants of a lock that is a hash.
func (r Recorder) recordHash(of subject, was, next *store.Entry) {
	before, after := was.HashLock(), next.HashLock()
	held, holds := holdersOfHash(before), holdersOfHash(after)
	kept := stayed(held, holds, func(h *store.HashHolder) {
		one := before.Holder(h)
		r.recordLoss(of.held(h), &one, next != nil && after == nil)
	})
	for i := kept; i < len(holds); i++ {
		h := after.Holder(&holds[i])
		h.Fence = after.Fence
		r.recordGrant(of.held(&holds[i]), &h)
	}
}

// stayed counts the holders that have stayed, which come first in holds and in their old order. It visits the holders
// that have left.
func stayed(held, holds []store.HashHolder, left func(h *store.HashHolder)) (kept int) {
	for i := range held {
		if kept < len(holds) && holds[kept].Token == held[i].Token {
			kept++
		} else {
			left(&held[i])
		}
	}
	return kept
}

// joins reports whether a lock has a new holder that shares it with nobody, or new holders alone: its key may have been
// there all the time. The first holders have stayed.
func joins(holds []store.HashHolder, stayed int) bool {
	alone := func(h store.HashHolder) bool { return !h.Shared }
	news := holds[stayed:]
	return len(news) > 0 && (stayed == 0 || slices.ContainsFunc(news, alone))
}

// held returns the subject for one of the holders.
func (of subject) held(h *store.HashHolder) subject {
	if h.Shared {
		of.permits = history.SharedPermits
	}
	return of
}

// hashHolders returns the holders that a hash counts, of a lock that some have held before: those that stay, in their
// order, and then the new ones.
func (r Recorder) hashHolders(why *Cause, held []store.HashHolder, h *value.Hash) []store.HashHolder {
	r.Meter.Spend(value.FarWork * int64(1+len(held)))
	if sameHolders(held, h) {
		return held
	}
	holds := make([]store.HashHolder, 0, min(len(held)+1, store.HashHoldersMax))
	if h.Len() > 2*store.HashHoldersMax { // most of it is something else
		for _, one := range held {
			r.Meter.Spend(h.FindWork(one.Token))
			if _, there := h.Get(one.Token); there {
				holds = append(holds, one)
			}
		}
		return holds
	}
	r.Meter.Spend(2 * value.FarWork * int64(h.Len()+len(held)))
	places := make(map[string]int, len(held))
	for i := range held {
		places[held[i].Token] = i
	}
	var stays [store.HashHoldersMax]bool
	next := store.HashHolder{SinceTick: r.Tick, SinceMs: r.WallMs, Client: clientHash(why.Client)}
	var fresh []store.HashHolder
	_, moded := h.Get(hashMode)
	for i := range h.Len() {
		next.Token, _ = h.At(i)
		if place, known := places[next.Token]; known {
			stays[place] = true
		} else if NamesHolder(next.Token) {
			next.Shared = moded && !strings.HasSuffix(next.Token, HashWrite)
			fresh = append(fresh, next)
		}
	}
	for i := range held {
		if stays[i] {
			holds = append(holds, held[i])
		}
	}
	return append(holds, fresh[:min(len(fresh), store.HashHoldersMax-len(holds))]...)
}

// fields are those of a hash, in their order. To look for one by its name is not offered: a small hash looks at all.
type fields interface {
	Len() int
	At(i int) (name, val string)
}

// sameHolders reports whether a small hash counts the holders that it had, and no other. It looks at each field once.
func sameHolders(held []store.HashHolder, h fields) bool {
	n := h.Len()
	if n > len(held)+1 {
		return false
	}
	found := 0
	for i := range n {
		switch name, _ := h.At(i); {
		case found < len(held) && held[found].Token == name:
			found++
		case name != hashMode:
			return false
		}
	}
	return found == len(held)
}
