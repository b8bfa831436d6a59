package value

import (
	"math"

	"lockd/keyspace/lock"
)

// LockKind is the row of locks that several may hold at once. A lock that one holds alone is a string.
var LockKind = &Kind{Name: "lock", Encodings: []string{"shared", "limit"}, Image: 11, read: readLock}

// The forms of a lock.
const (
	lockShared = iota
	lockLimit
)

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

// Lock is a lock with all that hold it, as the value of a key.
type Lock lock.Many

// Holders are those who hold the lock.
func (l *Lock) Holders() *lock.Many { return (*lock.Many)(l) }

// Kind is LockKind.
func (l *Lock) Kind() *Kind { return LockKind }

// Form tells a shared one from one with permits.
func (l *Lock) Form() int {
	if l.Holders().Mode() == lock.Shared {
		return lockShared
	}
	return lockLimit
}

// Own is Aggregate.Own: nobody changes it.
func (l *Lock) Own(uint64) Aggregate { return l }

// Clone is Aggregate.Clone.
func (l *Lock) Clone() Aggregate { return l }

// Size is Aggregate.Size, in bytes.
func (l *Lock) Size() int64 {
	return lockOverheadBytes + holderOverheadBytes*int64(l.Len()) + l.Holders().TextBytes()
}

// Len is the number of holders.
func (l *Lock) Len() int { return l.Holders().Len() }

// LockWork is the work of looking for a holder of a lock, or of changing one.
func LockWork(l *lock.Many) int64 { return FarWork * int64(1+l.Len()) }

// Write writes the permits and the holders, in their order.
func (l *Lock) Write(w *Writer) {
	w.U64(uint64(max(l.Holders().Mode(), 0)))
	for h := range l.Holders().Each {
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
	most := uint64(lock.HoldersMax)
	if form == lockLimit {
		most = min(permits, most)
	}
	if n > most || permits > lock.HoldersMax || form == lockShared && permits > 0 {
		r.Fail("a lock with more holders than it may have")
	}
	var holders []*lock.Holder
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
	mode := lock.Mode(permits)
	if form == lockShared {
		mode = lock.Shared
	}
	return (*Lock)(lock.NewMany(mode, holders...))
}

func readHolder(r *Reader) *lock.Holder {
	h := &lock.Holder{Token: r.Text(), Owner: r.Text(), Note: r.Text()}
	h.Fence, h.Version, h.Tick, h.WallMs = r.U64(), r.U64(), r.I64(), r.I64()
	if h.Tick == lock.NoLease && h.WallMs != -1 {
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
