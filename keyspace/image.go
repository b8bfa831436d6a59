package keyspace

import (
	"errors"
	"fmt"
	"io"

	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
	"lockd/resp/acl"
)

// An image is the whole state as a stream of bytes. Equal states have equal images,
// so the hash of an image is the hash of the state.
//
//	image     magic version parts clock settings users library functions 16 x database blocked events digest crc
//	clock     tick wall sequence fence expired 1024 x createdAt
//	settings  n { name value }                    by name
//	users     revision n { name rules }            by name
//	library   turn n { sha source loaded turn }   by sha
//	functions n { source n { name described description flags } }   by name
//	database  swapped floor n { key }             by position, name
//	key       name fence version tick wall [lock facts | maybe] [tagged owner note]
//	          kind value [n { parts token since-tick since-wall client }]     of a lock that is a hash
//	facts     since-tick since-wall lease renewals
//	value     bytes | n [ids] [permits] { element }     ids of a stream, permits of a lock
//	element   name value                          of a hash
//	          parts token [owner] [note] fence version tick wall [facts]   of a lock
//	          bytes                               of a list
//	          member                              of a set
//	          member score                        of a sorted set
//	          id n { field }                      of a stream
//	ids       last-id deleted-id added            an id is two numbers
//	blocked   seq session n { session } n { waiter } n { given }      by id
//	session   parts id until node process suspensions n { from to }
//	waiter    parts session number seq db end n { argument } [client]
//	given     parts session number entry given-tick db at n { n { argument } } [key version] key tick wall
//	client    id name addr node
//	events    first next since whole { event }    an event as history.Append writes it, behind its length
//
// Numbers are 8 bytes, little-endian, a score's those of IEEE 754, of renewals the upper 4 a hash of the client; a
// string is its length and its bytes; kind, loaded, described, whole and flags are one byte, and so are lock, maybe and
// tagged, which stand before kind and are none; crc is CRC-32C of all before it, 4 bytes.
//
// parts is a uvarint with a bit for each of what stands in brackets, if that is there, and for what is said by the bit
// alone. What has a bit, or a mark before kind, that this lockd does not know is refused. So what one day belongs to a
// holder (that its lease does not run while its session lives, for how long it may hold the lock at most) or to a waiter
// (that its place is kept for a while after its connection) gets a bit or a mark, which a new level writes; it costs
// nothing where it is not said, and needs no new version. A change of the rest is a new version, which a new level
// writes. What any release has written opens for ever: a file of each version stays in testdata.
const (
	imageMagic   = "lockdksp"
	imageVersion = 1

	imageMagicDevelopment = "lockdkey" // of development builds: their versions are others
)

// frozen is the state at one moment: what Snapshot's function writes.
type frozen struct {
	tick, wallUs        int64
	sequence, lastFence uint64
	stats               stats
	createdAt           [store.WatchBuckets]uint64
	settings            *settings
	users               *acl.Users
	usersRev            uint64
	library             library.Scripts
	functions           library.Functions
	dbs                 [store.Databases]frozenDatabase
	waits               wait.Table
	events              history.Log
	digest              digest
}

type frozenDatabase struct {
	swapped, floor uint64
	keys           store.KeyView
}

// Snapshot marks the present state and returns a function that writes its image;
// see cluster.Machine. It costs the same for any number of keys: trees are copied
// on write from here on, and the new generation has aggregates copied likewise.
func (m *Machine) Snapshot() func(io.Writer) error {
	m.keys.Generation++
	f := &frozen{
		tick: m.tick, wallUs: m.wallUs, sequence: m.keys.Sequence, lastFence: m.keys.LastFence,
		stats: m.stats, createdAt: m.keys.CreatedAt, settings: m.settings, users: m.users, usersRev: m.usersRev, library: m.library.Copy(),
		functions: m.functions.Copy(), waits: m.waits.Frozen(), events: m.events.Copy(), digest: m.digest,
	}
	for i, d := range m.keys.DBs {
		f.dbs[i] = frozenDatabase{swapped: d.Swapped, floor: d.Floor, keys: d.Keys.Copy()}
	}
	return f.write
}

func (f *frozen) write(dst io.Writer) error {
	w := value.NewWriter(dst)
	w.Raw(imageMagic)
	w.U64(imageVersion)
	w.Parts(0)
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
		w.U64(uint64(d.keys.Len()))
		d.keys.Each(func(e *store.Entry) bool {
			e.Write(w)
			return w.OK() // a full disk ends it early
		})
	}
	f.waits.Write(w)
	f.events.Write(w)
	w.U64(uint64(f.digest))
	return w.Finish()
}

// Restore replaces the state by an image; see cluster.Machine. On an error, which is
// value.ErrDamaged where the image itself causes it, the state stays as it was.
func (m *Machine) Restore(src io.Reader) error {
	next := New(m.scripts)
	next.level, next.commandSet, next.users = m.level, m.commandSet, acl.NewUsers(m.known)
	next.keys.Generation = m.keys.Generation + 1
	r, buf := value.NewReader(src), new(entryBuffer)
	readHeader(r)
	next.readClock(r)
	next.settings = readSettings(r, m.level)
	next.usersRev = r.U64()
	next.users = readUsers(r, next.known)
	next.library = library.ReadScripts(r)
	next.functions = library.ReadFunctions(r)
	for db := range next.keys.DBs {
		next.readDatabase(r, buf, db)
	}
	next.waits = wait.Read(r, waitable{next.table})
	next.events = history.ReadLog(r)
	next.digest = digest(r.U64())
	r.End()
	if err := r.Err(); err != nil {
		return err
	}
	*m = *next
	return nil
}

