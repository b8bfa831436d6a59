package keyspace

import (
	"math"
	"strings"
	"unsafe"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
	"lockd/resp"
)

// entry is a key with all that belongs to it. It is immutable once it is stored
// (only the inside of an aggregate changes, see editAs): that is why a reader, a
// snapshot and the journal of a script can hold on to one. store replaces it.
//
// Locks are many and small, and every object is one that the garbage collection must
// find, in memory that is seldom in a cache. So the bytes of a short key and a short
// string follow their entry, in the same object, in which is no pointer, and what is known
// of a lock is written short before them. Every other entry is the head of an
// outsideEntry. The methods below hide which it is.
type entry struct {
	tick    int64  // of its deadline
	fence   uint64 // where the key last came into being (law 11)
	version uint64 // of the last modification, for WATCH

	// Unless this is an outsideEntry, the wall time of its deadline is in 46 bits: these, above those of wallLow.
	wallHigh int16  // two more, the lowest, are the lockMark
	keyBytes uint8  // of the key that follows
	strBytes uint8  // of the string behind it; isOutside: this is an outsideEntry
	wallLow  uint32 // of an outsideEntry: the lower bits of its key's position
}

const (
	isOutside = math.MaxUint8

	wallLowBits, markBits = 32, 2
)

// setWall reports whether a wall time fits: it does for about a thousand years from 1970.
func (e *entry) setWall(ms int64, mark lockMark) (ok bool) {
	e.wallLow, e.wallHigh = uint32(ms), int16(ms>>wallLowBits)<<markBits|int16(mark)
	return e.wall() == ms
}

func (e *entry) wall() int64 { return int64(e.wallHigh>>markBits)<<wallLowBits | int64(e.wallLow) }

// lockMark says whether a key is a lock.
type lockMark uint8

const (
	noLock    lockMark = 0
	mayBeLock lockMark = 1 // it came into being under a condition, and becomes a lock by its first lease
	isLock    lockMark = 2 // there are facts of it

	lockMarks = mayBeLock | isLock
)

// clientHash is what is kept of a client in the facts.
func clientHash(by resp.Sender) uint32 {
	if by == "" {
		return 0
	}
	c := by.Client()
	return max(1, uint32(xxh3.HashString(c.Addr)^xxh3.HashString(c.Node)*31^c.ID*0x9e3779b97f4a7c15))
}

const (
	entryBytes = int(unsafe.Sizeof(entry{}))
	// inlineMax bounds the bytes of key and string that follow an entry: they are copied
	// with each change of the key, that of its deadline as well.
	inlineMax = 256 - entryBytes

	shortFactsBytes = int(unsafe.Sizeof(shortFacts{}))
)

// shortFacts are the facts of a lock whose bytes follow its entry, before the key: when it
// was granted is told by the time that went until the end of its lease.
type shortFacts struct {
	heldMs   uint32 // from the grant until the lease was begun, the last time
	leaseMs  uint32
	slewMs   int32 // by which the wall clock went slower meanwhile than the log clock
	renewals uint32
	client   uint32
}

// shortFactsOf are the facts of a lock with a deadline. They do not fit if there is no lease, or it lasts, or was
// renewed, for more than 49 days, or the wall clock was set by half as much.
func shortFactsOf(f *lock.Facts, d deadline) (s shortFacts, ok bool) {
	s = shortFacts{leaseMs: uint32(f.LeaseMs), renewals: f.Renewals, client: f.Client}
	s.heldMs = uint32(d.tick - f.LeaseMs - f.SinceTick)
	s.slewMs = int32(f.SinceMs - s.facts(d).SinceMs)
	return s, s.facts(d) == *f
}

func (s *shortFacts) facts(d deadline) lock.Facts {
	ago := int64(s.leaseMs) + int64(s.heldMs)
	return lock.Facts{
		SinceTick: d.tick - ago, SinceMs: d.wallMs - ago + int64(s.slewMs), LeaseMs: int64(s.leaseMs),
		Renewals: s.renewals, Client: s.client,
	}
}

// outsideEntry is an entry whose key or value is long, or whose value is an aggregate, or that has a
// tag, or times that do not fit.
type outsideEntry struct {
	entry
	wallMs int64 // of its deadline
	name   string
	held   value.Value
	tag    *lockTag
}

// lockTag is what LOCK says about the token that a string is. It does not change, and goes with
// the string.
type lockTag struct{ owner, note string }

// tagOverheadBytes is what a tag counts for beside its bytes.
const tagOverheadBytes = 96

