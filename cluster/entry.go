package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"lockd/cluster/membership"
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
//	        entryRoster: one change as membership.AppendChange writes it
//
// Old versions are read for ever: a version is only ever added. Version 1 has
// requests that do not say whether they are transactions. Before version 3 an entry has no
// digest, its requests do not say where they come from, and its commands may be unknown.
// Before version 4 commands stood for what fields of a request say now; see fromCommands.
// Version 5 is for a machine that notes what becomes of locks (resp.Stamp.Unnoted): requests may say who
// their client is.
// Version 6 is for a machine that keeps the client of each holder of a lock (resp.Stamp.Unowned).
// Version 7 may say whose rights the scripts of a request have.
// Version 8 is that of a change of the roster which says a level; everything else is written as version 7.
//
// A version that nodes of the release before cannot read belongs to a new level (formatsSince), and is written
// while that is in force.
const (
	entryVersion      = 8
	entryVersionPlain = 7
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
	dst = append(dst, 0, 0, 0, 0, e.version(), e.kind)
	dst = binary.AppendUvarint(dst, e.term)
	dst = binary.AppendVarint(dst, e.tick)
	dst = binary.AppendVarint(dst, e.wall)
	switch e.kind {
	case entryBatch:
		dst = appendChecked(dst, e)
		dst = appendRequests(dst, e)
	case entryRoster:
		dst = membership.AppendChange(dst, e.change)
	}
	setCRC(dst[start:])
	return dst
}

// version is the one as which an entry is written.
func (e *entry) version() byte {
	if e.kind == entryRoster && e.change.Level > 0 {
		return entryVersion
	}
	return entryVersionPlain
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
	binary.LittleEndian.PutUint32(entry, crc32.Checksum(entry[4:], resp.CRC32C))
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
	e.term, e.tick, e.wall = f.Uvarint(), f.Varint(), f.Varint()
	switch e.kind {
	case entryBatch:
		if version >= 3 {
			e.checked, e.digest = f.checked()
		}
		e.reqs, e.origins = f.requests(version)
	case entryRoster:
		e.change = membership.ReadChange(&f.Decoder, version)
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

// checked reads what appendChecked writes.
func (f *entryReader) checked() (index, digest uint64) {
	if index = f.Uvarint(); index == 0 {
		return 0, 0
	}
	return index, f.Uint64()
}

// requests reads the requests of an entry, and their origins.
func (f *entryReader) requests(version byte) ([]resp.Request, []origin) {
	var sessions []uint64
	if version >= 3 {
		sessions = f.sessions()
	}
	reqs := make([]resp.Request, f.Count(1))
	var origins []origin
	for i := range reqs {
		f.Item(1)
		if version >= 3 {
			if from := f.origin(sessions); from.session != 0 {
				if origins == nil {
					origins = make([]origin, len(reqs))
				}
				origins[i] = from
			}
		}
		if reqs[i] = f.request(version); f.Err() != nil {
			return nil, nil
		}
	}
	return reqs, origins
}

func (f *entryReader) request(version byte) resp.Request {
	switch {
	case version == 1:
		return fromCommands(f.OldRequest())
	case version < 4:
		return fromCommands(f.Request())
	}
	return f.Request()
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

// fromCommands puts a request of an entry before version 4 into today's form. A request asked
// for a Trace by the command "tracked" at its end, and steps of blocking commands were
// commands of a container "block":
//
//	open   ask SESSION NUMBER SPENT-MS COMMAND...   close SESSION...
//	keep SESSION...   cancel SESSION NUMBER
//
// the last two together in one request. What is of no such form stays as it is.
func fromCommands(req resp.Request) resp.Request {
	n := len(req.Cmds)
	if n > 1 && req.Cmds[n-1].Args[0] == "tracked" {
		req.Cmds, req.Trace = req.Cmds[:n-1], true
	}
	if n == 0 || req.Cmds[0].Args[0] != "block" || len(req.Cmds[0].Args) < 2 {
		return req
	}
	first := req.Cmds[0].Args
	switch numbers, ok := parseNumbers(first[2:]); {
	case first[1] == "open" && n == 1:
		return resp.BlockOpening("", 0)
	case first[1] == "ask" && n == 1 && len(first) >= 6:
		if numbers, ok = parseNumbers(first[2:5]); ok {
			id := resp.BlockID{Session: numbers[0], Number: numbers[1]}
			return resp.BlockAsking(id, int64(numbers[2]), resp.Cmd{DB: req.Cmds[0].DB, Args: first[5:]})
		}
	case first[1] == "close" && n == 1 && ok:
		return resp.BlockClosing(numbers)
	default:
		if step, ok := tendFromCommands(req.Cmds); ok {
			return resp.Request{Block: step}
		}
	}
	return req
}

func tendFromCommands(cmds []resp.Cmd) (*resp.BlockStep, bool) {
	step := &resp.BlockStep{Kind: resp.BlockTend}
	for i, c := range cmds {
		if len(c.Args) < 3 || c.Args[0] != "block" {
			return nil, false
		}
		numbers, ok := parseNumbers(c.Args[2:])
		switch {
		case !ok:
			return nil, false
		case i == 0 && c.Args[1] == "keep":
			step.Sessions = numbers
		case c.Args[1] == "cancel" && len(numbers) == 2:
			step.Cancels = append(step.Cancels, resp.BlockID{Session: numbers[0], Number: numbers[1]})
		default:
			return nil, false
		}
	}
	return step, true
}

func parseNumbers(words []string) ([]uint64, bool) {
	numbers := make([]uint64, len(words))
	for i, w := range words {
		n, err := strconv.ParseUint(w, 10, 63)
		if err != nil {
			return nil, false
		}
		numbers[i] = n
	}
	return numbers, true
}
