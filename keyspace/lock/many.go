package lock

import (
	"math"
	"slices"
)

// HoldersMax bounds the holders of a lock: a search looks at all of them, and each change copies their list.
const HoldersMax = 1024

// NoLease is the Tick of a holder without a lease.
const NoLease = math.MaxInt64

// Holder is a token that holds a lock. It does not change.
type Holder struct {
	Token       string
	Owner, Note string // as given, or ""
	Fence       uint64 // it rises with each holder
	Version     uint64 // of the last change of this holder: no other one has it
	Tick        int64  // of the log clock, in milliseconds, after which its lease is over
	WallMs      int64  // that end as it is reported

	Facts
}

// Facts record how a lock is held, in milliseconds; the zero value knows nothing.
type Facts struct {
	SinceTick, SinceMs int64 // since when, by the log clock and since 1970
	LeaseMs            int64 // the lease as last set; -1: there is none now
	Renewals           uint32
	Client             uint32 // a hash of the client that got it; 0: not known
}

// Renew records a renewal of the lease, from now until a tick, or its end: NoLease.
func (f *Facts) Renew(until, now int64) {
	if f.LeaseMs = -1; until != NoLease {
		f.LeaseMs = until - now
		f.Renewals = max(f.Renewals, f.Renewals+1)
	}
}

// Many is a lock that several may hold, with its holders. It does not change: its methods return another one.
type Many struct {
	mode    Mode
	holders []*Holder // in the order of their fences

	// Derived from these.
	first, last *Holder // whose lease is the first, and the last, to end
	textBytes   int64
}

// NewMany returns a lock with its holders, at least one, in the order of their fences.
func NewMany(mode Mode, holders ...*Holder) *Many {
	l := &Many{mode: mode, holders: holders}
	for _, h := range holders {
		l.textBytes += int64(len(h.Token) + len(h.Owner) + len(h.Note))
		if l.first == nil || h.Tick < l.first.Tick {
			l.first = h
		}
		if l.last == nil || h.Tick > l.last.Tick {
			l.last = h
		}
	}
	return l
}

// Len returns the number of holders; nil has none.
func (l *Many) Len() int {
	if l == nil {
		return 0
	}
	return len(l.holders)
}

// TextBytes returns the bytes of the tokens, owners and notes of the holders.
func (l *Many) TextBytes() int64 { return l.textBytes }

// Mode returns Shared, or the number that may hold the lock.
func (l *Many) Mode() Mode { return l.mode }

// HasRoom reports whether one more token may hold the lock.
func (l *Many) HasRoom() bool {
	return len(l.holders) < HoldersMax && (l.mode == Shared || len(l.holders) < int(l.mode))
}

// First returns the holder whose lease ends first.
func (l *Many) First() *Holder { return l.first }

// Last returns the holder whose lease ends last.
func (l *Many) Last() *Holder { return l.last }

// Newest returns the holder with the highest fence.
func (l *Many) Newest() *Holder { return l.holders[len(l.holders)-1] }

// Holder returns the holder with a token, or nil.
func (l *Many) Holder(token string) *Holder {
	for _, h := range l.holders {
		if h.Token == token {
			return h
		}
	}
	return nil
}

// Each visits the holders in the order of their fences, until visit returns false.
func (l *Many) Each(visit func(h *Holder) bool) {
	for _, h := range l.holders {
		if !visit(h) {
			return
		}
	}
}

// Missing visits the holders that another lock does not have, in the order of their fences. Either lock may be nil.
func (l *Many) Missing(in *Many, visit func(h *Holder)) {
	if l == nil {
		return
	}
	var others []*Holder
	if in != nil {
		others = in.holders
	}
	for _, h := range l.holders {
		for len(others) > 0 && others[0].Fence < h.Fence {
			others = others[1:]
		}
		if len(others) == 0 || others[0].Fence != h.Fence {
			visit(h)
		}
	}
}

// With returns the lock with a holder added at the end, or in the place of the holder with its token.
func (l *Many) With(h *Holder) *Many {
	holders := append(make([]*Holder, 0, len(l.holders)+1), l.holders...)
	for i, other := range holders {
		if other.Token == h.Token {
			holders[i] = h
			return NewMany(l.mode, holders...)
		}
	}
	return NewMany(l.mode, append(holders, h)...)
}

// Without returns the lock without some of its holders; nil if none is left.
func (l *Many) Without(gone func(h *Holder) bool) *Many {
	holders := slices.DeleteFunc(slices.Clone(l.holders), gone)
	if len(holders) == 0 {
		return nil
	}
	return NewMany(l.mode, holders...)
}

// Until returns the lock after renew has changed a copy of each holder.
func (l *Many) Until(renew func(h *Holder)) *Many {
	holders := make([]*Holder, len(l.holders))
	for i, h := range l.holders {
		next := *h
		renew(&next)
		holders[i] = &next
	}
	return NewMany(l.mode, holders...)
}
