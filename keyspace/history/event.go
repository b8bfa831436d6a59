package history

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"lockd/resp"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of event. Their numbers are in images.
const (
	None        Kind = iota
	Granted          // a token got the lock
	Released         // a token gave it up
	Expired          // its lease ended
	Deleted          // somebody deleted the key
	Overwritten      // somebody stored something else
	Forced           // LOCKS FORCE
	Moved            // RENAME, MOVE: the key has another name now
	Flushed          // FLUSHALL, FLUSHDB: all locks of the database
	Swapped          // SWAPDB: all locks of the database are in another one
	GaveUp           // the time of a wait was over
	Left             // a wait was ended by UNLOCK
	Gone             // the client that waited was gone
	Replaced         // another connection waits with the token
	Refused          // a wait ended with an error

	Kinds // how many there are, with None
)

var kindNames = [Kinds]string{
	"", "granted", "released", "expired", "deleted", "overwritten", "forced", "moved", "flushed", "swapped",
	"gave-up", "left", "gone", "replaced", "refused",
}

func (k Kind) String() string { return kindNames[k] }

// Ends reports whether an event of this kind ends the hold of a token.
func (k Kind) Ends() bool { return k >= Released && k <= Swapped }

// EndsAll reports whether an event of this kind is about a whole database, and ends the holds of all its locks. It has no
// key; but a lock's key may be empty, too.
func (k Kind) EndsAll() bool { return k == Flushed || k == Swapped }

// Event is one event. Fields that its kind does not have are zero.
type Event struct {
	Number       uint64 // in the log; not in the record
	Kind         Kind
	DB           int
	Tick, WallMs int64
	Key, Token   string
	Owner, Note  string
	Fence        uint64
	Permits      int64       // SharedPermits; 0: exclusive
	By           string      // the command, in lower case; "": none
	Script       bool        // that a script called
	Client       resp.Sender // that sent it, if that is known
	Reason       string      // of LOCKS FORCE; the error of a wait
	WaitedMs     int64       // of a grant, or a wait
	HeldMs       int64       // how long the token had it
	LeaseMs      int64       // as it was last begun
	Renewals     uint64
	RenewedMs    int64 // when the lease was renewed last, since 1970; 0: never
	OtherDB      int   // Swapped
}

// SharedPermits are the permits of an event of a lock that is SHARED.
const SharedPermits = -1

// databases is the number of databases of the machine; a record that names another one is damaged.
const databases = 16

// The parts of a record.
const (
	partScript uint64 = 1 << iota // a script called the command
	partClient
	partsCount = iota // how many there are
)

// size returns an upper bound of the bytes of the record.
func (e *Event) size() int {
	return 2 + 19*binary.MaxVarintLen64 + len(e.Key) + len(e.Token) + len(e.Owner) + len(e.Note) + len(e.By) + len(e.Reason) +
		len(e.Client)
}

// Append writes a record: kind, a byte; parts, a uvarint; varints and texts.
func Append(dst []byte, e *Event) []byte {
	parts := uint64(0)
	if e.Script {
		parts |= partScript
	}
	if e.Client != "" {
		parts |= partClient
	}
	dst = binary.AppendUvarint(append(dst, byte(e.Kind)), parts)
	for _, n := range [...]uint64{uint64(e.DB), uint64(e.OtherDB), e.Fence, e.Renewals} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, n := range [...]int64{e.Tick, e.WallMs, e.Permits, e.WaitedMs, e.HeldMs, e.LeaseMs, e.RenewedMs} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, s := range [...]string{e.Key, e.Token, e.Owner, e.Note, e.By, e.Reason} {
		dst = resp.AppendText(dst, s)
	}
	return append(dst, e.Client...)
}

// Read reads a record. Its strings alias it.
func Read(record []byte) (e Event, err error) {
	d := resp.NewDecoder(record)
	e.Kind = Kind(d.Byte())
	parts := d.Parts("an event", 1<<partsCount-1)
	db, other := d.Uvarint(), d.Uvarint()
	e.Fence, e.Renewals = d.Uvarint(), d.Uvarint()
	for _, n := range [...]*int64{&e.Tick, &e.WallMs, &e.Permits, &e.WaitedMs, &e.HeldMs, &e.LeaseMs, &e.RenewedMs} {
		*n = d.Varint()
	}
	for _, s := range [...]*string{&e.Key, &e.Token, &e.Owner, &e.Note, &e.By, &e.Reason} {
		*s = d.Text()
	}
	if e.Script = parts&partScript != 0; parts&partClient != 0 {
		e.Client = d.Sender()
	}
	if e.Kind >= Kinds {
		d.Fail(resp.NewerPart("an event"))
	}
	if e.Kind == None || db >= databases || other >= databases {
		d.Fail("an event that can not be")
	}
	e.DB, e.OtherDB = int(db), int(other)
	return e, d.End()
}

// Hash returns the hash by which a log finds the events of a key; it is never 0.
func Hash(key string) uint32 { return max(uint32(xxh3.HashString(key)), 1) }

// hash returns the hash of the event's key; 0: the event is about a whole database.
func (e *Event) hash() uint32 {
	if e.Kind.EndsAll() {
		return 0
	}
	return Hash(e.Key)
}

// Grant names a grant by its fence and its token: those of a hash have one fence.
type Grant struct {
	Fence uint64
	Token string
}

// Grant returns the grant by which the token had the lock.
func (e *Event) Grant() Grant { return Grant{e.Fence, e.Token} }

// Copy returns a copy of the event to keep: a visit uses its event again.
func (e *Event) Copy() *Event {
	c := *e
	return &c
}
