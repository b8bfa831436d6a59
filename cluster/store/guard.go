package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp/fault"
)

// guard protects the stores, because Raft goes on where it must not: a leader whose disk fails keeps leading
// (raft#614), and so does one whose disk hangs (raft#503). Any error of a write, and any write that takes longer than
// stallMax, ends the process: the cluster survives a stopped node. After a failed fsync in particular, the contents of
// the file's pages are unknown. A full disk ends the process too, since raft-wal accepts no further write then, but
// with a sentence of its own.
type guard struct {
	fatal    func(error)
	stallMax time.Duration
	slow     atomic.Int64             // appends to the log in progress that have taken longer than a tick of the watchdog
	stored   func(took time.Duration) // running appends that have taken longer than a tick of the watchdog
	now      func() time.Duration
	failed   atomic.Bool   // no write succeeds afterwards
	down     chan struct{} // closed at the failure
	told     chan struct{} // closed when fatal has returned, which happens in tests only
	retired  atomic.Bool   // closed in good order

	faults     *fault.Set  // of a simulated node
	installing atomic.Bool // Raft's main goroutine may be writing a leader's snapshot
	reserve    *reserve    // nil in memory
}

// errStoreFailed answers every write after the first failure.
var errStoreFailed = errors.New("the store has failed")

func newGuard(opts Options) *guard {
	if opts.StallMax <= 0 {
		opts.StallMax = stallMaxDefault
	}
	return &guard{fatal: opts.Fatal, stallMax: opts.StallMax, down: make(chan struct{}), told: make(chan struct{}),
		faults: opts.Faults}
}

// retire ignores later errors: the stores are being closed.
func (g *guard) retire() { g.retired.Store(true) }

// write runs one write operation. It returns nil only if the operation succeeded in time.
func (g *guard) write(op string, do func() error) error {
	if g.failed.Load() {
		return g.refuse()
	}
	w := g.watch(op)
	err := safely("panic", do)
	w.stop()
	if err != nil {
		g.fail(fmt.Errorf("%s: %w", op, err))
		return err
	}
	if g.failed.Load() {
		return g.refuse()
	}
	return nil
}

// refuse answers a write after the first failure, when the process should have ended. It waits for the end: Raft panics
// over a term that it cannot store, and would end the process with a stack trace instead of the reason.
func (g *guard) refuse() error {
	<-g.told
	return errStoreFailed
}

// stallTicks is the number of checks after which a write counts as stalled. An append to the log counts as slow from
// the first check on: a leader then hands over its leadership.
const stallTicks = 5

const opAppend = "StoreLogs"

// watchdog ends the process if a write does not return. It counts its own checks of the write instead of time: a
// process that was stopped (SIGSTOP, a virtual machine that moves) finds any amount of time gone when it continues, and
// its disk had no chance to answer.
type watchdog struct {
	guard *guard
	op    string

	mu     sync.Mutex
	timer  *time.Timer
	checks int
	done   bool
}

func (g *guard) watch(op string) *watchdog {
	w := &watchdog{guard: g, op: op}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(g.stallMax/stallTicks, w.check)
	return w
}

func (w *watchdog) check() {
	if w.stalled() {
		w.guard.fail(fmt.Errorf("%s has not returned for %s", w.op, w.guard.stallMax))
	}
}

// stalled counts one check.
func (w *watchdog) stalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return false
	}
	w.checks++
	if w.checks == 1 && w.op == opAppend {
		w.guard.slow.Add(1)
	}
	if w.checks < stallTicks {
		w.timer.Reset(w.guard.stallMax / stallTicks)
		return false
	}
	return true
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.timer.Stop()
	if w.checks > 0 && w.op == opAppend {
		w.guard.slow.Add(-1)
	}
}

// safely turns a panic of a store into an error with a prefix.
func safely(what string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", what, r)
		}
	}()
	return do()
}

// read returns the error of a read; any error but an absent key or entry is fatal.
func (g *guard) read(op string, err error) error {
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) && err.Error() != keyNotFound {
		g.fail(fmt.Errorf("%s: %w", op, err))
	}
	return err
}

