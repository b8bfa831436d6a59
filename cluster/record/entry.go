// Package record defines the stored forms of the cluster's state: an entry of the log, and the head of an image. It
// does not know nodes. Files of each version in testdata check it, and open for ever.
//
//	entry.go      an entry of the log, and the origins of its requests
//	imagehead.go  the part of a snapshot before the machine's image
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"lockd/cluster/membership"
	"lockd/resp"
)

// Version is the version of the form in which entries are written. An entry of the log:
//
//	crc     4 bytes, CRC-32C of everything that follows, little endian
//	version 1 byte, Version
//	kind    1 byte, Batch or Roster
//	parts   uvarint, a bit for each part in brackets that is there
//	term    uvarint, the term its leader stamped it under
//	tick    varint, log clock in milliseconds
//	wall    varint, wall clock in microseconds
//	        Batch:  [checked: uvarint, and the digest of the state as of that entry, 8 bytes little endian]
//	                [origins: the sessions that requests come from: their number, 8 bytes each, little endian]
//	                n, then n requests, each as resp.AppendRequest writes it; without commands it is a recall.
//	                With origins each stands after its own: uvarints, the place of its session counted from 1
//	                and its number there (0, 0: it has none)
//	        Roster: one change as membership.AppendChange writes it
//
// A part that this lockd does not know is refused. So future data of an entry (about locks bound to a connection, with
// a bound, or with a kept place in line) becomes a part of the entry, of a request or of a step, and needs no new
// version.
//
// A version, or a part, that nodes of the release before cannot read belongs to a new level (formatsSince of cluster),
// and is written while that level is in force. Versions are only ever added. An entry has no magic: it lies in a data
// folder, or comes from a peer, and both identify themselves as of a release (store.Meta, the hello).
const Version = 1

// The parts of an entry, all of them of Batch.
const (
	entryChecked uint64 = 1 << iota
	entryOrigins
	entryParts = iota // the number of parts
)

// The kinds of entry.
const (
	Batch  = 0 // requests of clients; none at all is a tick, which only lets leases end
	Roster = 1 // a change of the members
)

// Limits of entries and requests, in bytes.
const (
	// BatchBytesMax bounds the requests that are joined into one entry. A larger entry would delay the heartbeats
	// behind it.
	BatchBytesMax = 512 << 10
	// BatchRequestsMax bounds the number of requests that share an entry.
	BatchRequestsMax = 4096
	// RequestBytesMax bounds a single request, which may be an entry of its own.
	RequestBytesMax = 16 << 20
)

// ErrEntry is wrapped by every error about an unreadable entry.
var ErrEntry = errors.New("unreadable log entry")

// Entry is one entry of the log, decoded.
type Entry struct {
	Kind byte
	Term uint64
	Tick int64
	Wall int64

	Checked, Digest uint64 // Batch: the state's digest as of the entry checked; 0: none

	Reqs    []resp.Request    // Batch
	Origins []Origin          // of each of them; nil: none has one
	Change  membership.Change // Roster
}

// Append appends the binary form of an entry.
func Append(dst []byte, e *Entry) []byte {
	start := len(dst)
	parts, sessions := uint64(0), sessionsOf(e.Origins)
	if e.Kind == Batch && e.Checked != 0 {
		parts |= entryChecked
	}
	if e.Kind == Batch && len(sessions) > 0 {
		parts |= entryOrigins
	}
	dst = append(dst, 0, 0, 0, 0, Version, e.Kind)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, parts), e.Term)
	dst = binary.AppendVarint(dst, e.Tick)
	dst = binary.AppendVarint(dst, e.Wall)
	if parts&entryChecked != 0 {
		dst = binary.LittleEndian.AppendUint64(binary.AppendUvarint(dst, e.Checked), e.Digest)
	}
	switch e.Kind {
	case Batch:
		dst = appendRequests(dst, e, sessions)
	case Roster:
		dst = membership.AppendChange(dst, e.Change)
	}
	setCRC(dst[start:])
	return dst
}

