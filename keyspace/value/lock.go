package value

import (
	"math"
	"slices"
)

// LockKind is the row of locks that several may hold at once. A lock that one holds alone is a string.
var LockKind = &Kind{Name: "lock", Encodings: []string{"shared", "limit"}, Image: 11, read: readLock}

// The forms of a lock.
const (
	lockShared = iota
	lockLimit
)

// LockHoldersMax bounds who holds a lock at once: whoever looks for a holder looks at all, and each
// change copies the list of them.
const LockHoldersMax = 1024

// What a lock costs beside the bytes of its texts: see Aggregate.Size.
const (
	lockOverheadBytes   = 112
	holderOverheadBytes = 128
)

// The first versions of images that have what is known of a holder, and of its client.
const (
	holderFactsVersion  = 7
	holderClientVersion = 9
)

// NoLeaseTick is the Tick of a Holder that has no lease.
const NoLeaseTick = math.MaxInt64

// Holder is one who holds a lock. It does not change.
type Holder struct {
	Token       string
	Owner, Note string // as they were given, or ""
	Fence       uint64 // it rises with each holder
	Version     uint64 // of the last change of this holder: no other one has it
	Tick        int64  // of the log clock, in milliseconds, after which its lease is over
	WallMs      int64  // that end as it is reported

	Facts
}

// Facts are what is known of how a lock is held, in milliseconds; zero: nothing.
type Facts struct {
	SinceTick, SinceMs int64 // since when, by the log clock and since 1970
	LeaseMs            int64 // the lease as it was last begun; -1: it has none now
	Renewals           uint32
	Client             uint32 // a hash of who was granted it; 0: not known
}

// Renew notes that the lease was begun anew, now and until a tick, or taken away: NoLeaseTick.
func (f *Facts) Renew(until, now int64) {
	if f.LeaseMs = -1; until != NoLeaseTick {
		f.LeaseMs = until - now
		f.Renewals = max(f.Renewals, f.Renewals+1)
	}
}

func (h *Holder) bytes() int64 {
	return holderOverheadBytes + int64(len(h.Token)+len(h.Owner)+len(h.Note))
}

// Lock is a lock with all that hold it. It does not change: its methods make another one.
type Lock struct {
	permits int       // how many may hold it; 0: it is shared
	holders []*Holder // in the order of their fences

	// Derived from these.
	first, last *Holder // whose lease is the first, and the last, to end
	bytes       int64
}

// NewLock is a lock with one holder. permits of 0 makes it a shared one.
func NewLock(permits int, h *Holder) *Lock { return newLock(permits, []*Holder{h}) }

func newLock(permits int, holders []*Holder) *Lock {
	l := &Lock{permits: permits, holders: holders}
	for _, h := range holders {
		l.bytes += h.bytes()
		if l.first == nil || h.Tick < l.first.Tick {
			l.first = h
		}
		if l.last == nil || h.Tick > l.last.Tick {
			l.last = h
		}
	}
	return l
}

// Kind is LockKind.
func (l *Lock) Kind() *Kind { return LockKind }

// Form tells a shared one from one with permits.
func (l *Lock) Form() int {
	if l.permits == 0 {
		return lockShared
	}
	return lockLimit
}

// Own is Aggregate.Own: nobody changes it.
func (l *Lock) Own(uint64) Aggregate { return l }

// Clone is Aggregate.Clone.
func (l *Lock) Clone() Aggregate { return l }

// Size is Aggregate.Size, in bytes.
func (l *Lock) Size() int64 { return lockOverheadBytes + l.bytes }

// Len is the number of holders; nil has none.
func (l *Lock) Len() int {
	if l == nil {
		return 0
	}
	return len(l.holders)
}

// SeekWork is the work of looking for a holder, or of changing one.
func (l *Lock) SeekWork() int64 { return FarWork * int64(1+len(l.holders)) }

// Permits is how many may hold it; 0: it is shared.
func (l *Lock) Permits() int { return l.permits }

// HasRoom reports whether one more may hold it.
func (l *Lock) HasRoom() bool {
	return len(l.holders) < LockHoldersMax && (l.permits == 0 || len(l.holders) < l.permits)
}

