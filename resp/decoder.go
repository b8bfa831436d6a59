package resp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Decoder reads binary forms: of entries of the log, of messages between nodes, of what
// cluster writes into snapshots. After the first error it reads nothing more and every value
// is zero, so its users look at the error once. No input makes it panic or allocate more than
// the input's own size allows. Numbers are uvarints where nothing else is said.
type Decoder struct {
	rest []byte
	owed int // bytes of rest, at least, that announced items still need
	err  error

	cmds slab[Cmd]
	args slab[string]
}

// slab makes slices that live and die together. The first gets an allocation of its own. From then
// on the short ones, of which an entry of the log has many, share allocations.
type slab[T any] struct {
	free  []T
	share int // how many slices like the next one an allocation is for
}

// slabShare is how many slices share an allocation, and how long they are at most.
const slabShare = 8

func (s *slab[T]) take(n int) []T {
	if n > slabShare {
		return make([]T, n)
	}
	if s.free == nil || n > len(s.free) {
		s.free, s.share = make([]T, n*max(s.share, 1)), slabShare
	}
	items := s.free[:n:n]
	s.free = s.free[n:]
	return items
}

// NewDecoder reads b, which must not change any more: texts, bytes, requests and results alias it.
func NewDecoder(b []byte) Decoder { return Decoder{rest: b} }

// Err is the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Len is how many bytes are left to read; 0 after an error.
func (d *Decoder) Len() int { return len(d.rest) }

// End reports what was wrong, also that there is more than was read.
func (d *Decoder) End() error {
	if len(d.rest) > 0 {
		d.Fail("bytes left over")
	}
	return d.err
}

// Fail says what is wrong with what was read, if nothing was before.
func (d *Decoder) Fail(why string) {
	if d.err == nil {
		d.err = errors.New(why)
	}
	d.rest = nil
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.rest) == 0 {
		d.Fail("cut short")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// Uvarint reads a number.
func (d *Decoder) Uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.Fail("bad number")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// Parts reads which optional parts of a record follow, a bit for each. It refuses a part that is not among those known.
func (d *Decoder) Parts(record string, known uint64) uint64 {
	parts := d.Uvarint()
	if parts&^known != 0 {
		d.Fail(NewerPart(record))
		return 0
	}
	return parts
}

// NewerPart is the error text of a record with a part that this lockd does not know.
func NewerPart(record string) string {
	return record + " has a part that this lockd does not know: a newer one has written it"
}

// SaysDevelopment is what is said of data whose magic is that of the builds before the first release.
const SaysDevelopment = "was written by a development build before 0.1.0, whose data do not open"

// Varint reads a number with a sign.
func (d *Decoder) Varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.Fail("bad number")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// Uint64 reads a number of 8 bytes, little endian.
func (d *Decoder) Uint64() uint64 {
	if len(d.rest) < 8 {
		d.Fail("cut short")
		return 0
	}
	n := binary.LittleEndian.Uint64(d.rest)
	d.rest = d.rest[8:]
	return n
}

// Count reads how many items follow, each of at least itemMin bytes. It refuses
// more than the input has room for beside what was announced before, so that all
// counts together, nested ones too, cannot make the caller allocate more than the
// input's own size allows. Before each of them the caller says so with Item.
func (d *Decoder) Count(itemMin int) int {
	n := d.Uvarint()
	if room := len(d.rest) - d.owed; room < 0 || n > uint64(room/itemMin) {
		d.Fail("count exceeds the input")
		return 0
	}
	d.owed += int(n) * itemMin
	return int(n)
}

// Item says that one of the items is read now that Count has announced.
func (d *Decoder) Item(itemMin int) { d.owed -= itemMin }

// Bytes reads bytes behind their length; nil for none.
func (d *Decoder) Bytes() []byte {
	n := d.Uvarint()
	if n > uint64(len(d.rest)) {
		d.Fail("string exceeds the input")
		return nil
	}
	if n == 0 {
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// Text reads a string behind its length.
func (d *Decoder) Text() string {
	b := d.Bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// AppendText appends a string or bytes behind their length, as Text and Bytes read them.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// malformed reports whether there was an error, and has it wrap ErrBinary.
func (d *Decoder) malformed() bool {
	if d.err != nil {
		d.err = fmt.Errorf("%w: %w", ErrBinary, d.err)
	}
	return d.err != nil
}
