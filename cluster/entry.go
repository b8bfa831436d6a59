package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"lockd/resp"
)

// An entry of the log:
//
//	crc     4 bytes, CRC-32C of everything that follows, little endian
//	version 1 byte, entryVersion or an older one
//	kind    1 byte, entryBatch or entryRoster
//	term    uvarint, the term its leader stamped it under
//	tick    varint, log clock in milliseconds
//	wall    varint, wall clock in microseconds
//	        entryBatch:  checked uvarint, and the digest of the state as of that entry, 8 bytes
//	                     little endian, if checked is not 0;
//	                     the sessions that requests come from: their number, 8 bytes
//	                     each, little endian; n, then n requests, each after its
//	                     origin: uvarints, the place of its session counted from 1
//	                     and its number there (0, 0: it has none), then as
//	                     resp.AppendRequest writes it; without commands it is a recall
//	        entryRoster: one change as appendRosterChange writes it
//
// Old versions are read for ever: a version is only ever added. Version 1 has
// requests that do not say whether they are transactions. Before version 3 an entry has no
// digest, its requests do not say where they come from, and its commands may be unknown.
// Before version 4 commands stood for what fields of a request say now; see fromCommands.
const entryVersion = 4

// The kinds of entry.
const (
	entryBatch  = 0 // requests of clients; none at all is a tick, which only lets leases end
	entryRoster = 1 // who the members are
)

// Limits of entries and requests, in bytes.
const (
	// entryBytesMax bounds what the proposer joins into one entry. A larger entry
	// would keep followers from the heartbeats behind it.
	entryBytesMax = 512 << 10
	// entryOpsMax bounds how many requests share an entry.
	entryOpsMax = 4096
	// RequestBytesMax bounds a single request, which may be an entry of its own.
	RequestBytesMax = 16 << 20
)

// errEntry is wrapped by every error about an entry that cannot be read.
var errEntry = errors.New("unreadable log entry")

// entry is one entry of the log, decoded.
type entry struct {
	kind byte
	term uint64
	tick int64
	wall int64

	checked, digest uint64 // entryBatch: the state's digest as of the entry checked; 0: none

	reqs    []resp.Request // entryBatch
	origins []origin       // of each of them; nil: none has one
	change  rosterChange   // entryRoster
}

// appendEntry appends the binary form of e.
func appendEntry(dst []byte, e *entry) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, entryVersion, e.kind)
	dst = binary.AppendUvarint(dst, e.term)
	dst = binary.AppendVarint(dst, e.tick)
	dst = binary.AppendVarint(dst, e.wall)
	switch e.kind {
	case entryBatch:
		dst = appendChecked(dst, e)
		dst = appendRequests(dst, e)
	case entryRoster:
		dst = appendRosterChange(dst, e.change)
	}
	setCRC(dst[start:])
	return dst
}

func appendChecked(dst []byte, e *entry) []byte {
	dst = binary.AppendUvarint(dst, e.checked)
	if e.checked != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, e.digest)
	}
	return dst
}

// appendRequests appends the requests of an entry, with their origins.
func appendRequests(dst []byte, e *entry) []byte {
	sessions := sessionsOf(e.origins)
	dst = binary.AppendUvarint(dst, uint64(len(sessions)))
	for _, s := range sessions {
		dst = binary.LittleEndian.AppendUint64(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.reqs)))
	for i, req := range e.reqs {
		from := e.origin(i)
		dst = binary.AppendUvarint(dst, uint64(slices.Index(sessions, from.session)+1))
		dst = binary.AppendUvarint(dst, from.number)
		dst = resp.AppendRequest(dst, req)
	}
	return dst
}

// origin is that of a request.
func (e *entry) origin(i int) origin {
	if e.origins == nil {
		return origin{}
	}
	return e.origins[i]
}

// sessionsOf lists the sessions of an entry, of which there are as many as nodes.
func sessionsOf(origins []origin) []uint64 {
	var sessions []uint64
	for _, o := range origins {
		if o.session != 0 && !slices.Contains(sessions, o.session) {
			sessions = append(sessions, o.session)
		}
	}
	return sessions
}

func setCRC(entry []byte) {
	binary.LittleEndian.PutUint32(entry, crc32.Checksum(entry[4:], castagnoli))
}

// entryHeaderMax bounds the bytes of an entry before its requests.
const entryHeaderMax = 4 + 2 + 5*binary.MaxVarintLen64 + 8

// originBytes are about those of a request's origin.
const originBytes = 16