func (g *guard) fail(err error) {
	switch {
	case g.retired.Load():
	case g.failed.Swap(true):
		<-g.told
	default:
		close(g.down)
		defer close(g.told) // also where a simulated process ends this goroutine
		g.fatal(g.why(err))
	}
}

// why returns the reason of a failure with advice for the operator. Stored data is intact if the disk was full.
func (g *guard) why(err error) error {
	switch {
	case isFull(err) || g.reserve.isFull():
		return fmt.Errorf("the disk is full, this node stops: %w: what is stored is in order; make at least %d MiB of "+
			"space and start again",
			err, g.reserve.missing())
	case isStarved(err):
		return fmt.Errorf("this process may not open another file, this node stops: %w: what is stored is in order; %s",
			err, saysMoreFiles)
	}
	return fmt.Errorf("the disk cannot be trusted, this node stops: %w", err)
}

// guardedLog is the raft.LogStore behind Raft's cache.
type guardedLog struct {
	guard *guard
	log   raft.LogStore
}

func (l *guardedLog) FirstIndex() (uint64, error) {
	i, err := l.log.FirstIndex()
	return i, l.guard.read("FirstIndex", err)
}

func (l *guardedLog) LastIndex() (uint64, error) {
	i, err := l.log.LastIndex()
	return i, l.guard.read("LastIndex", err)
}

func (l *guardedLog) GetLog(index uint64, entry *raft.Log) error {
	return l.guard.read(fmt.Sprint("GetLog ", index), l.log.GetLog(index, entry))
}

func (l *guardedLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

func (l *guardedLog) StoreLogs(entries []*raft.Log) error {
	if l.guard.stored == nil {
		return l.guard.write(opAppend, func() error { return l.log.StoreLogs(entries) })
	}
	began := l.guard.now()
	err := l.guard.write(opAppend, func() error { return l.log.StoreLogs(entries) })
	if err == nil {
		l.guard.stored(l.guard.now() - began)
	}
	return err
}

func (l *guardedLog) DeleteRange(first, last uint64) error {
	return l.guard.write("DeleteRange", func() error { return l.log.DeleteRange(first, last) })
}

// IsMonotonic returns the answer of the log below (checkedLog).
func (l *guardedLog) IsMonotonic() bool {
	m, ok := l.log.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// Raft's own keys for its vote, and the text by which it recognizes an absent key: it compares err.Error().
const (
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
	keyNotFound = "not found"
)

// guardedVotes is the raft.StableStore. Raft stores a vote as two writes, term then candidate; a crash between them
// would leave the candidate of an older term beside the new term, and that candidate would be granted the vote again
// without a look at its log (raft#661). So the candidate is emptied first: a torn pair reads as "no vote", and the log
// is looked at. The older vote may be forgotten then, because Raft has stored the new term as its current one before it
// votes.
type guardedVotes struct {
	guard *guard
	votes raft.StableStore
}

func (v *guardedVotes) Set(key, val []byte) error {
	return v.write("Set", func() error { return v.votes.Set(key, val) })
}

func (v *guardedVotes) SetUint64(key []byte, val uint64) error {
	return v.write("SetUint64", func() error {
		if string(key) == keyVoteTerm {
			if err := v.votes.Set([]byte(keyVoteCand), nil); err != nil {
				return err
			}
			if err := v.guard.faults.At(fault.VoteTorn); err != nil {
				return err
			}
		}
		return v.votes.SetUint64(key, val)
	})
}

func (v *guardedVotes) write(op string, do func() error) error {
	return v.guard.write(op, func() error {
		if err := v.guard.faults.At(fault.VoteWrite); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return v.guard.faults.At(fault.VoteWritten)
	})
}

// Get returns nil for the empty candidate of a torn vote, which Raft reads as "no vote".
func (v *guardedVotes) Get(key []byte) ([]byte, error) {
	val, err := v.votes.Get(key)
	if len(val) == 0 {
		val = nil
	}
	return val, v.guard.read("Get", err)
}

func (v *guardedVotes) GetUint64(key []byte) (uint64, error) {
	n, err := v.votes.GetUint64(key)
	return n, v.guard.read("GetUint64", err)
}
