package lock

import (
	"errors"
	"strconv"
)

// Name names a lock: a key in a space. Locks of two spaces differ, though an owner may wait for both.
type Name struct {
	Space int
	Key   string
}

// Mode is how many may hold a lock at once; a number above 0 is that many.
type Mode int

// The modes without a number.
const (
	Exclusive Mode = 0  // one
	Shared    Mode = -1 // as many as ask for it so, up to HoldersMax
)

// Want is what is asked of a lock.
type Want struct {
	Token string // who has it holds the lock
	Owner string // whom the token belongs to; "": nobody else, the token is its own
	Mode  Mode
}

// owner is the name under which the token's owner is known.
func (w *Want) owner() string {
	if w.Owner != "" {
		return w.Owner
	}
	return w.Token
}

// Holding is how a lock is held at a moment. The zero Holding is that of a lock which nobody holds.
type Holding struct {
	Held    bool
	Foreign bool  // the key has something that is no lock
	Many    *Many // those who hold it, if its mode lets several; nil: one does, by Token
	Token   string
	Owner   string
	Ends    int64 // the tick after which the first lease of its holders ends
}

// ErrForeign is the answer of a key that has something else than a lock.
var ErrForeign = errors.New("the key holds no lock")

// ErrHeldOtherwise is the answer to a token that holds the lock in another mode.
var ErrHeldOtherwise = errors.New("the token holds the lock in another mode")

// LimitError is the answer to a number of holders that is not the one of those who hold the lock now.
type LimitError struct{ Limit int }

func (e LimitError) Error() string {
	return "the lock is held with a limit of " + strconv.Itoa(e.Limit)
}

// Answer is what a lock is for one who asks for it.
type Answer int

// The answers.
const (
	Yes   Answer = iota // nobody holds it, or the token does
	Join                // others hold it, and let one more: those in line come first
	Taken               // others hold it
)

// Admit answers a want. The error is one that no wait would help.
func (h *Holding) Admit(w *Want) (Answer, error) {
	switch {
	case h.Foreign:
		return Taken, ErrForeign
	case !h.Held:
		return Yes, nil
	case h.Many != nil:
		return h.Many.admit(w)
	case h.Token != w.Token:
		return Taken, nil
	case w.Mode != Exclusive:
		return Taken, ErrHeldOtherwise
	}
	return Yes, nil
}

func (l *Many) admit(w *Want) (Answer, error) {
	alike, holds := w.Mode == l.mode, l.Holder(w.Token) != nil
	switch {
	case w.Mode > 0 && l.mode > 0 && !alike:
		return Taken, LimitError{int(l.mode)}
	case holds && !alike:
		return Taken, ErrHeldOtherwise
	case holds:
		return Yes, nil
	case alike && l.HasRoom():
		return Join, nil
	}
	return Taken, nil
}

// each visits token and owner of everyone who holds the lock, until visit returns false. It reports whether it has
// visited all.
func (h *Holding) each(visit func(token, owner string) bool) bool {
	if h.Many == nil {
		return visit(h.Token, h.Owner)
	}
	for _, one := range h.Many.holders {
		if !visit(one.Token, one.Owner) {
			return false
		}
	}
	return true
}
