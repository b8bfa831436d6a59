package value

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	checksum "hash"
	"hash/crc32"
	"io"
	"math"
	"unsafe"

	"lockd/resp"
)

// ErrDamaged is wrapped by each error that the bytes of an image cause.
var ErrDamaged = errors.New("keyspace: damaged image")

// Writer writes the parts of an image: numbers of 8 bytes, little-endian, and texts behind their lengths. After an
// error it writes nothing more, and Finish returns the error.
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

// OK reports whether there was no error yet, so that long loops can end early.
func (w *Writer) OK() bool { return w.err == nil }

// Finish writes the checksum of all that was written.
func (w *Writer) Finish() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := w.dst.Write(binary.LittleEndian.AppendUint32(nil, w.crc.Sum32()))
	return err
}

// Raw writes the bytes of s without a length.
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

// Parts writes which optional parts of a record follow, a bit for each, as a uvarint.
func (w *Writer) Parts(set uint64) {
	for ; set >= 0x80; set >>= 7 {
		w.Byte(byte(set) | 0x80)
	}
	w.Byte(byte(set))
}

// Text writes a string behind its length.
func (w *Writer) Text(s string) {
	w.U64(uint64(len(s)))
	w.Raw(s)
}

// Reader reads the parts of an image. After an error it reads nothing more and returns zero values, so callers check
// for an error once.
type Reader struct {
	Version uint64 // of the image, set by the reader of its head

	src    io.Reader
	buf    []byte
	at     int    // in buf: what was read ends here
	end    int    // in buf: what came from src ends here
	summed int    // in buf: what sum is of ends here
	sum    uint32 // CRC-32C
	err    error
}

// readerBytes is the number of bytes read from the source at once.
const readerBytes = 64 << 10

// NewReader begins to read.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, readerBytes)}
}

// Err returns the first error, or nil.
func (r *Reader) Err() error { return r.err }

// OK reports whether there was no error yet.
func (r *Reader) OK() bool { return r.err == nil }

// Fail records that the image is damaged, and why.
func (r *Reader) Fail(why string) { r.Stop(fmt.Errorf("%w: %s", ErrDamaged, why)) }

// Stop records an error, if it is the first.
func (r *Reader) Stop(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Raw reads all of b.
func (r *Reader) Raw(b []byte) {
	for len(b) > 0 {
		n := min(len(b), readerBytes)
		copy(b, r.next(n))
		b = b[n:]
	}
}

// next reads n bytes, at most readerBytes. They are valid until the next call.
func (r *Reader) next(n int) []byte {
	if r.err != nil || r.end-r.at < n && !r.fill(n) {
		return nothing[:n]
	}
	b := r.buf[r.at : r.at+n]
	r.at += n
	return b
}

// nothing has the zeros that are read after an error.
var nothing [readerBytes]byte

// fill reads until the buffer has n bytes. It adds them to the checksum, many at once.
func (r *Reader) fill(n int) bool {
	r.checksum()
	r.end = copy(r.buf, r.buf[r.at:r.end])
	r.at, r.summed = 0, 0
	got, err := io.ReadAtLeast(r.src, r.buf[r.end:], n-r.end)
	if r.end += got; err != nil {
		r.lost(err)
	}
	return err == nil
}

// checksum returns the checksum of all bytes that were read.
func (r *Reader) checksum() uint32 {
	r.sum = crc32.Update(r.sum, resp.CRC32C, r.buf[r.summed:r.at])
	r.summed = r.at
	return r.sum
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
	return binary.LittleEndian.Uint64(r.next(8))
}

// I64 reads a number with a sign.
func (r *Reader) I64() int64 { return int64(r.U64()) }

// Byte reads one byte.
func (r *Reader) Byte() byte { return r.next(1)[0] }

// Parts reads which optional parts of a record follow. It refuses a part that is not among those known.
func (r *Reader) Parts(record string, known uint64) (set uint64) {
	for shift := 0; ; shift += 7 {
		b := r.Byte()
		set |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift > 56 { // 64 bits, and more
			set = math.MaxUint64
			break
		}
	}
	if set&^known != 0 {
		r.Newer(record)
		return 0
	}
	return set
}

// Newer refuses a record with a part that this lockd does not know.
func (r *Reader) Newer(record string) {
	r.Stop(errors.New("keyspace: " + resp.NewerPart(record) + ", or it is damaged"))
}

// textStep is the number of bytes of a string that are read at once, so that a damaged length does not make the reader
// allocate much more than there is to read.
const textStep = 1 << 20

// Text reads a string into new memory.
func (r *Reader) Text() string { return r.textOf(r.U64()) }

// textOf reads a text of n bytes.
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

// TextIn is Text, but the string lies in buf if it fits: it is valid until buf is used again.
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
	want := r.checksum()
	if got := binary.LittleEndian.Uint32(r.next(4)); r.err == nil && got != want {
		r.Fail("its checksum is wrong")
	}
	if r.err != nil {
		return
	}
	if r.at < r.end {
		r.Fail("something follows its end")
		return
	}
	switch _, err := io.ReadFull(r.src, r.buf[:1]); {
	case err == nil:
		r.Fail("something follows its end")
	case err != io.EOF:
		r.lost(err)
	}
}
