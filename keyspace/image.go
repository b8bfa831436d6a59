package keyspace

import (
	"fmt"
	"io"

	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/lock"
	"lockd/keyspace/value"
	"lockd/resp/acl"
)

// An image is the whole state as a stream of bytes. Equal states have equal images,
// so the hash of an image is the hash of the state.
//
//	image     magic version clock settings users library functions 16 x database blocked events digest crc
//	clock     tick wall sequence fence expired 1024 x createdAt
//	settings  n { name value }                    by name
//	users     revision n { name rules }            by name
//	library   turn n { sha source loaded turn }   by sha
//	functions n { source n { name described description flags } }   by name
//	database  swapped floor n { entry }           by position, key
//	entry     key fence version tick wall [lock since-tick since-wall lease renewals | maybe] [tagged owner note]
//	          kind value [n { token since-tick since-wall client shared }]     of a lock that is a hash
//	value     bytes | n [ids] [permits] { element }     ids of a stream, permits of a lock
//	element   name value                          of a hash
//	          token owner note fence version tick wall since-tick since-wall lease renewals client   of a lock
//	          bytes                               of a list
//	          member                              of a set
//	          member score                        of a sorted set
//	          id n { field }                      of a stream
//	ids       last-id deleted-id added            an id is two numbers
//	blocked   seq session n { session } n { waiter } n { given }      by id
//	session   id until node process suspensions suspended n { from to }
//	waiter    session number seq db end n { argument } known [client]
//	given     session number entry given-tick db at waited n { n { argument } } locked [key version holder] key tick wall
//	client    id name addr node
//	events    first next since whole { event }    an event as history.Append writes it, behind its length
//
// Numbers are 8 bytes, little-endian, a score's those of IEEE 754, of an entry's renewals the upper 4 a
// hash of the client; a string is its length and its bytes; kind, loaded, described, known, whole, shared,
// suspended, waited, locked, holder and flags are one byte; crc is CRC-32C of all before it, 4 bytes. What an old lockd has written opens for
// ever: a change of the format is a new version, which a new level writes, and a file of each version stays in
// testdata.
const (
	imageMagic = "lockdkey"
	// 2 had more kinds of value than 1; 3 has blocked; 4 has streams and functions; 5 has floor and the digest;
	// 6 has locks and tags; 7 has events, and what is known of those who hold and wait; 8 has the hash of a client,
	// and locks that are hashes; 9 has the client of a holder;
	// 10 has users; 11 has the nodes of sessions, and what those who waited were given.
	imageVersion = 11
)

// frozen is the state at one moment: what Snapshot's function writes.
type frozen struct {
	tick, wallUs        int64
	sequence, lastFence uint64
	stats               stats
	createdAt           [watchBuckets]uint64
	settings            *settings
	users               *acl.Users
	usersRev            uint64
	library             library.Scripts
	functions           library.Functions
	dbs                 [databases]frozenDatabase
	blocked             blocked
	events              history.Log
	digest              digest
}

type frozenDatabase struct {
	swapped, floor uint64
	keys           keyView
}

// Snapshot marks the present state and returns a function that writes its image;
// see cluster.Machine. It costs the same for any number of keys: trees are copied
// on write from here on, and the new generation has aggregates copied likewise.
func (m *Machine) Snapshot() func(io.Writer) error {
	m.generation++
	f := &frozen{
		tick: m.tick, wallUs: m.wallUs, sequence: m.sequence, lastFence: m.lastFence,
		stats: m.stats, createdAt: m.createdAt, settings: m.settings, users: m.users, usersRev: m.usersRev, library: m.library.Copy(),
		functions: m.functions.Copy(), blocked: m.blocked.copy(), events: m.events.Copy(), digest: m.digest,
	}
	for i, d := range m.dbs {
		f.dbs[i] = frozenDatabase{swapped: d.swapped, floor: d.floor, keys: d.keys.copy()}
	}
	return f.write
}

