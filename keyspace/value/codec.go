package value

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	checksum "hash"
	"hash/crc32"
	"io"
	"unsafe"

	"lockd/resp"
)

// ErrDamaged is wrapped by every error that what is read causes itself.
var ErrDamaged = errors.New("keyspace: damaged image")

// Writer writes the parts of an image: numbers of 8 bytes, little-endian, and texts behind their
// length. After the first error it writes nothing more, and Finish returns that error.
type Writer struct {
	dst io.Writer
	out *bufio.Writer // to dst and crc
	crc checksum.Hash32
	num [8]byte
	err error
}

// NewWriter begins an image.
func NewWriter(dst io.Writer) *Writer {
	crc := crc32.New(resp.CRC32C)
	return &Writer{dst: dst, out: bufio.NewWriterSize(io.MultiWriter(dst, crc), 64<<10), crc: crc}
}

// OK reports whether there was no error yet: whoever writes much may end early.
func (w *Writer) OK() bool { return w.err == nil }

// Finish writes the checksum of all that was written.
func (w *Writer) Finish() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := w.dst.Write(binary.LittleEndian.AppendUint32(nil, w.crc.Sum32()))
	return err
}

// Raw writes the bytes of s alone.
func (w *Writer) Raw(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

// U64 writes a number.
func (w *Writer) U64(n uint64) {
	if w.err == nil {
		binary.LittleEndian.PutUint64(w.num[:], n)
		_, w.err = w.out.Write(w.num[:])
	}
}

// Byte writes one byte.
func (w *Writer) Byte(b byte) {
	if w.err == nil {
		w.err = w.out.WriteByte(b)
	}
}

// Flag writes a byte that is 0 or 1.
func (w *Writer) Flag(set bool) {
	if set {
		w.Byte(1)
	} else {
		w.Byte(0)
	}
}

// Text writes a string behind its length.
func (w *Writer) Text(s string) {
	w.U64(uint64(len(s)))
	w.Raw(s)
}

// Reader reads the parts of an image. After the first error it reads nothing
// more and every value is zero, so its callers check for an error once.
type Reader struct {
	Version uint64 // of the image, as who reads its head has found it

	in  *bufio.Reader
	crc checksum.Hash32
	num [8]byte
	err error
}

// NewReader begins to read.
func NewReader(src io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(src, 64<<10), crc: crc32.New(resp.CRC32C)}
}

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// OK reports whether there was no error yet.
func (r *Reader) OK() bool { return r.err == nil }

// Fail says what is wrong with what was read.
func (r *Reader) Fail(why string) { r.Stop(fmt.Errorf("%w: %s", ErrDamaged, why)) }

// Stop makes err the error, if it is the first.
func (r *Reader) Stop(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Raw reads all of b.
func (r *Reader) Raw(b []byte) {
	if r.err != nil {
		clear(b)
		return
	}
	if _, err := io.ReadFull(r.in, b); err != nil {
		clear(b)
		r.lost(err)
		return
	}
	r.crc.Write(b)
}

func (r *Reader) lost(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.Fail("cut short")
		return
	}
	r.Stop(fmt.Errorf("keyspace: reading an image: %w", err))
}

// U64 reads a number.
func (r *Reader) U64() uint64 {
	r.Raw(r.num[:])
	return binary.LittleEndian.Uint64(r.num[:])
}

// I64 reads a number with a sign.
func (r *Reader) I64() int64 { return int64(r.U64()) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	r.Raw(r.num[:1])
	return r.num[0]
}

// textStep is how much of a string is read at once: a damaged length may not make
// the reader allocate more than about what there is to read.
const textStep = 1 << 20

// Text reads a string, into memory of its own.
func (r *Reader) Text() string { return r.textOf(r.U64()) }

// textOf is a text of n bytes.
func (r *Reader) textOf(n uint64) string {
	if n <= textStep {
		b := make([]byte, n)
		r.Raw(b)
		return string(b)
	}
	var b []byte
	for n > 0 && r.err == nil {
		step := min(n, textStep)
		b = append(b, make([]byte, step)...)
		r.Raw(b[uint64(len(b))-step:])
		n -= step
	}
	return string(b)
}

// TextIn is text, but the string lies in buf if it fits there: until buf is used again.
func (r *Reader) TextIn(buf []byte) string {
	n := r.U64()
	if n > uint64(len(buf)) {
		return r.textOf(n)
	}
	r.Raw(buf[:n])
	return unsafe.String(unsafe.SliceData(buf), int(n))
}

// Flag reads a byte that is 0 or 1.
func (r *Reader) Flag() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail("a flag that is neither set nor clear")
	}
	return b == 1
}

// End checks the checksum, and that nothing follows.
func (r *Reader) End() {
	want := r.crc.Sum32()
	r.Raw(r.num[:4])
	if r.err == nil && binary.LittleEndian.Uint32(r.num[:4]) != want {
		r.Fail("its checksum is wrong")
	}
	if r.err != nil {
		return
	}
	if _, err := r.in.ReadByte(); err == nil {
		r.Fail("something follows its end")
	} else if err != io.EOF {
		r.lost(err)
	}
}