// decodeEntry reads an entry. The strings in it alias b, which must not change any
// more. Every error wraps errEntry.
func decodeEntry(b []byte) (entry, error) {
	if len(b) < 6 {
		return entry{}, fmt.Errorf("%w: %d bytes are too few", errEntry, len(b))
	}
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return entry{}, fmt.Errorf("%w: its checksum does not match", errEntry)
	}
	version := b[4]
	if version < 1 || version > entryVersion {
		return entry{}, fmt.Errorf("%w: format %d is unknown to this version of lockd, which reads up to %d", errEntry, version, entryVersion)
	}
	e := entry{kind: b[5]}
	f := fields{rest: b[6:]}
	e.term, e.tick, e.wall = f.uvarint(), f.varint(), f.varint()
	switch e.kind {
	case entryBatch:
		if version >= 3 {
			e.checked, e.digest = f.checked()
		}
		e.reqs, e.origins = f.requests(version)
	case entryRoster:
		e.change = f.rosterChange()
	default:
		f.fail("unknown kind")
	}
	if err := f.end(); err != nil {
		return entry{}, fmt.Errorf("%w: %w", errEntry, err)
	}
	return e, nil
}

// fields reads the parts of a binary form. After the first error it reads nothing
// more and every value is zero, so that callers check err once.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) fail(why string) {
	if f.err == nil {
		f.err = errors.New(why)
	}
	f.rest = nil
}

// end reports what was wrong, also that there is more than was read.
func (f *fields) end() error {
	if f.err == nil && len(f.rest) > 0 {
		f.fail("bytes left over")
	}
	return f.err
}

func (f *fields) uvarint() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.fail("bad number")
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) varint() int64 {
	n, size := binary.Varint(f.rest)
	if size <= 0 {
		f.fail("bad number")
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

// checked reads what appendChecked writes.
func (f *fields) checked() (index, digest uint64) {
	if index = f.uvarint(); index == 0 {
		return 0, 0
	}
	if len(f.rest) < 8 {
		f.fail("no digest")
		return 0, 0
	}
	digest = binary.LittleEndian.Uint64(f.rest)
	f.rest = f.rest[8:]
	return index, digest
}

// count reads how many items follow, each of at least one byte, so that a count
// can never make the caller allocate more than the input's own size allows.
func (f *fields) count() int {
	n := f.uvarint()
	if n > uint64(len(f.rest)) {
		f.fail("count exceeds the input")
		return 0
	}
	return int(n)
}

// text reads a string and copies it: what roster keeps must not hold an entry.
func (f *fields) text() string {
	n := f.count()
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}

// bytes reads bytes that alias the input; nil for none.
func (f *fields) bytes() []byte {
	n := f.count()
	if n == 0 {
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) texts() []string {
	n := f.count()
	if n == 0 {
		return nil
	}
	items := make([]string, n)
	for i := range items {
		items[i] = f.text()
	}
	return items
}

// requests reads the requests of an entry, and their origins.
func (f *fields) requests(version byte) ([]resp.Request, []origin) {
	decode := resp.DecodeRequest
	if version == 1 {
		decode = resp.DecodeOldRequest
	}
	var sessions []uint64
	if version >= 3 {
		sessions = f.sessions()
	}
	reqs := make([]resp.Request, f.count())
	var origins []origin
	for i := range reqs {
		if version >= 3 {
			if from := f.origin(sessions); from.session != 0 {
				origins = append(origins, make([]origin, i+1-len(origins))...)
				origins[i] = from
			}
		}
		req, rest, err := decode(f.rest)
		if f.err == nil {
			f.err = err
		}
		if f.err != nil {
			f.rest = nil
			return nil, nil
		}
		if version < 4 {
			req = fromCommands(req)
		}
		reqs[i], f.rest = req, rest
	}
	if origins != nil {
		origins = append(origins, make([]origin, len(reqs)-len(origins))...)
	}
	return reqs, origins
}

// sessions reads the table of sessions.
func (f *fields) sessions() []uint64 {
	n := f.count()
	if n > len(f.rest)/8 {
		f.fail("count exceeds the input")
		return nil
	}
	sessions := make([]uint64, n)
	for i := range sessions {
		sessions[i] = binary.LittleEndian.Uint64(f.rest)
		f.rest = f.rest[8:]
	}
	return sessions
}

// origin reads where a request comes from.
func (f *fields) origin(sessions []uint64) origin {
	place, number := f.uvarint(), f.uvarint()
	switch {
	case f.err != nil || place == 0 && number == 0:
		return origin{}
	case place == 0 || place > uint64(len(sessions)) || sessions[place-1] == 0 || number == 0:
		f.fail("bad origin")
		return origin{}
	}
	return origin{session: sessions[place-1], number: number}
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendTexts(dst []byte, items []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(items)))
	for _, s := range items {
		dst = appendText(dst, s)
	}
	return dst
}
