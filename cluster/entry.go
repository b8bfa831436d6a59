package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"lockd/cluster/membership"
	"lockd/resp"
)

// An entry of the log:
//
//	crc     4 bytes, CRC-32C of everything that follows, little endian
//	version 1 byte, entryVersion
//	kind    1 byte, entryBatch or entryRoster
//	parts   uvarint, a bit for each of those in brackets that is there
//	term    uvarint, the term its leader stamped it under
//	tick    varint, log clock in milliseconds
//	wall    varint, wall clock in microseconds
//	        entryBatch:  [checked: uvarint, and the digest of the state as of that entry, 8 bytes little endian]
//	                     [origins: the sessions that requests come from: their number, 8 bytes each, little endian]
//	                     n, then n requests, each as resp.AppendRequest writes it; without commands it is a recall.
//	                     With origins each stands after its own: uvarints, the place of its session counted from 1
//	                     and its number there (0, 0: it has none)
//	        entryRoster: one change as membership.AppendChange writes it
//
// A part that this lockd does not know is refused. So what an entry is to say one day (of locks that are held as long as
// their client is connected, that are capped, that keep a place in line) is a part of the entry, of a request or of a
// step, and needs no new version.
//
// A version, or a part, that nodes of the release before cannot read belongs to a new level (formatsSince), and is
// written while that is in force. Versions are only ever added. An entry has no magic: it lies in a data folder, or
// comes from a peer, and both say first that they are of a release (store.Meta, the hello).
const entryVersion = 1

// The parts of an entry, all of them of entryBatch.
const (
	entryChecked uint64 = 1 << iota
	entryOrigins
	entryParts = iota // how many there are
)

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

	reqs    []resp.Request    // entryBatch
	origins []origin          // of each of them; nil: none has one
	change  membership.Change // entryRoster
}

// appendEntry appends the binary form of e.
func appendEntry(dst []byte, e *entry) []byte {
	start := len(dst)
	parts, sessions := uint64(0), sessionsOf(e.origins)
	if e.kind == entryBatch && e.checked != 0 {
		parts |= entryChecked
	}
	if e.kind == entryBatch && len(sessions) > 0 {
		parts |= entryOrigins
	}
	dst = append(dst, 0, 0, 0, 0, entryVersion, e.kind)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, parts), e.term)
	dst = binary.AppendVarint(dst, e.tick)
	dst = binary.AppendVarint(dst, e.wall)
	if parts&entryChecked != 0 {
		dst = binary.LittleEndian.AppendUint64(binary.AppendUvarint(dst, e.checked), e.digest)
	}
	switch e.kind {
	case entryBatch:
		dst = appendRequests(dst, e, sessions)
	case entryRoster:
		dst = membership.AppendChange(dst, e.change)
	}
	setCRC(dst[start:])
	return dst
}

// appendRequests appends the requests of an entry, with their origins if they have any.
func appendRequests(dst []byte, e *entry, sessions []uint64) []byte {
	if len(sessions) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(sessions)))
	}
	for _, s := range sessions {
		dst = binary.LittleEndian.AppendUint64(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.reqs)))
	for i, req := range e.reqs {
		if len(sessions) > 0 {
			dst = binary.AppendUvarint(dst, uint64(slices.Index(sessions, e.origins[i].session)+1))
			dst = binary.AppendUvarint(dst, e.origins[i].number)
		}
		dst = resp.AppendRequest(dst, req)
	}
	return dst
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
	binary.LittleEndian.PutUint32(entry, crc32.Checksum(entry[4:], resp.CRC32C))
}

// entryHeaderMax bounds the bytes of an entry before its requests.
const entryHeaderMax = 4 + 2 + 6*binary.MaxVarintLen64 + 8

// originBytes are about those of a request's origin.
const originBytes = 16

// decodeEntry reads an entry. The strings in it alias b, which must not change any
// more. Every error wraps errEntry.
func decodeEntry(b []byte) (entry, error) {
	if len(b) < 6 {
		return entry{}, fmt.Errorf("%w: %d bytes are too few", errEntry, len(b))
	}
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], resp.CRC32C) {
		return entry{}, fmt.Errorf("%w: its checksum does not match", errEntry)
	}
	version := b[4]
	if version < 1 || version > entryVersion {
		return entry{}, fmt.Errorf("%w: format %d is unknown to this version of lockd, which reads up to %d",
			errEntry, version, entryVersion)
	}
	e := entry{kind: b[5]}
	f := entryReader{resp.NewDecoder(b[6:])}
	known := uint64(0)
	if e.kind == entryBatch {
		known = 1<<entryParts - 1
	}
	parts := f.Parts("an entry", known)
	e.term, e.tick, e.wall = f.Uvarint(), f.Varint(), f.Varint()
	switch e.kind {
	case entryBatch:
		if parts&entryChecked != 0 {
			e.checked, e.digest = f.checked()
		}
		e.reqs, e.origins = f.requests(parts&entryOrigins != 0)
	case entryRoster:
		e.change = membership.ReadChange(&f.Decoder)
	default:
		f.Fail("unknown kind")
	}
	if err := f.End(); err != nil {
		return entry{}, fmt.Errorf("%w: %w", errEntry, err)
	}
	return e, nil
}

// kindOf is the kind of an entry that is not decoded; of bytes that are none, any one.
func kindOf(b []byte) byte {
	if len(b) < 6 {
		return entryBatch
	}
	return b[5]
}

// entryReader reads the parts of an entry.
type entryReader struct{ resp.Decoder }

// checked reads the digest of a state, and as of which entry it is.
func (f *entryReader) checked() (index, digest uint64) {
	if index = f.Uvarint(); index == 0 {
		f.Fail("a digest as of no entry")
	}
	return index, f.Uint64()
}

// requests reads the requests of an entry, and their origins if they have any.
func (f *entryReader) requests(from bool) ([]resp.Request, []origin) {
	var sessions []uint64
	if from {
		sessions = f.sessions()
	}
	reqs := make([]resp.Request, f.Count(1))
	var origins []origin
	for i := range reqs {
		f.Item(1)
		if from {
			if o := f.origin(sessions); o.session != 0 {
				if origins == nil {
					origins = make([]origin, len(reqs))
				}
				origins[i] = o
			}
		}
		if reqs[i] = f.Request(); f.Err() != nil {
			return nil, nil
		}
	}
	return reqs, origins
}

// sessions reads the table of sessions.
func (f *entryReader) sessions() []uint64 {
	sessions := make([]uint64, f.Count(8))
	for i := range sessions {
		f.Item(8)
		sessions[i] = f.Uint64()
	}
	return sessions
}

// origin reads where a request comes from.
func (f *entryReader) origin(sessions []uint64) origin {
	place, number := f.Uvarint(), f.Uvarint()
	switch {
	case f.Err() != nil || place == 0 && number == 0:
		return origin{}
	case place == 0 || place > uint64(len(sessions)) || sessions[place-1] == 0 || number == 0:
		f.Fail("bad origin")
		return origin{}
	}
	return origin{session: sessions[place-1], number: number}
}

// origin names the attempt that a logged request belongs to. The zero value belongs to no attempt
// that anybody follows.
type origin struct {
	session uint64 // of the process that serves the client, drawn at random; 0: none
	number  uint64 // in that session, from 1; never given again
}
