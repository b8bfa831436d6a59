package lock

import (
	"slices"
	"strings"
)

// An owner does one thing at a time, so an owner that waits is blocked. Owners that wait for each other stay blocked
// until a lease or a wait ends. The search goes from a lock to the owners of all its holders, from each owner to all
// locks that it waits for, and so on. It fails at the first owner that does not wait, as that one's locks will give
// way.

// Limits of one search. Beyond them no circle is found.
const (
	CircleOwnersMax = 256
	CircleLooksMax  = 4096 // holders, and waits of their owners
)

// Limits of what a Circle says.
const (
	circleShownMax = 8  // owners besides the one whose wait ends
	nameCharsMax   = 64 // of an owner, and of a key
	tokenCharsMax  = 8  // of a token, of which the rest stays secret
)

// Circle is a circle of owners that wait for each other.
type Circle struct {
	Waiter *Waiter // the last to have begun to wait, which closes the circle
	links  []link  // from the lock that Waiter waits for, against the waits, to one that its owner holds
}

// link is a lock, and the name of its owner as it is shown.
type link struct{ key, holder string }

// search looks for a circle through the line for a lock.
type search struct {
	*Table
	now    int64 // a lease, or a wait, that is over by now stops nobody
	looks  int
	locks  []soughtLock   // in the order in which they were found; the first is where the search began
	owners []stuckOwner   // in the order in which they were found
	at     map[string]int // where an owner is in owners
	seen   map[Name]bool
	last   *Waiter // in line for the first lock, of an owner that was found
}

type soughtLock struct {
	name Name
	by   int // an owner who waits for it; -1 for the first
}

type stuckOwner struct {
	shown string // its name, or the beginning of its token
	holds int    // a lock that it holds
}

// Circle returns a circle of owners through the line for a lock; nil if there is none, or it is too large.
func (t *Table) Circle(name Name, now int64) *Circle {
	s := &search{Table: t, now: now, locks: []soughtLock{{name, -1}}}
	for i := 0; i < len(s.locks); i++ {
		if !s.isStuck(i) {
			return nil
		}
	}
	if s.last == nil {
		return nil
	}
	return s.circle()
}

// isStuck reports whether the owners of all holders of a lock wait.
func (s *search) isStuck(i int) bool {
	name := s.locks[i].name
	s.Looked++
	s.Named += len(name.Key)
	if s.Keys.Moving(name) {
		return false
	}
	held := s.Keys.Holding(name)
	if !held.Held || held.Foreign || held.Ends < s.now {
		return false
	}
	return held.each(func(token, owner string) bool { return s.waits(i, token, owner) })
}

// waits adds the locks that the owner of a holder waits for; false if it waits for none.
func (s *search) waits(i int, token, owner string) bool {
	name := (&Want{Token: token, Owner: owner}).owner()
	if !s.look(name) {
		return false
	}
	if _, known := s.at[name]; known {
		return true
	}
	place, waits := len(s.owners), false
	s.Line.owners.Ascend(&Waiter{Want: Want{Owner: name}}, func(w *Waiter) bool {
		if w.owner() != name {
			return false
		}
		if s.isServed(w) {
			return true
		}
		if waits = s.look("") && w.End >= s.now; waits {
			s.follow(w, place)
		}
		return waits
	})
	if !waits || place == CircleOwnersMax {
		return false
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	s.at[name] = place
	shown := shorten(owner, nameCharsMax)
	if owner == "" {
		shown = shorten(token, tokenCharsMax)
	}
	s.owners = append(s.owners, stuckOwner{shown, i})
	return true
}

// isServed reports whether the token of a waiter that is passed over has got the lock by another request: the waiter is
// answered when its session is heard again, and blocks nobody until then.
func (s *search) isServed(w *Waiter) bool {
	if s.Present(w) {
		return false
	}
	s.Looked++
	held := s.Keys.Holding(w.Lock)
	if held.Many != nil {
		return held.Many.Holder(w.Token) != nil
	}
	return held.Token == w.Token
}

// look counts one more holder, or wait; false if there are too many.
func (s *search) look(name string) bool {
	s.Looked++
	s.Named += len(name)
	s.looks++
	return s.looks <= CircleLooksMax
}

// follow adds the lock that one of the owners waits for.
func (s *search) follow(w *Waiter, by int) {
	if w.Lock == s.locks[0].name {
		if s.last == nil || w.Seq > s.last.Seq {
			s.last = w
		}
		return
	}
	if s.seen[w.Lock] {
		return
	}
	if s.seen == nil {
		s.seen = map[Name]bool{}
	}
	s.seen[w.Lock] = true
	s.locks = append(s.locks, soughtLock{w.Lock, by})
}

// circle returns the way from the owner of the last wait back to the lock that it waits for.
func (s *search) circle() *Circle {
	c := &Circle{Waiter: s.last}
	for by := s.at[s.last.owner()]; ; by = s.locks[s.owners[by].holds].by {
		holds := s.owners[by].holds
		c.links = append(c.links, link{s.locks[holds].name.Key, s.owners[by].shown})
		if holds == 0 {
			break
		}
	}
	slices.Reverse(c.links)
	return c
}

// Tell describes the circle: the owner whose wait ends, a lock that it holds, the lock that it waits for, and the
// owners through which the second leads back to the first.
func (c *Circle) Tell() (owner, holds, waits, through string) {
	self := c.links[len(c.links)-1]
	var others []string
	for i, l := range c.links[:len(c.links)-1] {
		others = append(others, ", held by "+l.holder+", which waits for "+shownKey(c.links[i+1].key))
	}
	if over := len(others) - circleShownMax; over > 0 {
		others = slices.Replace(others, circleShownMax/2, circleShownMax/2+over, ", ...")
	}
	return self.holder, shownKey(self.key), shownKey(c.links[0].key), strings.Join(others, "")
}

func shownKey(key string) string { return shorten(key, nameCharsMax) }

// shorten cuts a text to a number of characters.
func shorten(text string, chars int) string {
	for i := range text {
		if chars--; chars < 0 {
			return text[:i] + "..."
		}
	}
	return text
}