// appendRequests appends the requests of an entry, with their origins if they have any.
func appendRequests(dst []byte, e *Entry, sessions []uint64) []byte {
	if len(sessions) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(sessions)))
	}
	for _, s := range sessions {
		dst = binary.LittleEndian.AppendUint64(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.Reqs)))
	for i, req := range e.Reqs {
		if len(sessions) > 0 {
			dst = binary.AppendUvarint(dst, uint64(slices.Index(sessions, e.Origins[i].Session)+1))
			dst = binary.AppendUvarint(dst, e.Origins[i].Number)
		}
		dst = resp.AppendRequest(dst, req)
	}
	return dst
}

// sessionsOf lists the sessions of an entry, one for each node at most.
func sessionsOf(origins []Origin) []uint64 {
	var sessions []uint64
	for _, o := range origins {
		if o.Session != 0 && !slices.Contains(sessions, o.Session) {
			sessions = append(sessions, o.Session)
		}
	}
	return sessions
}

func setCRC(entry []byte) {
	binary.LittleEndian.PutUint32(entry, crc32.Checksum(entry[4:], resp.CRC32C))
}

// HeaderMax bounds the bytes of an entry before its requests.
const HeaderMax = 4 + 2 + 6*binary.MaxVarintLen64 + 8

// OriginBytes bounds the bytes of a request's origin.
const OriginBytes = 16

// Decode reads an entry. Its strings alias b, which must not change afterwards. Every error wraps ErrEntry.
func Decode(b []byte) (Entry, error) {
	if len(b) < 6 {
		return Entry{}, fmt.Errorf("%w: %d bytes are too few", ErrEntry, len(b))
	}
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], resp.CRC32C) {
		return Entry{}, fmt.Errorf("%w: its checksum does not match", ErrEntry)
	}
	version := b[4]
	if version < 1 || version > Version {
		return Entry{}, fmt.Errorf("%w: format %d is unknown to this version of lockd, which reads up to %d",
			ErrEntry, version, Version)
	}
	e := Entry{Kind: b[5]}
	f := entryReader{resp.NewDecoder(b[6:])}
	known := uint64(0)
	if e.Kind == Batch {
		known = 1<<entryParts - 1
	}
	parts := f.Parts("an entry", known)
	e.Term, e.Tick, e.Wall = f.Uvarint(), f.Varint(), f.Varint()
	switch e.Kind {
	case Batch:
		if parts&entryChecked != 0 {
			e.Checked, e.Digest = f.checked()
		}
		e.Reqs, e.Origins = f.requests(parts&entryOrigins != 0)
	case Roster:
		e.Change = membership.ReadChange(&f.Decoder)
	default:
		f.Fail("unknown kind")
	}
	if err := f.End(); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	return e, nil
}

// KindOf returns the kind of an entry without decoding it; for other bytes, any kind.
func KindOf(b []byte) byte {
	if len(b) < 6 {
		return Batch
	}
	return b[5]
}

// entryReader reads the parts of an entry.
type entryReader struct{ resp.Decoder }

// checked reads the digest of a state, and the index of the entry that it is of.
func (f *entryReader) checked() (index, digest uint64) {
	if index = f.Uvarint(); index == 0 {
		f.Fail("a digest as of no entry")
	}
	return index, f.Uint64()
}

// requests reads the requests of an entry, and their origins if they have any.
func (f *entryReader) requests(from bool) ([]resp.Request, []Origin) {
	var sessions []uint64
	if from {
		sessions = f.sessions()
	}
	reqs := make([]resp.Request, f.Count(1))
	var origins []Origin
	for i := range reqs {
		f.Item(1)
		if from {
			if o := f.origin(sessions); o.Session != 0 {
				if origins == nil {
					origins = make([]Origin, len(reqs))
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

// origin reads the origin of a request.
func (f *entryReader) origin(sessions []uint64) Origin {
	place, number := f.Uvarint(), f.Uvarint()
	switch {
	case f.Err() != nil || place == 0 && number == 0:
		return Origin{}
	case place == 0 || place > uint64(len(sessions)) || sessions[place-1] == 0 || number == 0:
		f.Fail("bad origin")
		return Origin{}
	}
	return Origin{Session: sessions[place-1], Number: number}
}

// Origin names the attempt that a logged request belongs to. The zero value belongs to no attempt.
type Origin struct {
	Session uint64 // of the process that serves the client, drawn at random; 0: none
	Number  uint64 // in that session, from 1; never reused
}