// Fork makes the state that of a new cluster, which goes on with it. Fences are above fence from now on. Those who
// wait are gone with their nodes. A lock that is not known is granted after holdMs of the log clock; 0: at once.
func (m *Machine) Fork(fence uint64, holdMs int64) {
	m.keys.LastFence = max(m.keys.LastFence, fence)
	m.waits = m.waits.Cleared()
	until := int64(-1)
	if holdMs > 0 {
		until, _ = addInt(m.tick, holdMs)
	}
	if next, err := m.settings.with(m.level, []string{nameLockHold, itoa(until), nameFullDisks, ""}); err == nil {
		m.settings = next
	}
}

// LastFence is the highest fence that was given.
func (m *Machine) LastFence() uint64 { return m.keys.LastFence }

// WallMs is the wall time of the last entry, in milliseconds since 1970; 0: there was none.
func (m *Machine) WallMs() int64 { return m.wallUs / 1000 }

// Keys is how many keys there are in all databases.
func (m *Machine) Keys() int { return m.keys.Len() }

func (m *Machine) readClock(r *value.Reader) {
	m.tick, m.wallUs = r.I64(), r.I64()
	m.keys.Sequence, m.keys.LastFence = r.U64(), r.U64()
	m.stats.expiredKeys = r.I64()
	for i := range m.keys.CreatedAt {
		m.keys.CreatedAt[i] = r.U64()
	}
}

func (m *Machine) readDatabase(r *value.Reader, buf *entryBuffer, db int) {
	d := m.keys.DBs[db]
	d.Swapped = r.U64()
	if d.Floor = r.U64(); d.Floor > m.keys.LastFence {
		r.Fail("a database has a fence that was not given")
	}
	var last *store.Entry
	var lastPos uint64
	var leases []store.Lease
	for n := r.U64(); n > 0 && r.OK(); n-- {
		e := m.readEntry(r, buf)
		pos := value.Position(e.Key())
		if last != nil && (pos < lastPos || pos == lastPos && e.Key() <= last.Key()) {
			r.Fail("keys are not in order")
		}
		if e.Fence > m.keys.LastFence || e.Version > m.keys.Sequence {
			r.Fail("a key is newer than the clock")
		}
		m.checkHolders(r, e)
		if r.OK() {
			d.Load(pos, e)
			if e.Leased() {
				leases = append(leases, store.LeaseOf(e))
			}
		}
		last, lastPos = e, pos
	}
	d.LoadLeases(leases)
}

// entryBuffer has the key and the string of the entry that is being read, if they are short: newEntry
// copies them.
type entryBuffer struct{ key, str [store.InlineMax]byte }

func (m *Machine) readEntry(r *value.Reader, buf *entryBuffer) *store.Entry {
	key, fence, version := r.TextIn(buf.key[:]), r.U64(), r.U64()
	until := store.Deadline{Tick: r.I64(), WallMs: r.I64()}
	if !until.IsSet() && until != store.Never {
		r.Fail("a deadline that is none")
	}
	mark, facts, kind := readMark(r)
	if mark == store.MayBeLock && until.IsSet() {
		r.Fail("what has a lease and might become a lock")
	}
	tag, kind := readTag(r, kind)
	v := value.ReadValue(r, kind, buf.str[:], m.keys.Generation)
	if tag != nil && v.Aggregate() != nil {
		r.Fail("a tag of what is no string")
	}
	if mark != store.NoLock && v.Aggregate() != nil && v.Aggregate().Kind() != value.HashKind {
		r.Fail("what is known of a lock that is no string")
	}
	e := store.NewMarked(key, nil, v, until, tag, mark)
	if mark == store.IsLock {
		e = e.WithFacts(facts)
	}
	if l := e.HashLock(); l != nil {
		l.Read(r, namesHolder)
	}
	e.Fence, e.Version = fence, version
	return e
}

// readMark reads what is known of a lock, if there is anything, and the kind of what follows.
func readMark(r *value.Reader) (mark store.Mark, facts lock.Facts, kind byte) {
	switch kind = r.Byte(); kind {
	case value.KindMaybe:
		return store.MayBeLock, facts, r.Byte()
	case value.KindLock:
		return store.IsLock, value.ReadFacts(r), r.Byte()
	}
	return store.NoLock, facts, kind
}

// readTag reads a tag, if that is what kind says, and the kind of the value that follows.
func readTag(r *value.Reader, kind byte) (*store.Tag, byte) {
	if kind != value.KindTagged {
		return nil, kind
	}
	tag := &store.Tag{Owner: r.Text(), Note: r.Text()}
	if *tag == (store.Tag{}) {
		r.Fail("an empty tag")
	}
	return tag, r.Byte()
}

// checkHolders refuses a lock whose holders can not be those of its key.
func (m *Machine) checkHolders(r *value.Reader, e *store.Entry) {
	l := e.Lock()
	if l == nil {
		return
	}
	if e.Deadline() != endOf(l) {
		r.Fail("a lock that ends before its holders")
	}
	for h := range l.Each {
		if h.Fence > m.keys.LastFence || h.Version > m.keys.Sequence {
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
	case string(magic[:]) == imageMagicDevelopment:
		r.Stop(errors.New("keyspace: the image " + resp.SaysDevelopment))
	case string(magic[:]) != imageMagic:
		r.Fail("this is no image of lockd's keyspace")
	case r.Version == 0 || r.Version > imageVersion:
		r.Stop(fmt.Errorf("keyspace: the image has version %d, this lockd reads up to version %d",
			r.Version, imageVersion))
	}
	r.Parts("the head of an image", 0)
}
