package store

import (
	"math"
	"strings"
	"unsafe"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

// Entry is a key with its value, its lease, its fence and its version. It is immutable once it is stored, except the
// inside of an aggregate, so a reader, a snapshot and the journal of a script can hold on to it. Put replaces it.
//
// Locks are many and small, and the garbage collector visits each object, in memory that is seldom in a cache. So the
// bytes of a short key and a short string follow their entry in the same object, which has no pointer (inlineEntry);
// the facts of a lock stand in a short form before them. Every other entry is the head of an outsideEntry. The methods
// of Entry hide the difference.
type Entry struct {
	Tick    int64  // of its deadline
	Fence   uint64 // where the key last came into being (law 11)
	Version uint64 // of the last modification, for WATCH

	// Unless this is an outsideEntry, the wall time of its deadline is in 46 bits: these, above those of wallLow.
	wallHigh int16  // its two lowest bits are the Mark
	keyBytes uint8  // of the key that follows
	strBytes uint8  // of the string behind it; isOutside: this is an outsideEntry
	wallLow  uint32 // of an outsideEntry: the lower bits of its key's position (placeAt)
}

const (
	isOutside = math.MaxUint8

	wallLowBits, markBits = 32, 2
)

// inlineEntry is an entry whose bytes follow it.
type inlineEntry Entry

// setWall reports whether a wall time fits: it does for about a thousand years from 1970.
func (e *inlineEntry) setWall(ms int64, mark Mark) (ok bool) {
	e.wallLow, e.wallHigh = uint32(ms), int16(ms>>wallLowBits)<<markBits|int16(mark)
	return e.wall() == ms
}

func (e *inlineEntry) wall() int64 {
	return int64(e.wallHigh>>markBits)<<wallLowBits | int64(e.wallLow)
}

// headBytes returns the number of bytes before the key.
func (e *inlineEntry) headBytes() int {
	if (*Entry)(e).Mark() == IsLock {
		return entryBytes + shortFactsBytes
	}
	return entryBytes
}

// following returns n bytes of key and string, from one on. No pointer may lead past the end of an object, as that of
// no bytes could.
func (e *inlineEntry) following(from, n int) string {
	if n == 0 {
		return ""
	}
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(e), e.headBytes()+from)), n)
}

// facts returns what stands before the key of a lock.
func (e *inlineEntry) facts() *shortFacts {
	return (*shortFacts)(unsafe.Add(unsafe.Pointer(e), entryBytes))
}

// Mark tells whether a key is a lock. The callers decide when it becomes one.
type Mark uint8

// The marks of a key.
const (
	NoLock    Mark = 0 // it is no lock
	MayBeLock Mark = 1 // it came into being under a condition, and becomes a lock by its first lease
	IsLock    Mark = 2 // it has facts

	lockMarks = MayBeLock | IsLock
)

const (
	entryBytes = int(unsafe.Sizeof(Entry{}))
	// InlineMax bounds the bytes of key and string that follow an entry: each change of the key, also of its deadline,
	// copies them.
	InlineMax = 256 - entryBytes

	shortFactsBytes = int(unsafe.Sizeof(shortFacts{}))
)

// shortFacts are the facts of a lock, between its entry and the key that follows. They hold the time of the grant as
// the time from it until the end of the lease.
type shortFacts struct {
	heldMs   uint32 // from the grant until the lease was begun, the last time
	leaseMs  uint32
	slewMs   int32 // by which the wall clock was slower meanwhile than the log clock
	renewals uint32
	client   uint32
}

// shortFactsOf returns the facts of a lock with a deadline. They do not fit if there is no lease, or it lasts, or was
// renewed, for more than 49 days, or the wall clock was set by half as much.
func shortFactsOf(f *lock.Facts, d Deadline) (s shortFacts, ok bool) {
	s = shortFacts{leaseMs: uint32(f.LeaseMs), renewals: f.Renewals, client: f.Client}
	s.heldMs = uint32(d.Tick - f.LeaseMs - f.SinceTick)
	s.slewMs = int32(f.SinceMs - s.facts(d).SinceMs)
	return s, s.facts(d) == *f
}

func (s *shortFacts) facts(d Deadline) lock.Facts {
	ago := int64(s.leaseMs) + int64(s.heldMs)
	return lock.Facts{
		SinceTick: d.Tick - ago, SinceMs: d.WallMs - ago + int64(s.slewMs), LeaseMs: int64(s.leaseMs),
		Renewals: s.renewals, Client: s.client,
	}
}

// outsideEntry is an entry whose key or value is long, whose value is an aggregate, or that has a tag, or times that do
// not fit an inlineEntry.
type outsideEntry struct {
	Entry
	wallMs int64 // of its deadline
	name   string
	held   value.Value
	tag    *Tag
}

// Tag has the OWNER and NOTE that LOCK gives for the token that a string is. It does not change, and is deleted with
// the string.
type Tag struct{ Owner, Note string }

// tagOverheadBytes is the memory that a tag counts for besides its bytes.
const tagOverheadBytes = 96

// outsideLock is an outsideEntry that is a lock.
type outsideLock struct {
	outsideEntry
	Facts lock.Facts
}

