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

// Mode bounds the holders of a lock; a number above 0 is their number.
type Mode int

// The modes without a number.
const (
	Exclusive Mode = 0  // one
	Shared    Mode = -1 // as many as ask for it so, up to HoldersMax
)

// Want is a request for a lock.
type Want struct {
	Token string // identifies the holder
	Owner string // the owner of the token; "": the token itself
	Mode  Mode
}

// owner returns the name of the token's owner.
func (w *Want) owner() string {
	if w.Owner != "" {
		return w.Owner
	}
	return w.Token
}

// Holding describes how a lock is held at a moment. The zero Holding is that of a free lock.
type Holding struct {
	Held    bool
	Foreign bool  // the key has something that is no lock
	Many    *Many // the holders of a lock that several may hold; nil: there is one, Token
	Token   string
	Owner   string
	Ends    int64 // the tick after which the first lease of its holders ends
}

// ErrForeign refuses a key that holds something other than a lock.
var ErrForeign = errors.New("the key holds no lock")

// ErrHeldOtherwise refuses a token that holds the lock in another mode.
var ErrHeldOtherwise = errors.New("the token holds the lock in another mode")

// LimitError refuses a number of holders that differs from Limit, the one by which the lock is held now.
type LimitError struct{ Limit int }

func (e LimitError) Error() string {
	return "the lock is held with a limit of " + strconv.Itoa(e.Limit)
}

// Answer answers a Want.
type Answer int

// The answers.
const (
	Yes   Answer = iota // nobody holds it, or the token does
	Join                // others hold it, and let one more in: the waiters in line come first
	Taken               // others hold it
)

// Admit answers a want. An error means that no wait would help.
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
	sameMode, holds := w.Mode == l.mode, l.Holder(w.Token) != nil
	switch {
	case w.Mode > 0 && l.mode > 0 && !sameMode:
		return Taken, LimitError{int(l.mode)}
	case holds && !sameMode:
		return Taken, ErrHeldOtherwise
	case holds:
		return Yes, nil
	case sameMode && l.HasRoom():
		return Join, nil
	}
	return Taken, nil
}

// each visits the token and the owner of each holder, until visit returns false. It reports whether it visited all.
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
