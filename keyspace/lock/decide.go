package lock

// Keys tells how locks are held.
type Keys interface {
	// Holding returns how a lock is held now.
	Holding(name Name) Holding
	// Moving reports whether the lock has given way and its line has not moved up yet.
	Moving(name Name) bool
}

// Table decides about locks from the Line of their waiters and what their Keys hold. It is made where it is needed.
type Table struct {
	*Line
	Keys Keys

	// OnlyEnded says that leases and waits have ended since a lock's line was last at rest, and nothing else has changed:
	// so no token in line has come to hold the lock, and Turn does not look through its holders for one.
	OnlyEnded bool

	// What its methods have looked at; the caller charges for it.
	Looked int // holders, and waits
	Named  int // bytes of the names that were compared
}

// Ask decides whether a want gets a lock that is held as held says: Yes; or Taken, and it may wait. An error means that
// no wait would help. A free lock is given even if somebody waits for it: its line moves up at the end of the request,
// so only the request that freed the lock can ask in between.
func (l *Line) Ask(name Name, want *Want, held *Holding) (Answer, error) {
	answer, err := held.Admit(want)
	if answer != Join {
		return answer, err
	}
	if l.First(name) != nil {
		return Taken, nil
	}
	return Yes, nil
}

// Turn is the next step of the line for a lock.
type Turn struct {
	Action Action
	Waiter *Waiter // the waiter that the step is about
	Err    error   // of Refuse
	Circle *Circle // of Deadlock
}

// Action is the kind of a Turn.
type Action int

// The turns.
const (
	Rest     Action = iota // nothing: nobody waits, or the holders keep the lock from the first in line
	Grant                  // the waiter gets the lock
	GiveUp                 // its time was over before the lock gave way
	Refuse                 // no wait would help it any more
	Deadlock               // its wait closes a circle of owners who wait for each other
)

// Turn returns the next step of the line for a lock that gave way at the tick freedAt. Leases and waits that are over by
// now count as ended. search has it look for circles of owners. Turn changes nothing: the caller does the step, removes
// the waiter from the line, and calls Turn again, until the answer is Rest.
func (t *Table) Turn(name Name, freedAt, now int64, search bool) Turn {
	first := t.First(name)
	if first == nil {
		return Turn{}
	}
	held := t.Keys.Holding(name)
	answer, err := held.Admit(&first.Want)
	switch {
	case err != nil:
		return Turn{Action: Refuse, Waiter: first, Err: err}
	case answer == Taken && !t.OnlyEnded:
		// A token that has got the lock otherwise, by SET or a renewal, is answered wherever it stands: it takes
		// nobody's place.
		if has := t.holder(name, &held); has != nil {
			return Turn{Action: Grant, Waiter: has}
		}
	}
	switch { // the first may be served, or has waited too long
	case first.End < freedAt:
		return Turn{Action: GiveUp, Waiter: first}
	case answer != Taken:
		return Turn{Action: Grant, Waiter: first}
	}
	if search {
		if circle := t.Circle(name, now); circle != nil {
			return Turn{Action: Deadlock, Waiter: circle.Waiter, Circle: circle}
		}
	}
	return Turn{}
}

// HolderWaits reports whether a token that holds a lock also waits in its line: it got the lock otherwise than by its
// turn, and its wait must end.
func (t *Table) HolderWaits(name Name) bool {
	if t.LenOf(name) == 0 {
		return false
	}
	held := t.Keys.Holding(name)
	return t.holder(name, &held) != nil
}

// holder returns a waiter whose token holds the lock, or nil.
func (t *Table) holder(name Name, held *Holding) (found *Waiter) {
	if !held.Held || held.Foreign {
		return nil
	}
	held.each(func(token, _ string) bool {
		t.Looked++
		if w := t.Waiter(name, token); w != nil && t.Present(w) {
			found = w
		}
		return found == nil
	})
	return found
}