func (f *frozen) write(dst io.Writer) error {
	w := value.NewWriter(dst)
	w.Raw(imageMagic)
	w.U64(imageVersion)
	for _, n := range []uint64{uint64(f.tick), uint64(f.wallUs), f.sequence, f.lastFence, uint64(f.stats.expiredKeys)} {
		w.U64(n)
	}
	for _, n := range f.createdAt {
		w.U64(n)
	}
	f.settings.write(w)
	w.U64(f.usersRev)
	writeUsers(f.users, w)
	f.library.Write(w)
	f.functions.Write(w)
	for _, d := range f.dbs {
		w.U64(d.swapped)
		w.U64(d.floor)
		w.U64(uint64(d.keys.len()))
		d.keys.each(func(e *entry) bool {
			e.write(w)
			return w.OK() // a full disk ends it early
		})
	}
	f.blocked.write(w)
	f.events.Write(w)
	w.U64(uint64(f.digest))
	return w.Finish()
}

func (e *entry) write(w *value.Writer) {
	w.Text(e.key())
	for _, n := range []uint64{e.fence, e.version, uint64(e.tick), uint64(e.deadline().wallMs)} {
		w.U64(n)
	}
	switch e.mark() {
	case isLock:
		f := e.facts()
		w.Byte(value.KindLock)
		for _, n := range []uint64{uint64(f.SinceTick), uint64(f.SinceMs), uint64(f.LeaseMs), uint64(f.Client)<<32 | uint64(f.Renewals)} {
			w.U64(n)
		}
	case mayBeLock:
		w.Byte(value.KindMaybe)
	}
	if t := e.tag(); t != nil {
		w.Byte(value.KindTagged)
		w.Text(t.owner)
		w.Text(t.note)
	}
	e.value().Write(w)
	if l := e.hashLock(); l != nil {
		l.write(w)
	}
}

// Restore replaces the state by an image; see cluster.Machine. On an error, which is
// value.ErrDamaged where the image itself causes it, the state stays as it was.
func (m *Machine) Restore(src io.Reader) error {
	next := New(m.scripts)
	next.level, next.language, next.users = m.level, m.language, acl.NewUsers(m.known)
	next.generation = m.generation + 1
	r, buf := value.NewReader(src), new(entryBuffer)
	readHeader(r)
	next.readClock(r)
	next.settings = readSettings(r, m.level)
	if r.Version >= 10 {
		next.usersRev = r.U64()
		next.users = readUsers(r, next.known)
	}
	next.library = library.ReadScripts(r)
	if r.Version >= 4 {
		next.functions = library.ReadFunctions(r)
	}
	for db := range next.dbs {
		next.readDatabase(r, buf, db)
	}
	if r.Version >= 3 {
		next.readBlocked(r)
	}
	if r.Version >= 7 {
		next.events = history.ReadLog(r)
	}
	if r.Version >= 5 {
		next.digest = digest(r.U64())
	}
	r.End()
	if err := r.Err(); err != nil {
		return err
	}
	*m = *next
	return nil
}

// Refound makes the state that of a new cluster, which goes on with it. Fences are above fence from now on. Those who
// wait are gone with their nodes. A lock that is not known is granted after holdMs of the log clock; 0: at once.
func (m *Machine) Refound(fence uint64, holdMs int64) {
	m.lastFence = max(m.lastFence, fence)
	seq, session := m.blocked.lastSeq, m.blocked.lastSession
	m.blocked = newBlocked()
	m.blocked.lastSeq, m.blocked.lastSession = seq, session
	until := int64(-1)
	if holdMs > 0 {
		until, _ = addInt(m.tick, holdMs)
	}
	if next, err := m.settings.with(m.level, []string{nameLockHold, itoa(until), nameFullDisks, ""}); err == nil {
		m.settings = next
	}
}

// LastFence is the highest fence that was given.
func (m *Machine) LastFence() uint64 { return m.lastFence }

// WallMs is the wall time of the last entry, in milliseconds since 1970; 0: there was none.
func (m *Machine) WallMs() int64 { return m.wallUs / 1000 }

// Keys is how many keys there are in all databases.
func (m *Machine) Keys() (n int) {
	for _, d := range m.dbs {
		n += d.keys.len()
	}
	return n
}

func (m *Machine) readClock(r *value.Reader) {
	m.tick, m.wallUs = r.I64(), r.I64()
	m.sequence, m.lastFence = r.U64(), r.U64()
	m.stats.expiredKeys = r.I64()
	for i := range m.createdAt {
		m.createdAt[i] = r.U64()
	}
}

