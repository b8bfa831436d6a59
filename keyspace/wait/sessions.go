package wait

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"

	"lockd/resp"
)

// LeaseMs bounds the life of a session, by the log clock, after its node last renewed it.
const LeaseMs = 10_000

// numberMax bounds the numbers of sessions, and of the commands in one; no node gets that far.
const numberMax = 1 << 62

// spansMax bounds the ranges of used numbers of a session.
const spansMax = 1024

// IsID reports whether a command can have an id.
func IsID(id resp.BlockID) bool { return isNumber(id.Session) && isNumber(id.Number) }

func isNumber(n uint64) bool { return n > 0 && n <= numberMax }

// Sessions has the nodes that ask for blocking commands. A session lives as long as its node renews it. Its number is
// given once.
type Sessions struct {
	Last     uint64 // the number of the last session that was opened
	Revision uint64 // counts the sessions that open, close, are suspended and resume; in no image
	byID     *btree.BTreeG[*session]
}

// session does not change; a change replaces it.
type session struct {
	resp.BlockSession
	until int64 // tick after which it is over
	used  spans // the numbers that have been asked for, or cancelled
}

func newSessions() Sessions {
	return Sessions{byID: newOrder(func(a, b *session) bool { return a.ID < b.ID })}
}

func (s *Sessions) get(id uint64) *session {
	found, _ := s.byID.Get(&session{BlockSession: resp.BlockSession{ID: id}})
	return found
}

// Open opens a session of a node for one lease from now, and returns its number.
func (s *Sessions) Open(node string, process uint64, now int64) (id uint64) {
	s.Last++
	s.Revision++
	s.byID.Set(&session{
		BlockSession: resp.BlockSession{ID: s.Last, Node: strings.Clone(node), Process: process}, until: now + LeaseMs,
	})
	return s.Last
}

// Has reports whether a session is open.
func (s *Sessions) Has(id uint64) bool { return s.get(id) != nil }

// Len is the number of open sessions.
func (s *Sessions) Len() int { return s.byID.Len() }

// WasClosed reports whether a session was open once and is not now.
func (s *Sessions) WasClosed(id uint64) bool { return id <= s.Last && !s.Has(id) }

// Keep renews a session for one lease from now, and reports whether it is open.
func (s *Sessions) Keep(id uint64, now int64) bool { return s.Use(resp.BlockID{Session: id}, now) }

// Use renews the session of a command, notes that the number of the command is used, and reports whether the session is
// open. The number 0 stands for none.
func (s *Sessions) Use(id resp.BlockID, now int64) bool {
	was := s.get(id.Session)
	if was == nil {
		return false
	}
	next := *was
	next.until = now + LeaseMs
	if id.Number != 0 {
		next.used = was.used.with(id.Number)
	}
	s.byID.Set(&next)
	return true
}

// Used reports whether the number of a command is used, in a session that is open.
func (s *Sessions) Used(id resp.BlockID) bool {
	of := s.get(id.Session)
	return of != nil && of.used.has(id.Number)
}

// Close removes a session, whose waiters have left.
func (s *Sessions) Close(id uint64) {
	s.byID.Delete(&session{BlockSession: resp.BlockSession{ID: id}})
	s.Revision++
}

// Over lists the sessions whose lease has ended by now.
func (s *Sessions) Over(now int64) (ids []uint64) {
	for of := range s.byID.Scan {
		if now > of.until {
			ids = append(ids, of.ID)
		}
	}
	return ids
}

// All lists the sessions, by their numbers.
func (s *Sessions) All() (all []resp.BlockSession) {
	for of := range s.byID.Scan {
		all = append(all, of.BlockSession)
	}
	return all
}

func (s *Sessions) suspended(id uint64) bool { return s.get(id).Suspended }

// suspend notes that a session is suspended, and reports whether it was open and was not.
func (s *Sessions) suspend(id uint64) bool {
	was := s.get(id)
	if was == nil || was.Suspended {
		return false
	}
	next := *was
	next.Suspended, next.Suspensions = true, was.Suspensions+1
	s.byID.Set(&next)
	s.Revision++
	return true
}

// resume ends a suspension of a session, and reports whether it was the present one.
func (s *Sessions) resume(id, suspensions uint64) bool {
	was := s.get(id)
	if was == nil || !was.Suspended || was.Suspensions != suspensions {
		return false
	}
	next := *was
	next.Suspended = false
	s.byID.Set(&next)
	s.Revision++
	return true
}

// span is a range of numbers, both ends included. spans are in order, with a gap between any two.
type (
	span  struct{ from, to uint64 }
	spans []span
)

func (s spans) has(n uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to >= n })
	return i < len(s) && s[i].from <= n
}

// with adds a number. If there are too many spans it closes the lowest gap: the unused numbers in
// it count as used.
func (s spans) with(n uint64) spans {
	i := sort.Search(len(s), func(i int) bool { return s[i].to+1 >= n })
	next := slices.Clone(s)
	if i == len(s) || n+1 < s[i].from {
		next = slices.Insert(next, i, span{n, n})
	} else {
		next[i] = span{min(s[i].from, n), max(s[i].to, n)}
		if i+1 < len(next) && next[i].to+1 == next[i+1].from {
			next[i].to = next[i+1].to
			next = slices.Delete(next, i+1, i+2)
		}
	}
	if len(next) > spansMax {
		next[1].from = next[0].from
		next = next[1:]
	}
	return next
}

func byID(a, b resp.BlockID) bool {
	return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Number, b.Number)) < 0
}

func newOrder[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}