// Holds reports whether a key that may be a lock has a value.
func (e *Entry) Holds(v value.Value) bool {
	return e.Aggregate() == v.Aggregate() && (v.Aggregate() != nil || e.Str() == v.Str())
}

// NewEntry makes the entry of a key that is about to replace was; was and tag may be nil. It copies key, and a short
// string. The caller adds the facts of a lock that is a string (WithFacts), and Put a fence and a version.
func NewEntry(key string, was *Entry, v value.Value, d Deadline, tag *Tag, mark Mark) *Entry {
	if mark == MayBeLock && d.IsSet() {
		mark = IsLock
	}
	if v.Aggregate() == nil && tag == nil {
		if e := newInline(key, v.Str(), d, mark); e != nil {
			return e
		}
	}
	if s := v.Str(); v.Aggregate() == nil && len(s) <= InlineMax {
		v = value.OfString(strings.Clone(s))
	}
	if was != nil && was.outside() != nil {
		key = was.Key()
	} else {
		key = strings.Clone(key)
	}
	e := newOutside(key, v, d, tag, mark)
	if l := e.HashLock(); l != nil && was != nil && was.Mark() == IsLock {
		l.Facts = was.Facts()
	}
	return e
}

// newInline makes an entry whose bytes follow it. It returns nil if they are too many, or the deadline does not fit.
func newInline(key, s string, d Deadline, mark Mark) *Entry {
	n := len(key) + len(s)
	if n > InlineMax {
		return nil
	}
	head := Entry{Tick: d.Tick, keyBytes: uint8(len(key)), strBytes: uint8(len(s))}
	if !head.inline().setWall(d.WallMs, mark) {
		return nil
	}
	at := head.inline().headBytes()
	// Of words, so that it is aligned.
	words := make([]uint64, (at+n+7)/8)
	e := (*Entry)(unsafe.Pointer(unsafe.SliceData(words)))
	*e = head
	tail := unsafe.Slice((*byte)(unsafe.Pointer(e)), at+n)[at:]
	copy(tail[copy(tail, key):], s)
	return e
}

// newOutside makes an outsideEntry of a key and a value that it may keep.
func newOutside(key string, v value.Value, d Deadline, tag *Tag, mark Mark) *Entry {
	o := &outsideEntry{}
	switch {
	case mark != IsLock:
	case v.Aggregate() == nil:
		o = &(&outsideLock{}).outsideEntry
	default:
		o = &(&HashLock{}).outsideEntry
	}
	o.Entry = Entry{Tick: d.Tick, wallHigh: int16(mark), strBytes: isOutside}
	o.wallMs, o.name, o.held, o.tag = d.WallMs, key, v, tag
	return &o.Entry
}

// WithFacts returns a lock that is not stored yet with its facts: the same entry, or another.
func (e *Entry) WithFacts(f lock.Facts) *Entry {
	if e.outside() == nil {
		short, ok := shortFactsOf(&f, e.Deadline())
		if ok {
			*e.inline().facts() = short
			return e
		}
		key, held := strings.Clone(e.Key()), value.OfString(strings.Clone(e.Str()))
		next := newOutside(key, held, e.Deadline(), nil, e.Mark())
		next.Fence, next.Version = e.Fence, e.Version
		e = next
	}
	(*outsideLock)(unsafe.Pointer(e)).Facts = f
	return e
}

// outside returns the entry as what it is the head of; nil of one whose bytes follow it.
func (e *Entry) outside() *outsideEntry {
	if e.strBytes != isOutside {
		return nil
	}
	return (*outsideEntry)(unsafe.Pointer(e))
}

// inline returns an entry whose bytes follow it.
func (e *Entry) inline() *inlineEntry { return (*inlineEntry)(e) }

// asHashLock returns the lock that is a hash whose head is e.
func asHashLock(e *Entry) *HashLock { return (*HashLock)(unsafe.Pointer(e)) }

// Deadline returns the end of the lease, or Never.
func (e *Entry) Deadline() Deadline {
	if o := e.outside(); o != nil {
		return Deadline{e.Tick, o.wallMs}
	}
	return Deadline{e.Tick, e.inline().wall()}
}

// Mark tells whether the key is a lock.
func (e *Entry) Mark() Mark { return Mark(e.wallHigh) & lockMarks }

// IsLocked reports whether a key is a lock, of one holder or of many.
func (e *Entry) IsLocked() bool { return e.Mark() == IsLock || e.Lock() != nil }

// Facts returns the facts of a key whose mark is IsLock.
func (e *Entry) Facts() lock.Facts {
	if e.outside() != nil {
		return (*outsideLock)(unsafe.Pointer(e)).Facts
	}
	return e.inline().facts().facts(e.Deadline())
}

// Key returns the name of the key. It aliases the entry.
func (e *Entry) Key() string {
	if o := e.outside(); o != nil {
		return o.name
	}
	return e.inline().following(0, int(e.keyBytes))
}

