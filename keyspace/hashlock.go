package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

// A lock of Redisson's kind is a hash that scripts keep: its fields are those who hold it, each with a
// count of how often. What is known of it stands in its entry, beside the hash, which changes in place.

// hashLock is an outsideEntry that is such a lock.
type hashLock struct {
	outsideLock
	holders []hashHolder // is not changed
}

// hashHolder is one who holds it. The lease is that of the key.
type hashHolder struct {
	token              string // its field
	sinceTick, sinceMs int64
	client             uint32 // see lock.Facts
	shared             bool   // others may hold it as well
}

const (
	// hashHoldersMax bounds the holders that are noted. Those of a lock that has them are looked at with
	// each of its changes.
	hashHoldersMax = 64
	// hashHolderBytes is what one counts for: its token is the hash's own.
	hashHolderBytes = 48

	hashMode  = "mode"   // the field in which a read-write lock says how it is held
	hashWrite = ":write" // the end of the token of one who writes

	redissonPrefix = "redisson_" // of what belongs to a lock
)

// namesHolder reports whether a field stands for one who holds a lock: it begins with a UUID, which its
// program has drawn.
func namesHolder(field string) bool {
	if len(field) > lockTokenBytesMax {
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

// helpsRedisson reports whether a key belongs to a lock of Redisson: the answer to a release, kept for one
// that is sent again, or the lease of a reader. Scripts give them a lease, but they are no locks.
func helpsRedisson(key string) bool {
	return strings.HasPrefix(key, redissonPrefix) || strings.Contains(key, ":rwlock_timeout:")
}

// hashMark is the mark of a hash that comes into being: what a script makes may be a lock, if it counts one
// holder, or says how it will be held.
func (c *ctx) hashMark(key string, h *value.Hash) lockMark {
	if c.run == nil || h.Len() > 2 || !c.m.namesLock(key) {
		return noLock
	}
	for i := range h.Len() {
		if name, count := h.At(i); name != hashMode && (count != "1" || !namesHolder(name)) {
			return noLock
		}
	}
	return mayBeLock
}

// hashLock is what is known of a lock that is a hash; nil of anything else.
func (e *entry) hashLock() *hashLock {
	if e == nil || e.mark() != isLock || e.agg() == nil {
		return nil
	}
	return asHashLock(e)
}

// hash is what the lock is.
func (l *hashLock) hash() *value.Hash {
	h, _ := l.agg().(*value.Hash)
	return h
}

// shared reports whether others may hold the lock beside those who do.
func (l *hashLock) shared() bool { return len(l.holders) > 0 && l.holders[0].shared }

// holder is one of the holders, as one of many. The fence of the key is that of the newest, and of all who share the
// lock. What an older one was given is not kept: 0.
func (l *hashLock) holder(h *hashHolder) lock.Holder {
	f, fence := l.facts, l.fence
	f.SinceTick, f.SinceMs, f.Client = h.sinceTick, h.sinceMs, h.client
	if newest := l.holders[len(l.holders)-1]; !h.shared && !h.is(newest) {
		fence = 0
	}
	return lock.Holder{
		Token: h.token, Fence: fence, Tick: l.tick, WallMs: l.wallMs, Facts: f,
	}
}

// recordHash is recordLock for a lock that is a hash.
func (m *Machine) recordHash(of lockName, was, next *entry) {
	before, after := was.hashLock(), next.hashLock()
	var held, holds, left []hashHolder
	if before != nil {
		held = before.holders
	}
	if after != nil {
		if before == nil {
			after.facts = m.newFacts(of.why, next.tick)
		} else if was.deadline() != next.deadline() {
			after.facts.Renew(next.tick, m.tick)
		}
		after.holders = m.hashHolders(of.why, held, after.hash())
		holds = after.holders
	}
	kept := stayed(held, holds, func(h *hashHolder) { left = append(left, *h) })
	if before != nil && joins(holds, kept) {
		m.nextFence()
		after.fence = m.lastFence
	}
	for i := range left {
		h := before.holder(&left[i])
		m.recordLoss(of.held(&left[i]), &h, next != nil && after == nil)
	}
	for i := kept; i < len(holds); i++ {
		h := after.holder(&holds[i])
		h.Fence = after.fence
		m.recordGrant(of.held(&holds[i]), &h)
	}
}

// stayed counts the holders who have stayed, which come first in holds and in their old order, and visits the others.
func stayed(held, holds []hashHolder, left func(h *hashHolder)) (kept int) {
	for i := range held {
		if kept < len(holds) && holds[kept].token == held[i].token {
			kept++
		} else {
			left(&held[i])
		}
	}
	return kept
}

// joins reports whether a lock has a new holder who shares it with nobody, or new holders alone: its key may have been
// there all the time. Of its holders, those who have stayed come first.
func joins(holds []hashHolder, stayed int) bool {
	alone := func(h hashHolder) bool { return !h.shared }
	news := holds[stayed:]
	return len(news) > 0 && (stayed == 0 || slices.ContainsFunc(news, alone))
}

func (h *hashHolder) is(other hashHolder) bool { return h.token == other.token }

// held is the lock as one holds it.
func (of lockName) held(h *hashHolder) lockName {
	if h.shared {
		of.permits = history.SharedPermits
	}
	return of
}

// hashHolders are those who hold a lock that others have held, whom a hash counts: those who stay, in their order, and
// then those who are new.
func (m *Machine) hashHolders(why *cause, held []hashHolder, h *value.Hash) []hashHolder {
	m.spend(value.FarWork * int64(1+len(held)))
	if sameHolders(held, h) {
		return held
	}
	holds := make([]hashHolder, 0, min(len(held)+1, hashHoldersMax))
	if h.Len() > 2*hashHoldersMax { // most of it is something else
		for _, one := range held {
			m.spend(h.FindWork(one.token))
			if _, there := h.Get(one.token); there {
				holds = append(holds, one)
			}
		}
		return holds
	}
	m.spend(2 * value.FarWork * int64(h.Len()+len(held)))
	places := make(map[string]int, len(held))
	for i := range held {
		places[held[i].token] = i
	}
	var stays [hashHoldersMax]bool
	next := hashHolder{sinceTick: m.tick, sinceMs: m.wallUs / 1000, client: clientHash(why.client)}
	var fresh []hashHolder
	_, moded := h.Get(hashMode)
	for i := range h.Len() {
		next.token, _ = h.At(i)
		if place, known := places[next.token]; known {
			stays[place] = true
		} else if namesHolder(next.token) {
			next.shared = moded && !strings.HasSuffix(next.token, hashWrite)
			fresh = append(fresh, next)
		}
	}
	for i := range held {
		if stays[i] {
			holds = append(holds, held[i])
		}
	}
	return append(holds, fresh[:min(len(fresh), hashHoldersMax-len(holds))]...)
}

// sameHolders reports whether a small hash counts those who have held it, and nobody else.
func sameHolders(held []hashHolder, h *value.Hash) bool {
	n := h.Len()
	if n > len(held)+1 {
		return false
	}
	found := 0
	for i := range n {
		switch name, _ := h.At(i); {
		case found < len(held) && held[found].token == name:
			found++
		case name != hashMode:
			return false
		}
	}
	return found == len(held)
}

// write writes the holders behind the hash.
func (l *hashLock) write(w *value.Writer) {
	w.U64(uint64(len(l.holders)))
	for _, h := range l.holders {
		parts := uint64(0)
		if h.shared {
			parts = hashHolderShared
		}
		w.Parts(parts)
		w.Text(h.token)
		w.U64(uint64(h.sinceTick))
		w.U64(uint64(h.sinceMs))
		w.U64(uint64(h.client))
	}
}

// hashHolderShared is the part of a holder that says that others may hold the lock as well.
const hashHolderShared = 1

func (l *hashLock) read(r *value.Reader) {
	h := l.hash()
	if h == nil {
		r.Fail("what is known of a lock that is neither a string nor a hash")
		return
	}
	n := r.U64()
	for ; n > 0 && r.OK(); n-- {
		parts := r.Parts("a holder of a lock that is a hash", hashHolderShared)
		next := hashHolder{token: r.Text(), sinceTick: r.I64(), sinceMs: r.I64(), shared: parts&hashHolderShared != 0}
		client := r.U64()
		next.client = uint32(client)
		if _, there := h.Get(next.token); !there || !namesHolder(next.token) || client != uint64(next.client) ||
			len(l.holders) == hashHoldersMax || slices.ContainsFunc(l.holders, next.is) {
			r.Fail("a holder of a lock that can not be")
		}
		l.holders = append(l.holders, next)
	}
}
