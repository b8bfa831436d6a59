package clustertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/store"
	"lockd/resp"
	"lockd/resp/fault"
)

// logContent is a log with its mark. The mark is written without a sync of its own: the next one of the log syncs it.
type logContent struct {
	entries []*raft.Log // without gaps
	mark    []byte
}

// clip makes the next append copy the log.
func (c *logContent) clip() { c.entries = slices.Clip(c.entries) }

// rot flips a bit of an entry.
func (c *logContent) rot(drawn func(n int) int) (what string) {
	if len(c.entries) == 0 {
		return ""
	}
	i := drawn(len(c.entries))
	e := *c.entries[i]
	if len(e.Data) > 0 {
		e.Data = flipped(e.Data, drawn)
	} else {
		e.Extensions = flipped(e.Extensions, drawn)
	}
	c.entries = slices.Clone(c.entries)
	c.entries[i] = &e
	return fmt.Sprintf("entry %d", e.Index)
}

// flipped returns a copy with one bit flipped. There is at least one byte.
func flipped(b []byte, drawn func(n int) int) []byte {
	b = bytes.Clone(b)
	b[drawn(len(b))] ^= 1 << drawn(8)
	return b
}

func theLog(s *stores) *part[logContent] { return &s.log }

// memoryLog is the raft.LogStore of a mount, below checksums and mark.
type memoryLog struct{ mount }

// FirstIndex implements raft.LogStore.
func (l memoryLog) FirstIndex() (uint64, error) {
	if log := read(l.mount, theLog).entries; len(log) > 0 {
		return log[0].Index, nil
	}
	return 0, nil
}

// LastIndex implements raft.LogStore.
func (l memoryLog) LastIndex() (uint64, error) {
	if log := read(l.mount, theLog).entries; len(log) > 0 {
		return log[len(log)-1].Index, nil
	}
	return 0, nil
}

// GetLog implements raft.LogStore.
func (l memoryLog) GetLog(index uint64, entry *raft.Log) error {
	log := read(l.mount, theLog).entries
	if len(log) == 0 || index < log[0].Index || index > log[len(log)-1].Index {
		return raft.ErrLogNotFound
	}
	*entry = *log[index-log[0].Index]
	return nil
}