// placeAt has the entry remember the position at which a tree stores it, so that nobody reads all of a long key to find
// it. An entry that was stored before has it, and is not written: others read it.
func (e *Entry) placeAt(pos uint64) {
	if e.outside() != nil && e.wallLow != uint32(pos) {
		e.wallLow = uint32(pos)
	}
}

// positionLow returns the lower bits of the key's position, of an entry that is stored.
func (e *Entry) positionLow() uint32 {
	if e.outside() != nil {
		return e.wallLow
	}
	return uint32(value.Position(e.Key()))
}

// Value returns the value of the key. It aliases the entry.
func (e *Entry) Value() value.Value {
	if o := e.outside(); o != nil {
		return o.held
	}
	return value.OfString(e.inline().following(int(e.keyBytes), int(e.strBytes)))
}

// Str returns the string that the key holds; "" of an aggregate.
func (e *Entry) Str() string { return e.Value().Str() }

// Aggregate returns the aggregate that the key holds; nil of a string.
func (e *Entry) Aggregate() value.Aggregate {
	if o := e.outside(); o != nil {
		return o.held.Aggregate()
	}
	return nil
}

// Lock returns the lock that the key holds if several may hold it, or nil; the entry may be nil.
func (e *Entry) Lock() *lock.Many {
	if e == nil {
		return nil
	}
	l, _ := e.Aggregate().(*value.Lock)
	return l.Holders()
}

// Tag returns the tag of the token that the key holds, or nil.
func (e *Entry) Tag() *Tag {
	if o := e.outside(); o != nil {
		return o.tag
	}
	return nil
}

// Ends returns the tick after which the next lease of the entry ends. Each holder of a lock of many has a lease.
func (e *Entry) Ends() int64 {
	if l := e.Lock(); l != nil {
		return l.First().Tick
	}
	return e.Tick
}

// Leased reports whether the entry has a lease.
func (e *Entry) Leased() bool { return e.Ends() != Never.Tick }

// Type returns the word that TYPE answers.
func (e *Entry) Type() string { return e.Value().Type() }

// The memory that an entry counts for besides its bytes, in used_memory. Nodes must agree on it, so it is an estimate.
const (
	entryOverheadBytes = 144
	LeaseOverheadBytes = 48
	FactsOverheadBytes = 32
)

// Size returns how many bytes the entry counts for. It stays the same as long as the entry is stored.
func (e *Entry) Size() int64 {
	n := entryOverheadBytes + int64(len(e.Key())) + e.Value().Size()
	if e.Leased() {
		n += LeaseOverheadBytes
	}
	if e.Mark() == IsLock {
		n += FactsOverheadBytes
	}
	if l := e.HashLock(); l != nil {
		n += HashHolderBytes * int64(len(l.Holders))
	}
	if t := e.Tag(); t != nil {
		n += tagOverheadBytes + int64(len(t.Owner)+len(t.Note))
	}
	return n
}

// Deadline is the end of a lease. The tick decides; the wall time is reported (EXPIRETIME) exactly as it was given.
type Deadline struct {
	Tick   int64 // the key is gone once the log clock is past it
	WallMs int64 // since 1970
}

// Never is the deadline of a key without a lease.
var Never = Deadline{Tick: math.MaxInt64, WallMs: -1}

// IsSet reports whether there is a lease.
func (d Deadline) IsSet() bool { return d.Tick != math.MaxInt64 }

// StringValue returns the value of an argument of a command. Arguments alias a whole entry of the log, so it clones a
// long one; a short one is copied when it is stored.
func StringValue(s string) value.Value {
	if len(s) > InlineMax {
		s = strings.Clone(s)
	}
	return value.OfString(s)
}

// ChangesToken reports whether a key becomes a string with another value, so that another token holds the lock that it
// may be. It looks at neither marks nor lock-pattern.
func ChangesToken(was, next *Entry) bool {
	return next.Aggregate() == nil && (was.Aggregate() != nil || was.Str() != next.Str())
}

// Due reports whether a lease of the entry, or of one of its holders, is over at a tick.
func (e *Entry) Due(tick int64) bool { return tick > e.Ends() }

// IsLockedString reports whether a key is a lock that is a string.
func (e *Entry) IsLockedString() bool { return e != nil && e.Mark() == IsLock && e.Aggregate() == nil }

// Write writes the entry as an image has it.
func (e *Entry) Write(w *value.Writer) {
	w.Text(e.Key())
	for _, n := range []uint64{e.Fence, e.Version, uint64(e.Tick), uint64(e.Deadline().WallMs)} {
		w.U64(n)
	}
	switch e.Mark() {
	case IsLock:
		w.Byte(value.KindLock)
		value.WriteFacts(w, e.Facts())
	case MayBeLock:
		w.Byte(value.KindMaybe)
	}
	if t := e.Tag(); t != nil {
		w.Byte(value.KindTagged)
		w.Text(t.Owner)
		w.Text(t.Note)
	}
	e.Value().Write(w)
	if l := e.HashLock(); l != nil {
		l.write(w)
	}
}

// EndOf returns the deadline of a key with a lock of many: the key ends with the last of its holders.
func EndOf(l *lock.Many) Deadline {
	return Deadline{Tick: l.Last().Tick, WallMs: l.Last().WallMs}
}