func (m *Machine) readDatabase(r *value.Reader, buf *entryBuffer, db int) {
	d := m.dbs[db]
	d.swapped = r.U64()
	if r.Version >= 5 {
		if d.floor = r.U64(); d.floor > m.lastFence {
			r.Fail("a database has a fence that was not given")
		}
	}
	var last *entry
	var lastPos uint64
	var leases []lease
	for n := r.U64(); n > 0 && r.OK(); n-- {
		e := m.readEntry(r, buf)
		pos := value.Position(e.key())
		if last != nil && (pos < lastPos || pos == lastPos && e.key() <= last.key()) {
			r.Fail("keys are not in order")
		}
		if e.fence > m.lastFence || e.version > m.sequence {
			r.Fail("a key is newer than the clock")
		}
		m.checkHolders(r, e)
		if r.OK() {
			d.load(pos, e)
			if e.leased() {
				leases = append(leases, leaseOf(e))
			}
		}
		last, lastPos = e, pos
	}
	d.loadLeases(leases)
}

// entryBuffer has the key and the string of the entry that is being read, if they are short: newEntry
// copies them.
type entryBuffer struct{ key, str [inlineMax]byte }

func (m *Machine) readEntry(r *value.Reader, buf *entryBuffer) *entry {
	key, fence, version := r.TextIn(buf.key[:]), r.U64(), r.U64()
	until := deadline{tick: r.I64(), wallMs: r.I64()}
	if !until.set() && until != never {
		r.Fail("a deadline that is none")
	}
	mark, facts, kind := readMark(r)
	if mark == mayBeLock && until.set() {
		r.Fail("what has a lease and might become a lock")
	}
	tag, kind := readTag(r, kind)
	v := value.ReadValue(r, kind, buf.str[:], m.generation)
	if tag != nil && v.Aggregate() != nil {
		r.Fail("a tag of what is no string")
	}
	if mark != noLock && v.Aggregate() != nil && (r.Version < 8 || v.Aggregate().Kind() != value.HashKind) {
		r.Fail("what is known of a lock that is no string")
	}
	e := newMarked(key, nil, v, until, tag, mark)
	if mark == isLock {
		e = e.withFacts(facts)
	}
	if l := e.hashLock(); l != nil {
		l.read(r)
	}
	e.fence, e.version = fence, version
	return e
}

// readMark reads what is known of a lock, if there is anything, and the kind of what follows.
func readMark(r *value.Reader) (mark lockMark, facts lock.Facts, kind byte) {
	kind = r.Byte()
	switch {
	case r.Version < 7:
		return noLock, facts, kind
	case kind == value.KindMaybe:
		return mayBeLock, facts, r.Byte()
	case kind == value.KindLock:
		facts = lock.Facts{SinceTick: r.I64(), SinceMs: r.I64(), LeaseMs: r.I64()}
		counted := r.U64()
		if facts.Renewals, facts.Client = uint32(counted), uint32(counted>>32); r.Version < 8 && facts.Client != 0 {
			r.Fail("a lock that was renewed too often")
		}
		return isLock, facts, r.Byte()
	}
	return noLock, facts, kind
}

// readTag reads a tag, if that is what kind says, and the kind of the value that follows.
func readTag(r *value.Reader, kind byte) (*lockTag, byte) {
	if kind != value.KindTagged {
		return nil, kind
	}
	tag := &lockTag{owner: r.Text(), note: r.Text()}
	if *tag == (lockTag{}) {
		r.Fail("an empty tag")
	}
	return tag, r.Byte()
}

// checkHolders refuses a lock whose holders can not be those of its key.
func (m *Machine) checkHolders(r *value.Reader, e *entry) {
	l := e.lock()
	if l == nil {
		return
	}
	if e.deadline() != endOf(l) {
		r.Fail("a lock that ends before its holders")
	}
	for h := range l.Each {
		if h.Fence > m.lastFence || h.Version > m.sequence {
			r.Fail("a holder of a lock is newer than the clock")
		}
	}
}

func readHeader(r *value.Reader) {
	var magic [len(imageMagic)]byte
	r.Raw(magic[:])
	r.Version = r.U64()
	switch {
	case !r.OK():
	case string(magic[:]) != imageMagic:
		r.Fail("this is no image of lockd's keyspace")
	case r.Version == 0 || r.Version > imageVersion:
		r.Stop(fmt.Errorf("keyspace: the image has version %d, this lockd reads up to version %d",
			r.Version, imageVersion))
	}
}