// StoreLog implements raft.LogStore.
func (l memoryLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore. raft-wal finds a batch again as a whole, or not at all.
func (l memoryLog) StoreLogs(entries []*raft.Log) error {
	if err := l.p.faults.At(fault.LogWrite); err != nil {
		return err
	}
	gap := false
	n, err := begin(l.mount, theLog, func(c logContent) logContent {
		last := len(c.entries) - 1
		if gap = last >= 0 && len(entries) > 0 && entries[0].Index != c.entries[last].Index+1; !gap {
			c.entries = append(c.entries, entries...)
		}
		return c
	})
	if gap {
		err = errors.New("an entry does not follow the last one")
	}
	if err != nil {
		return err
	}
	for _, point := range []string{fault.LogWritten, fault.LogSync} {
		if err := l.p.faults.At(point); err != nil {
			return err
		}
	}
	flush(l.mount, theLog, n)
	return l.p.faults.At(fault.LogSynced)
}

// DeleteRange implements raft.LogStore.
func (l memoryLog) DeleteRange(first, last uint64) error {
	return write(l.mount, theLog, func(c logContent) logContent {
		c.entries = slices.DeleteFunc(slices.Clone(c.entries), func(e *raft.Log) bool {
			return first <= e.Index && e.Index <= last
		})
		return c
	})
}

// memoryMark is the file of the log's mark.
type memoryMark struct{ mount }

// ReadAt implements io.ReaderAt.
func (m memoryMark) ReadAt(b []byte, offset int64) (int, error) {
	return bytes.NewReader(read(m.mount, theLog).mark).ReadAt(b, offset)
}

// WriteAt implements io.WriterAt. A mark is written as a whole.
func (m memoryMark) WriteAt(b []byte, _ int64) (int, error) {
	_, err := begin(m.mount, theLog, func(c logContent) logContent {
		c.mark = bytes.Clone(b)
		return c
	})
	return len(b), err
}

// Sync implements store.MarkFile.
func (m memoryMark) Sync() error {
	return write(m.mount, theLog, func(c logContent) logContent { return c })
}

// Close implements io.Closer.
func (memoryMark) Close() error { return nil }

func theVotes(s *stores) *part[map[string][]byte] { return &s.votes }

// memoryVotes is the raft.StableStore of a mount, below checksums and guard. Each write is there as a whole, or not at
// all.
type memoryVotes struct{ mount }

// Set implements raft.StableStore.
func (v memoryVotes) Set(key, value []byte) error {
	return write(v.mount, theVotes, func(c map[string][]byte) map[string][]byte {
		c = maps.Clone(c)
		if c == nil {
			c = map[string][]byte{}
		}
		c[string(key)] = bytes.Clone(value)
		return c
	})
}

// rotVotes flips a bit of a vote.
func rotVotes(c map[string][]byte, drawn func(n int) int) (rotten map[string][]byte, what string) {
	keys := slices.Sorted(maps.Keys(c))
	if len(keys) == 0 {
		return c, ""
	}
	key := keys[drawn(len(keys))]
	c = maps.Clone(c)
	c[key] = flipped(c[key], drawn)
	return c, key
}

// errAbsent has the text by which Raft recognizes an absent key.
var errAbsent = errors.New("not found")

// Get implements raft.StableStore.
func (v memoryVotes) Get(key []byte) ([]byte, error) {
	value, ok := read(v.mount, theVotes)[string(key)]
	if !ok {
		return nil, errAbsent
	}
	return bytes.Clone(value), nil
}

// SetUint64 implements raft.StableStore.
func (v memoryVotes) SetUint64(key []byte, value uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (v memoryVotes) GetUint64(key []byte) (uint64, error) {
	value, err := v.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// snapshot is a snapshot with the checksum that Raft's own store keeps of each.
type snapshot struct {
	meta  raft.SnapshotMeta
	image []byte
	sum   uint32
}

// torn returns the snapshot without the end of its image.
func (s snapshot) torn(drawn func(n int) int) snapshot {
	s.image = s.image[:drawn(len(s.image)+1)]
	return s
}

// rotNewest flips a bit of the newest snapshot.
func rotNewest(c []snapshot, drawn func(n int) int) (rotten []snapshot, what string) {
	if len(c) == 0 || len(c[0].image) == 0 {
		return c, ""
	}
	c = slices.Clone(c)
	c[0].image = flipped(c[0].image, drawn)
	return c, "snapshot " + c[0].meta.ID
}

func theSnapshots(s *stores) *part[[]snapshot] { return &s.snapshots }

// memorySnapshots is the raft.SnapshotStore of a mount.
type memorySnapshots struct{ mount }

// List implements raft.SnapshotStore.
func (s memorySnapshots) List() (list []*raft.SnapshotMeta, err error) {
	for _, snap := range read(s.mount, theSnapshots) {
		list = append(list, &snap.meta)
	}
	return list, nil
}

// Open implements raft.SnapshotStore.
func (s memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	for _, snap := range read(s.mount, theSnapshots) {
		switch {
		case snap.meta.ID != id:
		case crc32.Checksum(snap.image, resp.CRC32C) != snap.sum:
			return nil, nil, fmt.Errorf("snapshot %s: its checksum does not match", id)
		default:
			return &snap.meta, io.NopCloser(bytes.NewReader(snap.image)), nil
		}
	}
	return nil, nil, fmt.Errorf("there is no snapshot %s", id)
}

// Create implements raft.SnapshotStore.
func (s memorySnapshots) Create(
	version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if err := s.p.faults.At(fault.SnapshotWrite); err != nil {
		return nil, err
	}
	if err := s.mayWrite(); err != nil {
		return nil, err
	}
	return &sink{mount: s.mount, snap: snapshot{meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixMilli()), Index: index, Term: term,
		Configuration: members, ConfigurationIndex: membersIndex,
	}}}, nil
}

// sink takes an image. It is no snapshot before Close.
type sink struct {
	mount
	snap   snapshot
	closed bool
}

// ID implements raft.SnapshotSink.
func (s *sink) ID() string { return s.snap.meta.ID }

// Write implements io.Writer.
func (s *sink) Write(piece []byte) (int, error) {
	s.snap.image = append(s.snap.image, piece...)
	return len(piece), nil
}

// Cancel implements raft.SnapshotSink.
func (s *sink) Cancel() error {
	s.closed = true
	return nil
}

// Close implements raft.SnapshotSink.
func (s *sink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.p.faults.At(fault.SnapshotRename); err != nil {
		return err
	}
	s.snap.meta.Size, s.snap.sum = int64(len(s.snap.image)), crc32.Checksum(s.snap.image, resp.CRC32C)
	err := write(s.mount, theSnapshots, func(c []snapshot) []snapshot {
		older := slices.DeleteFunc(slices.Clone(c), func(o snapshot) bool { return o.meta.ID == s.snap.meta.ID })
		return append([]snapshot{s.snap}, older[:min(len(older), store.SnapshotsKept-1)]...)
	})
	if err != nil {
		return err
	}
	return s.p.faults.At(fault.SnapshotRenamed)
}
