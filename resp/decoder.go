package resp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Decoder reads binary forms: log entries, messages between nodes, and what cluster writes into snapshots. After the
// first error it reads nothing more and every value is zero, so callers check the error once. No input makes it
// panic, or allocate more than the size of the input allows. Numbers are uvarints unless stated otherwise.
type Decoder struct {
	rest     []byte
	reserved int // bytes of rest that announced items need at least
	err      error

	cmds slab[Cmd]
	args slab[string]
}

// slab makes slices that live and die together. The first has its own allocation; after it, slices of up to slabShare
// items share allocations.
type slab[T any] struct {
	free  []T
	share int // how many slices of the next one's length to allocate at once
}

// slabShare is the number of slices that share an allocation, and the length of the longest of them.
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

// NewDecoder returns a decoder of b, which must not change afterwards: texts, bytes, requests and results alias it.
func NewDecoder(b []byte) Decoder { return Decoder{rest: b} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Len returns the number of bytes left to read; 0 after an error.
func (d *Decoder) Len() int { return len(d.rest) }

// End returns the first error; bytes left over are one, too.
func (d *Decoder) End() error {
	if len(d.rest) > 0 {
		d.Fail("bytes left over")
	}
	return d.err
}

// Fail sets the error, unless there is one already, and stops reading.
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

// Parts reads the bits of the optional parts that a record has. It fails on a bit outside known.
func (d *Decoder) Parts(record string, known uint64) uint64 {
	parts := d.Uvarint()
	if parts&^known != 0 {
		d.Fail(NewerPart(record))
		return 0
	}
	return parts
}

// NewerPart returns the error text for a record with a part that this lockd does not know.
func NewerPart(record string) string {
	return record + " has a part that this lockd does not know: a newer one has written it"
}

// SaysDevelopment is the error text for data whose magic is that of builds before the first release.
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

// Count reads how many items follow, each of at least itemMin bytes. It refuses more than the input has room for
// after the items announced before, so that all counts together, nested ones included, cannot make the caller
// allocate more than the size of the input allows. The caller calls Item before it reads each of them.
func (d *Decoder) Count(itemMin int) int {
	n := d.Uvarint()
	if room := len(d.rest) - d.reserved; room < 0 || n > uint64(room/itemMin) {
		d.Fail("count exceeds the input")
		return 0
	}
	d.reserved += int(n) * itemMin
	return int(n)
}

// Item takes one item off the number that Count has announced.
func (d *Decoder) Item(itemMin int) { d.reserved -= itemMin }

// int63 reads a number that fits an int64.
func (d *Decoder) int63() int64 {
	n := d.Uvarint()
	if n > math.MaxInt64 {
		d.Fail("number out of range")
		return 0
	}
	return int64(n)
}

// database reads the number of a database.
func (d *Decoder) database() int {
	n := d.Uvarint()
	if n > databaseMax {
		d.Fail("number out of range")
		return 0
	}
	return int(n)
}

// Bytes reads a length and that many bytes; nil if there are none.
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

// Text reads a length and a string of that many bytes.
func (d *Decoder) Text() string {
	b := d.Bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// AppendText appends the length of s, then s, as Text and Bytes read them.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// malformed reports whether there was an error, and makes it wrap ErrBinary.
func (d *Decoder) malformed() bool {
	if d.err != nil {
		d.err = fmt.Errorf("%w: %w", ErrBinary, d.err)
	}
	return d.err != nil
}
