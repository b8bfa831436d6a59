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

// An image is the whole state as a stream of bytes. Equal states have equal images,
// so the hash of an image is the hash of the state.
//
//	image     magic version clock settings library functions 16 x database blocked digest crc
//	clock     tick wall sequence fence expired 1024 x createdAt
//	settings  n { name value }                    by name
//	library   turn n { sha source loaded turn }   by sha
//	functions n { source n { name described description flags } }   by name
//	database  swapped floor n { entry }           by position, key
//	entry     key fence version tick wall kind value
//	value     bytes | n [ids] { element }               ids of a stream
//	element   name value                          of a hash
//	          bytes                               of a list
//	          member                              of a set
//	          member score                        of a sorted set
//	          id n { field }                      of a stream
//	ids       last-id deleted-id added            an id is two numbers
//	blocked   seq session n { session } n { waiter }      by id
//	session   id until n { from to }
//	waiter    session number seq db end n { argument }
//
// Numbers are 8 bytes, little-endian, a score's those of IEEE 754; a string is its
// length and its bytes; kind, loaded, described and flags are one byte; crc is CRC-32C of all before it,
// 4 bytes. What an old lockd has written opens for ever: a change of the format is a
// new version, and a file of each version stays in testdata.
const (
	imageMagic   = "lockdkey"
	imageVersion = 5 // 2 had more kinds of value than 1; 3 has blocked; 4 has streams and functions; 5 has floor and the digest
)

// kindString is the kind of a string in an image; those of aggregates are in kinds.
const kindString = 0

// ErrImage is wrapped by every error of Restore that the image itself causes.
var ErrImage = errors.New("keyspace: damaged image")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frozen is the state at one moment: what Snapshot's function writes.
type frozen struct {
	tick, wallUs        int64
	sequence, lastFence uint64
	stats               stats
	createdAt           [watchBuckets]uint64
	settings            *settings
	library             library
	functions           functions
	dbs                 [databases]frozenDatabase
	blocked             blocked
	digest              digest
}

type frozenDatabase struct {
	swapped, floor uint64
	keys           keyTree
}

// Snapshot marks the present state and returns a function that writes its image;
// see cluster.Machine. It costs the same for any number of keys: trees are copied
// on write from here on, and the new generation has aggregates copied likewise.
func (m *Machine) Snapshot() func(io.Writer) error {
	m.generation++
	f := &frozen{
		tick: m.tick, wallUs: m.wallUs, sequence: m.sequence, lastFence: m.lastFence,
		stats: m.stats, createdAt: m.createdAt, settings: m.settings, library: m.library.copy(),
		functions: m.functions.copy(), blocked: m.blocked.copy(), digest: m.digest,
	}
	for i, d := range m.dbs {
		f.dbs[i] = frozenDatabase{swapped: d.swapped, floor: d.floor, keys: d.keys.copy()}
	}
	return f.write
}

func (f *frozen) write(dst io.Writer) error {
	crc := crc32.New(castagnoli)
	w := &imageWriter{out: bufio.NewWriterSize(io.MultiWriter(dst, crc), 64<<10)}
	w.raw(imageMagic)
	w.u64(imageVersion)
	for _, n := range []uint64{uint64(f.tick), uint64(f.wallUs), f.sequence, f.lastFence, uint64(f.stats.expiredKeys)} {
		w.u64(n)
	}
	for _, n := range f.createdAt {
		w.u64(n)
	}
	f.settings.write(w)
	f.library.write(w)
	f.functions.write(w)
	for _, d := range f.dbs {
		w.u64(d.swapped)
		w.u64(d.floor)
		w.u64(uint64(d.keys.len()))
		d.keys.each(func(e *entry) bool {
			e.write(w)
			return w.err == nil // a full disk ends it early
		})
	}
	f.blocked.write(w)
	w.u64(uint64(f.digest))
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := dst.Write(binary.LittleEndian.AppendUint32(nil, crc.Sum32()))
	return err
}

func (e *entry) write(w *imageWriter) {
	w.text(e.key())
	for _, n := range []uint64{e.fence, e.version, uint64(e.deadline.tick), uint64(e.deadline.wallMs)} {
		w.u64(n)
	}
	agg := e.agg()
	if agg == nil {
		w.byte(kindString)
		w.text(e.str())
		return
	}
	w.byte(agg.kind().image + byte(agg.form()))
	w.u64(uint64(agg.len()))
	agg.write(w)
}

// imageWriter writes the parts of an image. After the first error it writes nothing
// more, and Flush returns that error.
type imageWriter struct {
	out *bufio.Writer
	num [8]byte
	err error
}

