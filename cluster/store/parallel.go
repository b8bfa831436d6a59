package store

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ParallelLog lets the disks of the leader and of the followers write an entry at the same time (Ongaro's thesis,
// 10.2.1). Raft stores an entry before it sends it, and counts it as stored on this node; so StoreLogs of a leader
// returns at once, and another goroutine writes. Nothing outside Raft may depend on an entry before it is on this disk:
//   - The machine applies the entry only then (Await). No client is answered before.
//   - Followers learn that the entry is committed only when this node's machine has applied it (Committed): otherwise
//     one of their clients could know of it, read here, and see that it has not happened.
//
// A crash loses the unwritten entries, and all that Raft has concluded from them. Without a crash, the log in memory is
// the log.
//
// Raft's own entries, and those that a follower stores, are on disk when StoreLogs returns.
//
// It relies on properties of raft 1.7.3: only AppendEntries tells others of Raft's commit index, and the transport
// clamps it (there is no pipeline, which would bypass the transport); a failed write ends the process (guard), as Raft
// would go on; and GetLog returns an entry that is not on disk only to Raft as a leader.
//
// All methods may be called concurrently.
type ParallelLog struct {
	log     raft.LogStore
	guard   *guard
	leads   func() bool                 // Hooks.Leads ...
	applied func() uint64               // ... Applied ...
	base    func() (index, term uint64) // ... and Base

	first   atomic.Uint64 // index of the first entry that is not on disk yet; 0: all are
	mu      sync.Mutex
	ahead   []*raft.Log   // those entries, in order
	writing bool          // a goroutine writes them, or the store has failed
	moved   chan struct{} // closed when more is on disk; nil: no goroutine waits
	pending []uint64      // entries of this term as leader that the machine may not have applied yet
}

// append adds entries to those that are to be written, and starts the writer.
func (l *ParallelLog) append(entries []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = append(l.ahead, entries...)
	l.forgetApplied() // a single node never calls Committed
	for _, e := range entries {
		l.pending = append(l.pending, e.Index)
	}
	l.first.Store(l.ahead[0].Index)
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// write writes all entries ahead of the disk. If that fails, the guard ends the process.
func (l *ParallelLog) write() {
	for done := 0; ; {
		l.mu.Lock()
		if l.ahead = l.ahead[done:]; len(l.ahead) == 0 {
			l.ahead, l.writing = nil, false
			l.first.Store(0)
		} else {
			l.first.Store(l.ahead[0].Index)
		}
		if l.moved != nil {
			close(l.moved)
			l.moved = nil
		}
		entries := l.ahead
		l.mu.Unlock()
		if len(entries) == 0 || l.log.StoreLogs(entries) != nil {
			return
		}
		done = len(entries)
	}
}

// Await waits until an entry is on this node's disk; false if the store has failed.
func (l *ParallelLog) Await(index uint64) bool {
	for !l.onDisk(index) {
		moved := l.next()
		if l.onDisk(index) {
			return true
		}
		select {
		case <-moved:
		case <-l.guard.down:
			return false
		}
	}
	return true
}

// next returns a channel that is closed when more is on disk.
func (l *ParallelLog) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved == nil {
		l.moved = make(chan struct{})
	}
	return l.moved
}

// onDisk reports whether an entry that Raft has stored is on this node's disk.
func (l *ParallelLog) onDisk(index uint64) bool {
	first := l.first.Load()
	return first == 0 || index < first
}

// flush waits until everything is on disk.
func (l *ParallelLog) flush() error {
	if l.onDisk(math.MaxUint64) {
		return nil
	}
	l.mu.Lock()
	last := uint64(0)
	if n := len(l.ahead); n > 0 {
		last = l.ahead[n-1].Index
	}
	l.mu.Unlock()
	if !l.Await(last) {
		return errStoreFailed
	}
	return nil
}

// Committed returns the commit index that followers may learn, when Raft's own is index.
func (l *ParallelLog) Committed(index uint64) uint64 {
	if first := l.first.Load(); first > 0 {
		index = min(index, first-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetApplied()
	if l.applied != nil && len(l.pending) > 0 {
		index = min(index, l.pending[0]-1)
	}
	return index
}

// forgetApplied removes applied entries from pending. mu is held.
func (l *ParallelLog) forgetApplied() {
	if l.applied == nil {
		return
	}
	applied := l.applied()
	for len(l.pending) > 0 && l.pending[0] <= applied {
		l.pending = l.pending[1:]
	}
}

// deposed clears pending: a node that does not lead tells no follower, and its entries may never be applied.
func (l *ParallelLog) deposed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = nil
}

// StoreLog implements raft.LogStore.
func (l *ParallelLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (l *ParallelLog) StoreLogs(entries []*raft.Log) error {
	if !l.mayFollow(entries) {
		if l.leads == nil || !l.leads() {
			l.deposed()
		}
		if err := l.flush(); err != nil {
			return err
		}
		return l.log.StoreLogs(entries)
	}
	if l.guard.failed.Load() {
		return errStoreFailed
	}
	l.append(entries)
	return nil
}

// mayFollow reports whether the disk may lag behind Raft with these entries. Entries of the proposer may, which are few
// at a time; Raft's rules for elections and members rely on all others being on disk.
func (l *ParallelLog) mayFollow(entries []*raft.Log) bool {
	for _, e := range entries {
		if e.Type != raft.LogCommand {
			return false
		}
	}
	return l.leads != nil && l.leads()
}

// get reads an entry that is not on disk yet.
func (l *ParallelLog) get(index uint64, entry *raft.Log) bool {
	if l.onDisk(index) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.ahead, func(e *raft.Log) bool { return e.Index == index })
	if i < 0 {
		return false
	}
	*entry = *l.ahead[i]
	return true
}

// GetLog implements raft.LogStore. To a leader it returns entries that are not on disk yet: a leader only sends them. A
// node that has lost the leadership may compare an entry with one of a new leader, and confirm it: so it waits for the
// disk.
func (l *ParallelLog) GetLog(index uint64, entry *raft.Log) error {
	leads := l.leads != nil && l.leads()
	if leads && l.get(index, entry) {
		return nil
	}
	if !l.Await(index) {
		return errStoreFailed
	}
	err := l.log.GetLog(index, entry)
	if errors.Is(err, raft.ErrLogNotFound) && !leads && l.atBase(index, entry) {
		return nil
	}
	return err
}

// atBase substitutes for the last entry of the newest snapshot after the log was trimmed: a message of the leader may
// begin behind it.
func (l *ParallelLog) atBase(index uint64, entry *raft.Log) bool {
	if l.base == nil {
		return false
	}
	last, term := l.base()
	if last == 0 || last != index {
		return false
	}
	*entry = raft.Log{Index: index, Term: term, Type: raft.LogNoop}
	return true
}

// FirstIndex implements raft.LogStore.
func (l *ParallelLog) FirstIndex() (uint64, error) { return l.log.FirstIndex() }

// LastIndex implements raft.LogStore.
func (l *ParallelLog) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.ahead); n > 0 {
		return l.ahead[n-1].Index, nil
	}
	return l.log.LastIndex()
}

// DeleteRange implements raft.LogStore.
func (l *ParallelLog) DeleteRange(first, last uint64) error {
	if err := l.flush(); err != nil {
		return err
	}
	return l.log.DeleteRange(first, last)
}

// IsMonotonic returns the answer of the log below (checkedLog).
func (l *ParallelLog) IsMonotonic() bool {
	m, ok := l.log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}
