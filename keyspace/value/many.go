package value

import "lockd/keyspace/lock"

// LockKind is the Kind of locks that several may hold at once. An exclusive lock is a string.
var LockKind = &Kind{Name: "lock", Encodings: []string{"shared", "limit"}, Image: 11, read: readLock}

// The forms of a lock.
const (
	lockShared = iota
	lockLimit
)

// What a lock counts for besides the bytes of its texts; see Aggregate.Size.
const (
	lockOverheadBytes   = 112
	holderOverheadBytes = 128
)

// WriteFacts writes the facts of a lock into an image.
func WriteFacts(w *Writer, f lock.Facts) {
	counted := uint64(f.Client)<<32 | uint64(f.Renewals)
	for _, n := range []uint64{uint64(f.SinceTick), uint64(f.SinceMs), uint64(f.LeaseMs), counted} {
		w.U64(n)
	}
}

// ReadFacts reads the facts that WriteFacts has written.
func ReadFacts(r *Reader) lock.Facts {
	f := lock.Facts{SinceTick: r.I64(), SinceMs: r.I64(), LeaseMs: r.I64()}
	counted := r.U64()
	f.Renewals, f.Client = uint32(counted), uint32(counted>>32)
	return f
}

// Lock is a lock of many as the value of a key.
type Lock lock.Many

// Holders returns the lock with its holders.
func (l *Lock) Holders() *lock.Many { return (*lock.Many)(l) }

// Kind returns LockKind.
func (l *Lock) Kind() *Kind { return LockKind }

// Form tells a shared lock from one with permits.
func (l *Lock) Form() int {
	if l.Holders().Mode() == lock.Shared {
		return lockShared
	}
	return lockLimit
}

// Own implements Aggregate.Own. A Lock does not change.
func (l *Lock) Own(uint64) Aggregate { return l }

// Clone implements Aggregate.Clone.
func (l *Lock) Clone() Aggregate { return l }

// Size implements Aggregate.Size, in bytes.
func (l *Lock) Size() int64 {
	return lockOverheadBytes + holderOverheadBytes*int64(l.Len()) + l.Holders().TextBytes()
}

// Len returns the number of holders.
func (l *Lock) Len() int { return l.Holders().Len() }

// LockWork returns the work of looking for a holder of a lock, or of changing one.
func LockWork(l *lock.Many) int64 { return FarWork * int64(1+l.Len()) }

// Write writes the permits and the holders, in their order.
func (l *Lock) Write(w *Writer) {
	w.U64(uint64(max(l.Holders().Mode(), 0)))
	for h := range l.Holders().Each {
		writeHolder(w, h)
	}
}

// The parts of a holder in an image.
const (
	holderOwner uint64 = 1 << iota
	holderNote
	holderFacts
	holderParts = iota // how many there are
)

func writeHolder(w *Writer, h *lock.Holder) {
	parts := uint64(0)
	if h.Owner != "" {
		parts |= holderOwner
	}
	if h.Note != "" {
		parts |= holderNote
	}
	if h.Facts != (lock.Facts{}) {
		parts |= holderFacts
	}
	w.Parts(parts)
	w.Text(h.Token)
	if h.Owner != "" {
		w.Text(h.Owner)
	}
	if h.Note != "" {
		w.Text(h.Note)
	}
	for _, n := range []uint64{h.Fence, h.Version, uint64(h.Tick), uint64(h.WallMs)} {
		w.U64(n)
	}
	if parts&holderFacts != 0 {
		WriteFacts(w, h.Facts)
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
	parts := r.Parts("a holder of a lock", 1<<holderParts-1)
	h := &lock.Holder{Token: r.Text()}
	if parts&holderOwner != 0 {
		h.Owner = r.Text()
	}
	if parts&holderNote != 0 {
		h.Note = r.Text()
	}
	h.Fence, h.Version, h.Tick, h.WallMs = r.U64(), r.U64(), r.I64(), r.I64()
	if h.Tick == lock.NoLease && h.WallMs != -1 {
		r.Fail("the lease of a holder is none")
	}
	if parts&holderFacts != 0 {
		h.Facts = ReadFacts(r)
	}
	return h
}
