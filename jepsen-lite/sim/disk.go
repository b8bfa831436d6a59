package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/store"
)

// disk is the in-memory disk of a node; it outlives the processes that use it. A write changes content at once, as it
// reaches the page cache of a real machine, and returns after latency, when it is synced. Until then unsynced keeps
// the previous content, which a power failure restores.
type disk struct {
	name string

	mu       sync.Mutex
	starts   store.History
	content  content
	unsynced []unsynced // in the order of the writes
	writes   uint64     // so far
	latency  time.Duration
}

// content is the data on a disk. Its parts are never changed in place, so a copy keeps its state.
type content struct {
	log       []*raft.Log // without gaps
	votes     map[string][]byte
	snapshots []snapshot // the newest first
}

type unsynced struct {
	write  uint64
	before content
}

type snapshot struct {
	meta  raft.SnapshotMeta
	image []byte
}

func newDisk(name string) *disk { return &disk{name: name} }

// roomFree and roomKept are the bytes that a disk reports as free and as kept.
const (
	roomFree = 1 << 30
	roomKept = 1 << 20
)

func (d *disk) room() store.Room {
	return store.Room{Free: roomFree, Ballast: roomKept}
}

// slow makes each later write take latency.
func (d *disk) slow(latency time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency = latency
}

// losePower takes away what is not synced.
func (d *disk) losePower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unsynced) > 0 {
		d.content, d.unsynced = d.unsynced[0].before, nil
	}
}

func (d *disk) read() content {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.content
}

// write changes the content, and returns once that is synced.
func (d *disk) write(change func(*content)) {
	d.mu.Lock()
	d.writes++
	write, latency := d.writes, d.latency
	d.unsynced = append(d.unsynced, unsynced{write, d.content})
	change(&d.content)
	d.mu.Unlock()
	if latency > 0 {
		time.Sleep(latency)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unsynced = slices.DeleteFunc(d.unsynced, func(u unsynced) bool { return u.write <= write })
}

// mount is a disk as one process uses it: the cluster.Disk of its node. Writes after the end of the process have no
// effect.
type mount struct {
	*disk
	ended *atomic.Bool
}

// tokenLen is the length of the token of one start, in bytes, as in package store.
const tokenLen = 10

// Begin implements cluster.Disk.
func (m mount) Begin() (incarnation string, starts store.History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts.Starts++
	m.starts.Tokens += fmt.Sprintf("%*d", tokenLen, m.starts.Starts)
	m.starts.Tokens = m.starts.Tokens[max(0, len(m.starts.Tokens)-store.TokensMax):]
	return m.name, m.starts
}

// Open implements cluster.Disk.
func (m mount) Open(opts store.Options) (*store.Stores, error) {
	s, err := store.Join(opts, memoryLog{m}, memoryVotes{m}, memorySnapshots{m})
	if err != nil {
		return nil, err
	}
	c := m.read()
	s.Empty, s.MeasureSpace = len(c.log) == 0 && len(c.snapshots) == 0, m.room
	return s, nil
}

func (m mount) write(change func(*content)) error {
	if !m.ended.Load() {
		m.disk.write(change)
	}
	return nil
}

// memoryLog is the raft.LogStore of a mount.
type memoryLog struct{ mount }

// IsMonotonic reports that the log has no gaps, like that of a data folder.
func (memoryLog) IsMonotonic() bool { return true }

func (l memoryLog) FirstIndex() (uint64, error) {
	if log := l.read().log; len(log) > 0 {
		return log[0].Index, nil
	}
	return 0, nil
}

func (l memoryLog) LastIndex() (uint64, error) {
	if log := l.read().log; len(log) > 0 {
		return log[len(log)-1].Index, nil
	}
	return 0, nil
}

func (l memoryLog) GetLog(index uint64, entry *raft.Log) error {
	log := l.read().log
	if len(log) == 0 || index < log[0].Index || index > log[len(log)-1].Index {
		return raft.ErrLogNotFound
	}
	*entry = *log[index-log[0].Index]
	return nil
}

func (l memoryLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

func (l memoryLog) StoreLogs(entries []*raft.Log) error {
	gap := false
	err := l.write(func(c *content) {
		if len(c.log) > 0 && len(entries) > 0 && entries[0].Index != c.log[len(c.log)-1].Index+1 {
			gap = true
			return
		}
		c.log = append(c.log, entries...)
	})
	if gap {
		return errors.New("an entry does not follow the last one")
	}
	return err
}

func (l memoryLog) DeleteRange(first, last uint64) error {
	return l.write(func(c *content) {
		c.log = slices.DeleteFunc(slices.Clone(c.log), func(e *raft.Log) bool {
			return first <= e.Index && e.Index <= last
		})
	})
}

// memoryVotes is the raft.StableStore of a mount.
type memoryVotes struct{ mount }

func (v memoryVotes) Set(key, value []byte) error {
	return v.write(func(c *content) {
		c.votes = maps.Clone(c.votes)
		if c.votes == nil {
			c.votes = map[string][]byte{}
		}
		c.votes[string(key)] = bytes.Clone(value)
	})
}

// errAbsent has the text by which Raft recognizes an absent key.
var errAbsent = errors.New("not found")

func (v memoryVotes) Get(key []byte) ([]byte, error) {
	value, ok := v.read().votes[string(key)]
	if !ok {
		return nil, errAbsent
	}
	return value, nil
}

func (v memoryVotes) SetUint64(key []byte, value uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

func (v memoryVotes) GetUint64(key []byte) (uint64, error) {
	value, err := v.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// memorySnapshots is the raft.SnapshotStore of a mount.
type memorySnapshots struct{ mount }

func (s memorySnapshots) List() (list []*raft.SnapshotMeta, err error) {
	for _, snap := range s.read().snapshots {
		list = append(list, &snap.meta)
	}
	return list, nil
}

func (s memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	for _, snap := range s.read().snapshots {
		if snap.meta.ID == id {
			return &snap.meta, io.NopCloser(bytes.NewReader(snap.image)), nil
		}
	}
	return nil, nil, fmt.Errorf("there is no snapshot %s", id)
}

func (s memorySnapshots) Create(
	version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sink{mount: s.mount, snap: snapshot{meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term,
		Configuration: members, ConfigurationIndex: membersIndex,
	}}}, nil
}

// sink takes an image. It is no snapshot before Close.
type sink struct {
	mount
	snap   snapshot
	closed bool
}

func (s *sink) ID() string { return s.snap.meta.ID }

func (s *sink) Write(piece []byte) (int, error) {
	s.snap.image = append(s.snap.image, piece...)
	return len(piece), nil
}

func (s *sink) Cancel() error {
	s.closed = true
	return nil
}

func (s *sink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.snap.meta.Size = int64(len(s.snap.image))
	return s.mount.write(func(c *content) {
		older := slices.DeleteFunc(slices.Clone(c.snapshots), func(o snapshot) bool {
			return o.meta.ID == s.snap.meta.ID
		})
		c.snapshots = append([]snapshot{s.snap}, older[:min(len(older), store.SnapshotsKept-1)]...)
	})
}
