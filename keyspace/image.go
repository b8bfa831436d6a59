package keyspace

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"lockd/keyspace/command"
	"lockd/keyspace/digest"
	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/settings"
	"lockd/keyspace/state"
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
// parts is a uvarint. Each part in brackets has a bit, which is set if the part is there; some bits are a flag
// without a part. A record with a bit, or a mark before kind, that this lockd does not know is refused. So later data
// of a holder (a lease that stands still while its session lives, a bound on the time of a hold) or of a waiter (a
// place that is kept after its connection) gets a bit or a mark, which a new level writes: it costs nothing where it
// is absent, and needs no new version. A change of the rest is a new version, which a new level writes. Images of
// every release open for ever: a file of each version stays in testdata.
const (
	imageMagic   = "lockdksp"
	imageVersion = 1

	imageMagicDevelopment = "lockdkey" // of development builds: their versions are others
)

// frozen has the state at one moment; the function that Snapshot returns writes it.
type frozen struct {
	tick, wallUs        int64
	sequence, lastFence uint64
	stats               state.Stats
	createdAt           [store.WatchBuckets]uint64
	settings            *settings.Values
	users               *acl.Users
	usersRev            uint64
	library             library.Scripts
	functions           library.Functions
	keys                store.View
	waits               wait.Table
	events              history.Log
	digest              digest.Digest
}

// Snapshot marks the present state and returns a function that writes its image;
// see cluster.Machine. It costs the same for any number of keys: trees are copied
// on write from here on, and the new generation has aggregates copied as well.
func (m *Machine) Snapshot() func(io.Writer) error {
	s := &m.state
	f := &frozen{
		tick: s.Tick, wallUs: s.WallUs, sequence: s.Keys.Sequence, lastFence: s.Keys.LastFence,
		stats: s.Stats, createdAt: s.Keys.CreatedAt, settings: s.Settings, users: s.Users, usersRev: s.UsersRev,
		library: s.Library.Copy(), functions: s.Functions.Copy(), waits: s.Waits.Frozen(), events: s.Events.Copy(),
		digest: s.Digest, keys: s.Keys.View(),
	}
	return f.write
}

func (f *frozen) write(dst io.Writer) error {
	w := value.NewWriter(dst)
	w.Raw(imageMagic)
	w.U64(imageVersion)
	w.Parts(0)
	for _, n := range []uint64{uint64(f.tick), uint64(f.wallUs), f.sequence, f.lastFence, uint64(f.stats.ExpiredKeys)} {
		w.U64(n)
	}
	for _, n := range f.createdAt {
		w.U64(n)
	}
	f.settings.Write(w)
	w.U64(f.usersRev)
	writeUsers(f.users, w)
	f.library.Write(w)
	f.functions.Write(w)
	f.keys.Write(w)
	f.waits.Write(w)
	f.events.Write(w)
	w.U64(uint64(f.digest))
	return w.Finish()
}

// Restore replaces the state by an image; see cluster.Machine. On an error, which is
// value.ErrDamaged where the image itself causes it, the state stays as it was.
func (m *Machine) Restore(src io.Reader) error {
	next := command.NewState(m.state.Scripts, m.state.Level)
	next.Keys.Generation = m.state.Keys.Generation + 1
	r := value.NewReader(src)
	readHeader(r)
	readClock(&next, r)
	next.Settings = settings.Read(r, next.Level)
	next.UsersRev = r.U64()
	next.Users = readUsers(r, command.Known(next.Level))
	next.Library = library.ReadScripts(r)
	next.Functions = library.ReadFunctions(r)
	next.Keys.Read(r, lifecycle.NamesHolder)
	next.Waits = wait.Read(r, command.Waitable(next.Level))
	next.Events = history.ReadLog(r)
	next.Digest = digest.Digest(r.U64())
	r.End()
	if err := r.Err(); err != nil {
		return err
	}
	*m = Machine{state: next}
	return nil
}

// Fork makes the state that of a new cluster, which goes on with it. Fences are above fence from now on. The
// waiters are gone with their nodes. A lock that is not known is granted after embargoMs of the log clock; 0: at once.
func (m *Machine) Fork(fence uint64, embargoMs int64) {
	s := &m.state
	s.Keys.LastFence = max(s.Keys.LastFence, fence)
	s.Waits = s.Waits.Cleared()
	until := int64(-1)
	if embargoMs > 0 {
		until = s.Tick + embargoMs
	}
	if next, err := s.Settings.With(s.Level, []string{settings.NameLockHold, strconv.FormatInt(until, 10), settings.NameFullDisks, ""}); err == nil {
		s.Settings = next
	}
}

func readClock(s *state.State, r *value.Reader) {
	s.Tick, s.WallUs = r.I64(), r.I64()
	s.Keys.Sequence, s.Keys.LastFence = r.U64(), r.U64()
	s.Stats.ExpiredKeys = r.I64()
	for i := range s.Keys.CreatedAt {
		s.Keys.CreatedAt[i] = r.U64()
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

func writeUsers(u *acl.Users, w *value.Writer) {
	w.U64(uint64(len(u.All())))
	for _, user := range u.All() {
		w.Text(user.Name)
		w.Text(user.Text())
	}
}

func readUsers(r *value.Reader, known *acl.Commands) *acl.Users {
	users, last := acl.NewUsers(known), ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		name, text := r.Text(), r.Text()
		user, err := acl.Read(known, name, text)
		if err != nil || name <= last || user.Text() != text {
			r.Fail("the rules of a user are not what was written")
			break
		}
		users, last = users.With(user), name
	}
	return users
}
