package keyspace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	checksum "hash"
	"hash/crc32"
	"io"
	"unsafe"
)

// errImage is wrapped by every error that what is read causes itself.
var errImage = errors.New("keyspace: damaged image")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// imageWriter writes the parts of an image: numbers of 8 bytes, little-endian, and texts behind their
// length. After the first error it writes nothing more, and finish returns that error.
type imageWriter struct {
	dst io.Writer
	out *bufio.Writer // to dst and crc
	crc checksum.Hash32
	num [8]byte
	err error
}

// newImageWriter begins an image.
func newImageWriter(dst io.Writer) *imageWriter {
	crc := crc32.New(castagnoli)
	return &imageWriter{dst: dst, out: bufio.NewWriterSize(io.MultiWriter(dst, crc), 64<<10), crc: crc}
}

// ok reports whether there was no error yet: whoever writes much may end early.
func (w *imageWriter) ok() bool { return w.err == nil }

// finish writes the checksum of all that was written.
func (w *imageWriter) finish() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := w.dst.Write(binary.LittleEndian.AppendUint32(nil, w.crc.Sum32()))
	return err
}

// raw writes the bytes of s alone.
func (w *imageWriter) raw(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

// u64 writes a number.
func (w *imageWriter) u64(n uint64) {
	if w.err == nil {
		binary.LittleEndian.PutUint64(w.num[:], n)
		_, w.err = w.out.Write(w.num[:])
	}
}

// byte writes one byte.
func (w *imageWriter) byte(b byte) {
	if w.err == nil {
		w.err = w.out.WriteByte(b)
	}
}

// flag writes a byte that is 0 or 1.
func (w *imageWriter) flag(set bool) {
	if set {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

// text writes a string behind its length.
func (w *imageWriter) text(s string) {
	w.u64(uint64(len(s)))
	w.raw(s)
}

// imageReader reads the parts of an image. After the first error it reads nothing
// more and every value is zero, so its callers check for an error once.
type imageReader struct {
	in  *bufio.Reader
	crc checksum.Hash32
	num [8]byte
	err error
}

// newImageReader begins to read.
func newImageReader(src io.Reader) *imageReader {
	return &imageReader{in: bufio.NewReaderSize(src, 64<<10), crc: crc32.New(castagnoli)}
}

// fault is the first error, or nil.
func (r *imageReader) fault() error { return r.err }

// ok reports whether there was no error yet.
func (r *imageReader) ok() bool { return r.err == nil }

// fail says what is wrong with what was read.
func (r *imageReader) fail(why string) { r.stop(fmt.Errorf("%w: %s", errImage, why)) }

// stop makes err the error, if it is the first.
func (r *imageReader) stop(err error) {
	if r.err == nil {
		r.err = err
	}
}

// raw reads all of b.
func (r *imageReader) raw(b []byte) {
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

func (r *imageReader) lost(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.fail("cut short")
		return
	}
	r.stop(fmt.Errorf("keyspace: reading an image: %w", err))
}

// u64 reads a number.
func (r *imageReader) u64() uint64 {
	r.raw(r.num[:])
	return binary.LittleEndian.Uint64(r.num[:])
}

// i64 reads a number with a sign.
func (r *imageReader) i64() int64 { return int64(r.u64()) }

// byte reads one byte.
func (r *imageReader) byte() byte {
	r.raw(r.num[:1])
	return r.num[0]
}

// textStep is how much of a string is read at once: a damaged length may not make
// the reader allocate more than about what there is to read.
const textStep = 1 << 20

// text reads a string, into memory of its own.
func (r *imageReader) text() string { return r.textOf(r.u64()) }

// textOf is a text of n bytes.
func (r *imageReader) textOf(n uint64) string {
	if n <= textStep {
		b := make([]byte, n)
		r.raw(b)
		return string(b)
	}
	var b []byte
	for n > 0 && r.err == nil {
		step := min(n, textStep)
		b = append(b, make([]byte, step)...)
		r.raw(b[uint64(len(b))-step:])
		n -= step
	}
	return string(b)
}

// textIn is text, but the string lies in buf if it fits there: until buf is used again.
func (r *imageReader) textIn(buf []byte) string {
	n := r.u64()
	if n > uint64(len(buf)) {
		return r.textOf(n)
	}
	r.raw(buf[:n])
	return unsafe.String(unsafe.SliceData(buf), int(n))
}

// flag reads a byte that is 0 or 1.
func (r *imageReader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.fail("a flag that is neither set nor clear")
	}
	return b == 1
}

// end checks the checksum, and that nothing follows.
func (r *imageReader) end() {
	want := r.crc.Sum32()
	r.raw(r.num[:4])
	if r.err == nil && binary.LittleEndian.Uint32(r.num[:4]) != want {
		r.fail("its checksum is wrong")
	}
	if r.err != nil {
		return
	}
	if _, err := r.in.ReadByte(); err == nil {
		r.fail("something follows its end")
	} else if err != io.EOF {
		r.lost(err)
	}
}