// First is the holder whose lease ends first.
func (l *Lock) First() *Holder { return l.first }

// Last is the holder whose lease ends last.
func (l *Lock) Last() *Holder { return l.last }

// Newest is the holder with the highest fence.
func (l *Lock) Newest() *Holder { return l.holders[len(l.holders)-1] }

// Holder is the one with a token, or nil.
func (l *Lock) Holder(token string) *Holder {
	for _, h := range l.holders {
		if h.Token == token {
			return h
		}
	}
	return nil
}

// Each visits the holders in the order of their fences, until visit returns false.
func (l *Lock) Each(visit func(h *Holder) bool) {
	for _, h := range l.holders {
		if !visit(h) {
			return
		}
	}
}

// Missing visits the holders that another lock does not have, in the order of their fences. Either lock may be nil.
func (l *Lock) Missing(in *Lock, visit func(h *Holder)) {
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

// With is the lock with a new last holder, or another one in the place of the one with its token.
func (l *Lock) With(h *Holder) *Lock {
	holders := append(make([]*Holder, 0, len(l.holders)+1), l.holders...)
	for i, other := range holders {
		if other.Token == h.Token {
			holders[i] = h
			return newLock(l.permits, holders)
		}
	}
	return newLock(l.permits, append(holders, h))
}

// Without is the lock without some of its holders; nil if nobody is left.
func (l *Lock) Without(gone func(h *Holder) bool) *Lock {
	holders := slices.DeleteFunc(slices.Clone(l.holders), gone)
	if len(holders) == 0 {
		return nil
	}
	return newLock(l.permits, holders)
}

// Until is the lock with what renew makes of the lease of each holder.
func (l *Lock) Until(renew func(h *Holder)) *Lock {
	holders := make([]*Holder, len(l.holders))
	for i, h := range l.holders {
		next := *h
		renew(&next)
		holders[i] = &next
	}
	return newLock(l.permits, holders)
}

// Write writes the permits and the holders, in their order.
func (l *Lock) Write(w *Writer) {
	w.U64(uint64(l.permits))
	for _, h := range l.holders {
		for _, s := range []string{h.Token, h.Owner, h.Note} {
			w.Text(s)
		}
		for _, n := range []uint64{
			h.Fence, h.Version, uint64(h.Tick), uint64(h.WallMs),
			uint64(h.SinceTick), uint64(h.SinceMs), uint64(h.LeaseMs), uint64(h.Renewals), uint64(h.Client),
		} {
			w.U64(n)
		}
	}
}

func readLock(r *Reader, n uint64, form int, _ uint64) Aggregate {
	permits := r.U64()
	most := uint64(LockHoldersMax)
	if form == lockLimit {
		most = min(permits, most)
	}
	if n > most || permits > LockHoldersMax || form == lockShared && permits > 0 {
		r.Fail("a lock with more holders than it may have")
	}
	var holders []*Holder
	seen, fence := map[string]bool{}, uint64(0)
	for ; n > 0 && r.err == nil; n-- {
		h := readHolder(r)
		if seen[h.Token] || h.Token == "" || h.Fence <= fence {
			r.Fail("holders of a lock are not in order")
		}
		seen[h.Token], fence = true, h.Fence
		holders = append(holders, h)
	}
	if r.err != nil {
		return nil
	}
	return newLock(int(permits), holders)
}

func readHolder(r *Reader) *Holder {
	h := &Holder{Token: r.Text(), Owner: r.Text(), Note: r.Text()}
	h.Fence, h.Version, h.Tick, h.WallMs = r.U64(), r.U64(), r.I64(), r.I64()
	if h.Tick == NoLeaseTick && h.WallMs != -1 {
		r.Fail("the lease of a holder is none")
	}
	if r.Version >= holderFactsVersion {
		h.SinceTick, h.SinceMs, h.LeaseMs = r.I64(), r.I64(), r.I64()
		h.Renewals = uint32(min(r.U64(), math.MaxUint32))
	}
	if r.Version >= holderClientVersion {
		client := r.U64()
		if h.Client = uint32(client); client != uint64(h.Client) {
			r.Fail("a holder whose client can not be")
		}
	}
	return h
}