// outsideLock is an outsideEntry that is a lock.
type outsideLock struct {
	outsideEntry
	facts lock.Facts
}

// newEntry makes the entry of a key that is about to be stored in the place of was; nil:
// there is none. store completes it. It copies key, and a string that is short.
func newEntry(key string, was *entry, v value.Value, d deadline) *entry {
	return newTagged(key, was, v, d, nil)
}

// newTagged is newEntry with a tag, or nil. Who keeps the token keeps the lock.
func newTagged(key string, was *entry, v value.Value, d deadline, tag *lockTag) *entry {
	mark := noLock
	if was != nil && was.mark() != noLock && was.holds(v) {
		mark = was.mark()
	}
	return newMarked(key, was, v, d, tag, mark)
}

// holds reports whether a key that may be a lock has a value.
func (e *entry) holds(v value.Value) bool {
	return e.agg() == v.Aggregate() && (v.Aggregate() != nil || e.str() == v.Str())
}

// newMarked is newTagged with a mark. The facts of a lock that is a string are to come (withFacts).
func newMarked(key string, was *entry, v value.Value, d deadline, tag *lockTag, mark lockMark) *entry {
	if mark == mayBeLock && d.set() {
		mark = isLock
	}
	if v.Aggregate() == nil && tag == nil {
		if e := newInline(key, v.Str(), d, mark); e != nil {
			return e
		}
	}
	if s := v.Str(); v.Aggregate() == nil && len(s) <= inlineMax {
		v = value.OfString(strings.Clone(s))
	}
	low := uint32(0)
	if was != nil && was.isOutside() {
		key, low = was.key(), was.positionLow()
	} else {
		key, low = strings.Clone(key), uint32(value.Position(key))
	}
	e := newOutside(key, low, v, d, tag, mark)
	if l := e.hashLock(); l != nil && was != nil && was.mark() == isLock {
		l.facts = was.facts()
	}
	return e
}

// newInline makes an entry whose bytes follow it; nil if they are too many, or the deadline does not fit.
func newInline(key, s string, d deadline, mark lockMark) *entry {
	n := len(key) + len(s)
	if n > inlineMax {
		return nil
	}
	head := entry{tick: d.tick, keyBytes: uint8(len(key)), strBytes: uint8(len(s))}
	if !head.setWall(d.wallMs, mark) {
		return nil
	}
	at := head.bytes()
	// Of words, so that it is aligned.
	words := make([]uint64, (at+n+7)/8)
	e := (*entry)(unsafe.Pointer(unsafe.SliceData(words)))
	*e = head
	tail := unsafe.Slice((*byte)(unsafe.Pointer(e)), at+n)[at:]
	copy(tail[copy(tail, key):], s)
	return e
}

// newOutside makes every other entry, of a key, whose positionLow is low, and a value that it may keep.
func newOutside(key string, low uint32, v value.Value, d deadline, tag *lockTag, mark lockMark) *entry {
	o := &outsideEntry{}
	switch {
	case mark != isLock:
	case v.Aggregate() == nil:
		o = &(&outsideLock{}).outsideEntry
	default:
		o = &(&hashLock{}).outsideEntry
	}
	o.entry = entry{tick: d.tick, wallHigh: int16(mark), strBytes: isOutside, wallLow: low}
	o.wallMs, o.name, o.held, o.tag = d.wallMs, key, v, tag
	return &o.entry
}

// withFacts completes a lock that is not stored yet. It may be another entry then.
func (e *entry) withFacts(f lock.Facts) *entry {
	if !e.isOutside() {
		short, ok := shortFactsOf(&f, e.deadline())
		if ok {
			*e.shortFacts() = short
			return e
		}
		next := newOutside(strings.Clone(e.key()), e.positionLow(), value.OfString(strings.Clone(e.str())), e.deadline(), nil, e.mark())
		next.fence, next.version = e.fence, e.version
		e = next
	}
	(*outsideLock)(unsafe.Pointer(e)).facts = f
	return e
}

func (e *entry) isOutside() bool { return e.strBytes == isOutside }

func (e *entry) outside() *outsideEntry { return (*outsideEntry)(unsafe.Pointer(e)) }

// asHashLock is an entry as what it is the head of: that of a lock that is a hash.
func asHashLock(e *entry) *hashLock { return (*hashLock)(unsafe.Pointer(e)) }

// bytes are those of an entry that come before the key that follows.
func (e *entry) bytes() int {
	if e.mark() == isLock {
		return entryBytes + shortFactsBytes
	}
	return entryBytes
}