func (w *imageWriter) raw(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

func (w *imageWriter) u64(n uint64) {
	if w.err == nil {
		binary.LittleEndian.PutUint64(w.num[:], n)
		_, w.err = w.out.Write(w.num[:])
	}
}

func (w *imageWriter) byte(b byte) {
	if w.err == nil {
		w.err = w.out.WriteByte(b)
	}
}

func (w *imageWriter) flag(set bool) {
	if set {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *imageWriter) text(s string) {
	w.u64(uint64(len(s)))
	w.raw(s)
}

// Restore replaces the state by an image; see cluster.Machine. On an error the
// state stays as it was.
func (m *Machine) Restore(src io.Reader) error {
	next := New(m.scripts)
	next.generation = m.generation + 1
	r := &imageReader{in: bufio.NewReaderSize(src, 64<<10), crc: crc32.New(castagnoli)}
	version := r.header()
	next.readClock(r)
	next.settings = readSettings(r)
	next.library = readLibrary(r)
	if version >= 4 {
		next.functions = readFunctions(r)
	}
	for db := range next.dbs {
		next.readDatabase(r, db, version)
	}
	if version >= 3 {
		next.readBlocked(r)
	}
	if version >= 5 {
		next.digest = digest(r.u64())
	}
	r.end()
	if r.err != nil {
		return r.err
	}
	*m = *next
	return nil
}

func (m *Machine) readClock(r *imageReader) {
	m.tick, m.wallUs = r.i64(), r.i64()
	m.sequence, m.lastFence = r.u64(), r.u64()
	m.stats.expiredKeys = r.i64()
	for i := range m.createdAt {
		m.createdAt[i] = r.u64()
	}
}

func (m *Machine) readDatabase(r *imageReader, db int, version uint64) {
	d := m.dbs[db]
	d.swapped = r.u64()
	if version >= 5 {
		if d.floor = r.u64(); d.floor > m.lastFence {
			r.fail("a database has a fence that was not given")
		}
	}
	var last keyLeaf
	var leases []lease
	for n := r.u64(); n > 0 && r.err == nil; n-- {
		e := m.readEntry(r)
		next := keyLeafOf(e)
		if last.entry != nil && !keyLess(last, next) {
			r.fail("keys are not in order")
		}
		if e.fence > m.lastFence || e.version > m.sequence {
			r.fail("a key is newer than the clock")
		}
		if r.err == nil {
			d.load(e)
		}
		if e.deadline.set() {
			leases = append(leases, leaseOf(e))
		}
		last = next
	}
	d.loadLeases(leases)
}

func (m *Machine) readEntry(r *imageReader) *entry {
	key, fence, version := r.shortText(&r.key), r.u64(), r.u64()
	until := deadline{tick: r.i64(), wallMs: r.i64()}
	if !until.set() && until != never {
		r.fail("a deadline that is none")
	}
	var v value
	if kind := r.byte(); kind == kindString {
		v = freshValue(r.shortText(&r.str))
	} else if agg := readAggregate(r, kind, m.generation); agg != nil {
		v = aggregateValue(agg)
	}
	e := newEntry(key, nil, v, until)
	e.fence, e.version = fence, version
	return e
}

// readAggregate reads an aggregate of a kind byte; nil only where it fails.
func readAggregate(r *imageReader, b byte, generation uint64) aggregate {
	k, form := kindOfImage(b)
	if k == nil {
		r.fail("a value of unknown kind")
		return nil
	}
	n := r.u64()
	if n == 0 && !k.keepsEmpty {
		r.fail("an empty " + k.name)
	}
	return k.read(r, n, form, generation)
}

// imageReader reads the parts of an image. After the first error it reads nothing
// more and every value is zero, so its callers check err once.
type imageReader struct {
	in  *bufio.Reader
	crc checksum.Hash32
	num [8]byte
	err error

	key, str [inlineMax]byte // of the entry that is being read
}

func (r *imageReader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrImage, why)
	}
}

// fill reads all of b.
func (r *imageReader) fill(b []byte) {
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
	if r.err == nil {
		r.err = fmt.Errorf("keyspace: reading an image: %w", err)
	}
}

func (r *imageReader) u64() uint64 {
	r.fill(r.num[:])
	return binary.LittleEndian.Uint64(r.num[:])
}

func (r *imageReader) i64() int64 { return int64(r.u64()) }

func (r *imageReader) byte() byte {
	r.fill(r.num[:1])
	return r.num[0]
}

// textStep is how much of a string is read at once: a damaged length may not make
// the reader allocate more than about what there is to read.
const textStep = 1 << 20

func (r *imageReader) text() string { return r.textOf(r.u64()) }

// textOf is a text of n bytes.
func (r *imageReader) textOf(n uint64) string {
	if n <= textStep {
		b := make([]byte, n)
		r.fill(b)
		return string(b)
	}
	var b []byte
	for n > 0 && r.err == nil {
		step := min(n, textStep)
		b = append(b, make([]byte, step)...)
		r.fill(b[uint64(len(b))-step:])
		n -= step
	}
	return string(b)
}

// shortText is text, in buf if it fits there: for what newEntry copies.
func (r *imageReader) shortText(buf *[inlineMax]byte) string {
	n := r.u64()
	if n > uint64(len(buf)) {
		return r.textOf(n)
	}
	r.fill(buf[:n])
	return unsafe.String(&buf[0], int(n))
}

// flag is a byte that is 0 or 1.
func (r *imageReader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.fail("a flag that is neither set nor clear")
	}
	return b == 1
}

func (r *imageReader) header() (version uint64) {
	var magic [len(imageMagic)]byte
	r.fill(magic[:])
	version = r.u64()
	switch {
	case r.err != nil:
	case string(magic[:]) != imageMagic:
		r.fail("this is no image of lockd's keyspace")
	case version == 0 || version > imageVersion:
		r.err = fmt.Errorf("keyspace: the image has version %d, this lockd reads up to version %d", version, imageVersion)
	}
	return version
}

// end checks the checksum, and that nothing follows.
func (r *imageReader) end() {
	want := r.crc.Sum32()
	r.fill(r.num[:4])
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
