package keyspace

import (
	"cmp"
	"slices"
	"strings"

	"lockd/keyspace/value"
	"lockd/resp"
)

// Deadlocks. Who waits for a lock is its owner: the name that LOCK was told, or else the token. An owner
// does one thing at a time, so one that waits is blocked: until a lease or a WAIT ends, if owners wait
// for each other. The LOCK that closes such a circle is told, and does not wait. DESIGN.md says which
// circles are found.

// Limits of the search for a circle. Beyond them none is found.
const (
	deadlockOwnersMax    = 256     // owners in one search
	deadlockEdgesMax     = 4096    // holders of their locks, and their waits, in one search
	deadlockEntryWorkMax = 1 << 29 // work of all searches of one entry, 0.1 s
)

// What the error shows. A token is a secret of a kind.
const (
	deadlockShownMax     = 8  // owners besides the one who is told
	deadlockNameCharsMax = 64 // of an owner, of a key
	deadlockTokenChars   = 8
)

// ownWait is a wait, in the order of the owners who wait.
type ownWait struct {
	owner string
	seq   uint64
	of    *waiter
}

func ownWaitLess(a, b ownWait) bool {
	return cmp.Or(strings.Compare(a.owner, b.owner), cmp.Compare(a.seq, b.seq)) < 0
}

func (w *waiter) own() ownWait { return ownWait{cmp.Or(w.lock.owner, w.lock.token), w.seq, w} }

// deadlock is a search for a circle from one lock on: to all who hold it, to all locks that these wait
// for, and so on. It fails at the first owner who does not wait.
type deadlock struct {
	m      *Machine
	now    int64 // what is over by then is as good as gone
	edges  int
	locks  []soughtLock // in the order in which they were found; the first is where the search began
	owners []stuckOwner
	seen   map[lineKey]struct{} // the keys of locks
	known  map[string]int       // the places of owners by their names
	last   *waiter              // of those in line for the first lock whose owners were found
}

type soughtLock struct {
	lineKey
	by int // the place of an owner who waits for it; -1 for the first
}

type stuckOwner struct {
	shown string // its name, or the beginning of its token
	holds int    // the place of a lock that it holds
}

// mayWait reports whether a waiter that has just begun to wait may go on.
func (m *Machine) mayWait(now int64, w *waiter) bool {
	if w.kind != lockLine {
		return true
	}
	for m.endDeadlock(now, w.line()) {
		m.noteLeft(w.line())
	}
	return m.blocked.waiter(w.id) == w
}

// endDeadlock looks for a circle in which somebody waits for a lock. If there is one it ends that wait:
// of several, the last to have begun.
func (m *Machine) endDeadlock(now int64, k lineKey) bool {
	if m.searched > deadlockEntryWorkMax {
		return false
	}
	d := deadlock{m: m, now: now, locks: []soughtLock{{k, -1}}}
	for i := 0; i < len(d.locks); i++ {
		if !d.isStuck(i) {
			return false
		}
	}
	if d.last == nil {
		return false
	}
	m.tellEnd(d.last, resp.BlockServed, resp.Err(d.words()))
	return true
}

// spend counts work, which the entry has a limit for: many may have to be looked at.
func (d *deadlock) spend(work int64) {
	d.m.spend(work)
	d.m.searched += work
}

// isStuck reports whether all who hold a lock wait, as far as is known. One that is about to be served
// is not stuck.
func (d *deadlock) isStuck(at int) (stuck bool) {
	k := d.locks[at].lineKey
	d.spend(d.m.dbs[k.db].findWork(k.key) + lineWork)
	e, ok := d.m.dbs[k.db].keys.get(k.key)
	if _, ready := d.m.readySet[k.ready()]; ready || !ok || e.ends() < d.now {
		return false
	}
	if e.agg() == nil {
		owner := ""
		if e.tag() != nil {
			owner = e.tag().owner
		}
		return d.waits(at, owner, e.str())
	}
	if e.lock() == nil {
		return false
	}
	e.lock().Each(func(h *value.Holder) bool {
		stuck = d.waits(at, h.Owner, h.Token)
		return stuck
	})
	return stuck
}

// waits follows a holder of a lock to what it waits for: false if it does not.
func (d *deadlock) waits(at int, owner, token string) (waits bool) {
	name := cmp.Or(owner, token)
	if len(name) > max(lockOwnerBytesMax, lockTokenBytesMax) || !d.mayLook(name) {
		return false
	}
	if _, known := d.known[name]; known {
		return true
	}
	from := len(d.owners)
	d.m.blocked.owners.Ascend(ownWait{owner: name}, func(w ownWait) bool {
		if w.owner != name {
			return false
		}
		if waits = d.mayLook("") && w.of.end >= d.now; waits {
			d.follow(w.of, from)
		}
		return waits
	})
	if !waits || from == deadlockOwnersMax {
		return false
	}
	if d.known == nil {
		d.known = map[string]int{}
	}
	d.known[name] = from
	shown := shorten(owner, deadlockNameCharsMax)
	if owner == "" {
		shown = shorten(token, deadlockTokenChars)
	}
	d.owners = append(d.owners, stuckOwner{shown, at})
	return true
}

// mayLook counts one more holder, or wait.
func (d *deadlock) mayLook(name string) bool {
	d.spend(value.TreeWork(d.m.blocked.owners.Len()) + value.HashWork*int64(len(name)))
	d.edges++
	return d.edges <= deadlockEdgesMax
}

// follow notes the lock that one of the owners waits for.
func (d *deadlock) follow(w *waiter, by int) {
	k := w.line()
	if k == d.locks[0].lineKey {
		if d.last == nil || w.seq > d.last.seq {
			d.last = w
		}
		return
	}
	if _, seen := d.seen[k]; seen {
		return
	}
	if d.seen == nil {
		d.seen = map[lineKey]struct{}{}
	}
	d.seen[k] = struct{}{}
	d.locks = append(d.locks, soughtLock{k, by})
}

// words say the circle, from the one who is told round to what it holds.
func (d *deadlock) words() string {
	self := d.owners[d.known[d.last.own().owner]]
	var others []string
	for at := self.holds; at != 0; {
		by := d.owners[d.locks[at].by]
		others = append(others, ", held by "+by.shown+", which waits for "+shownKey(d.locks[at].key))
		at = by.holds
	}
	slices.Reverse(others)
	if over := len(others) - deadlockShownMax; over > 0 {
		others = slices.Replace(others, deadlockShownMax/2, deadlockShownMax/2+over, ", ...")
	}
	return "DEADLOCK " + self.shown + " holds " + shownKey(d.locks[self.holds].key) +
		" and waits for " + shownKey(d.locks[0].key) + strings.Join(others, "")
}

func shownKey(key string) string { return shorten(key, deadlockNameCharsMax) }

// shorten cuts a text to so many characters.
func shorten(text string, chars int) string {
	for i := range text {
		if chars--; chars < 0 {
			return text[:i] + "..."
		}
	}
	return text
}