// following are n bytes, from one on, behind the entry. No pointer may lead past the end of
// an object, as that of no bytes could.
func (e *entry) following(from, n int) string {
	if n == 0 {
		return ""
	}
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(e), e.bytes()+from)), n)
}

// deadline is the end of its lease, or never.
func (e *entry) deadline() deadline {
	if e.isOutside() {
		return deadline{e.tick, e.outside().wallMs}
	}
	return deadline{e.tick, e.wall()}
}

// mark says whether the key is a lock.
func (e *entry) mark() lockMark { return lockMark(e.wallHigh) & lockMarks }

// isLocked reports whether a key is a lock, of one holder or of many.
func (e *entry) isLocked() bool { return e.mark() == isLock || e.lock() != nil }

// facts are those of a key that is marked as a lock.
func (e *entry) facts() lock.Facts {
	if e.isOutside() {
		return (*outsideLock)(unsafe.Pointer(e)).facts
	}
	return e.shortFacts().facts(e.deadline())
}

func (e *entry) shortFacts() *shortFacts {
	return (*shortFacts)(unsafe.Add(unsafe.Pointer(e), entryBytes))
}

func (e *entry) key() string {
	if e.isOutside() {
		return e.outside().name
	}
	return e.following(0, int(e.keyBytes))
}

// positionLow is the lower bits of its key's position: of a long key without reading all of it.
func (e *entry) positionLow() uint32 {
	if e.isOutside() {
		return e.wallLow
	}
	return uint32(value.Position(e.key()))
}

// value is what the key holds. It aliases the entry.
func (e *entry) value() value.Value {
	if e.isOutside() {
		return e.outside().held
	}
	return value.OfString(e.following(int(e.keyBytes), int(e.strBytes)))
}

// str is Value.Str.
func (e *entry) str() string { return e.value().Str() }

// agg is Value.Aggregate.
func (e *entry) agg() value.Aggregate {
	if e.isOutside() {
		return e.outside().held.Aggregate()
	}
	return nil
}

// lock is the lock that a key holds, if several may hold it; or nil, as of no entry.
func (e *entry) lock() *lock.Many {
	if e == nil {
		return nil
	}
	l, _ := e.agg().(*value.Lock)
	return l.Holders()
}

// tag is what is known of the token that a key holds, or nil.
func (e *entry) tag() *lockTag {
	if e.isOutside() {
		return e.outside().tag
	}
	return nil
}

// ends is the tick after which the next lease of the entry ends: each holder of a lock has one.
func (e *entry) ends() int64 {
	if l := e.lock(); l != nil {
		return l.First().Tick
	}
	return e.tick
}

// leased reports whether the entry has a lease.
func (e *entry) leased() bool { return e.ends() != never.tick }

// kind is Value.Type.
func (e *entry) kind() string { return e.value().Type() }

// What an entry costs beside its bytes: the estimate behind used_memory. Nodes
// must agree on it, so it cannot be measured.
const (
	entryOverheadBytes = 144
	leaseOverheadBytes = 48
	factsOverheadBytes = 32
)

// size is what the entry counts for. It stays the same as long as the entry is stored.
func (e *entry) size() int64 {
	n := entryOverheadBytes + int64(len(e.key())) + e.value().Size()
	if e.leased() {
		n += leaseOverheadBytes
	}
	if e.mark() == isLock {
		n += factsOverheadBytes
	}
	if l := e.hashLock(); l != nil {
		n += hashHolderBytes * int64(len(l.holders))
	}
	if t := e.tag(); t != nil {
		n += tagOverheadBytes + int64(len(t.owner)+len(t.note))
	}
	return n
}

// deadline is the end of a lease. The tick decides; the wall time is kept to be
// reported (EXPIRETIME), exactly as it was asked for.
type deadline struct {
	tick   int64 // the key is gone once the log clock is past it
	wallMs int64 // since 1970
}

// never is the deadline of a key without a lease.
var never = deadline{tick: math.MaxInt64, wallMs: -1}

func (d deadline) set() bool { return d.tick != math.MaxInt64 }

// stringValue is a string taken from a command's arguments. They alias a whole entry of
// the log, so a long one is cloned; a short one is copied when it is stored.
func stringValue(s string) value.Value {
	if len(s) > inlineMax {
		s = strings.Clone(s)
	}
	return value.OfString(s)
}

// changesToken reports whether a key is a string with another value than before: another token holds the lock that it
// may be. What is noted of locks, and what lock-pattern says, has no part in it.
func changesToken(was, next *entry) bool {
	return next.agg() == nil && (was.agg() != nil || was.str() != next.str())
}
