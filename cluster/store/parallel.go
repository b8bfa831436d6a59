package store

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ParallelLog lets a leader's disk and those of the others write an entry at the same
// time (Ongaro's thesis, 10.2.1). Raft stores an entry first and sends it afterwards,
// and counts it as stored here; so here StoreLogs returns at once while this node
// leads, and another goroutine writes. Nothing outside Raft may then follow from an
// entry that is not on this disk:
//   - The machine applies it when it is (Await). Nobody is answered before.
//   - The others hear that it is committed when it is, and when this node's machine has
//     applied it (Committed): or else a client of theirs could know of it and read here
//     that it has not happened.
//
// A crash forgets what was not written, and all that Raft had concluded from it. As
// long as there is no crash, the log in memory is the log.
//
// Raft's own entries, and those that this node stores for a leader, are on disk when
// StoreLogs returns.
//
// It rests on raft 1.7.3 in this: nothing tells others of Raft's commit index but
// AppendEntries, which the transport clamps (a pipeline would go past it: there is none); a
// failed write really ends the process (guard), as Raft goes on; and what is not on
// disk is shown to nobody who counts on it (GetLog), but to Raft as the leader's log.
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
	moved   chan struct{} // closed when more is on disk; nil: nobody waits
	pending []uint64      // entries of this leadership that the machine may not have taken yet
}

// append takes entries over, and has them written.
func (l *ParallelLog) append(entries []*raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead = append(l.ahead, entries...)
	l.forgetApplied() // a single node tells nobody, and would never ask
	for _, e := range entries {
		l.pending = append(l.pending, e.Index)
	}
	l.first.Store(l.ahead[0].Index)
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// write puts on disk what there is. If that fails the guard ends the process.
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

// Await waits until an entry is on this node's disk. It reports false if it never
// will be, as the store has failed.
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

// Committed is how far the others may hear that the log is committed, when Raft says
// it is up to index.
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

// forgetApplied drops what the machine has taken from what is pending. mu is held.
func (l *ParallelLog) forgetApplied() {
	if l.applied == nil {
		return
	}
	applied := l.applied()
	for len(l.pending) > 0 && l.pending[0] <= applied {
		l.pending = l.pending[1:]
	}
}

// deposed forgets what was pending: who does not lead tells nobody, and its entries may
// never be applied.
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

// mayFollow reports whether the disk may follow Raft with these entries: those of the
// proposer may, which are few at a time; of the others Raft's rules for elections and
// members think that they are on disk.
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

// GetLog implements raft.LogStore. Who does not lead any more looks at an entry that a
// new leader has sent him too, and may say that he has it: so he gets it from the disk.
// A leader sends what he gets, and gets nothing else than entries.
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

// atBase stands in for the entry with which the newest snapshot ends, once that is no
// longer in the log: a message of the leader may begin behind it.
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

// IsMonotonic passes on what the log below says (checkedLog).
func (l *ParallelLog) IsMonotonic() bool {
	m, ok := l.log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}
