// Package snapshot decides when a node takes a snapshot of its state, writes snapshots at a pace that clients do not
// notice, and trims the log behind them. Backups that clients read are written at the same pace.
package snapshot

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/replica"
	"lockd/cluster/store"
	"lockd/cluster/wake"
	"lockd/resp"
)

// ErrPreempted is the error of a snapshot that has given way to the leader's.
var ErrPreempted = errors.New("a snapshot of the leader takes its place")

// pacedImage writes an image for Raft, at the pace of this node's snapshots.
type pacedImage struct {
	*replica.Image
	pace *Snapshots
}

// Begin returns an image for Raft. It resets the growth since the last snapshot.
func (s *Snapshots) Begin(i *replica.Image) raft.FSMSnapshot {
	s.counted.Store(s.takeGrown())
	return pacedImage{i, s}
}

// Persist implements raft.FSMSnapshot.
func (i pacedImage) Persist(sink raft.SnapshotSink) error {
	s := i.pace
	paced := &pacedWriter{out: sink, s: s, since: s.Clock.Monotonic()}
	defer func() { s.rests.Store(int64(paced.rests)) }()
	w := bufio.NewWriterSize(paced, Piece)
	if err := i.Save(w); err != nil {
		return err
	}
	return w.Flush()
}

// A snapshot of many keys takes much of a processor, and more of the disk. Written at once, it delays
// clients and the sync of their entries. Nothing waits for the snapshot, so its writer works only part
// of the time.
const (
	// Piece is the size of a write, in bytes, between two rests.
	Piece = 64 << 10
	// Part is the reciprocal of the writer's share of the time.
	Part = 4
)

// pacedWriter rests after each piece. Its writes fail once the node stops, or a leader's snapshot
// waits to be installed.
type pacedWriter struct {
	out   io.Writer
	s     *Snapshots
	since time.Duration // monotonic time at which the last rest ended
	rests time.Duration // sum of all rests
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (int, error) {
	preempt := p.s.preempt.Next()
	if p.s.Installs.Load() > 0 {
		return 0, ErrPreempted
	}
	n, err := p.out.Write(b)
	if err != nil {
		return n, err
	}
	done := p.s.Clock.Monotonic()
	rest := time.NewTimer((Part - 1) * (done - p.since))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-preempt:
		return n, ErrPreempted
	case <-p.s.Stop:
		return n, group.ErrHalted
	}
	p.since = p.s.Clock.Monotonic()
	p.rests += p.since - done
	return n, nil
}

// Release implements raft.FSMSnapshot.
func (pacedImage) Release() {}

// Snapshots takes this node's snapshots and trims its log behind them. It gives way to a leader's
// snapshot. All methods may be called concurrently.
type Snapshots struct {
	Config

	due   chan struct{}     // capacity 1
	saves chan chan<- error // requests for a snapshot now, each with a channel for the result

	GrownEntries atomic.Uint64 // since the last snapshot
	GrownBytes   atomic.Uint64
	grownWork    atomic.Int64           // ns spent on applying
	asked        atomic.Bool            // for a snapshot, whether it is due or not
	counted      atomic.Pointer[growth] // the growth that the snapshot in progress covers

	Cost     atomic.Int64  // ns of work of the last snapshot
	rests    atomic.Int64  // ns of its pauses
	size     atomic.Uint64 // bytes of the newest snapshot
	LastSave atomic.Int64  // seconds since 1970
	Saving   atomic.Bool
	SaveOK   atomic.Bool
	taken    atomic.Int64 // since the start
	failed   atomic.Int64

	Busy     chan struct{}            // capacity 1: full while a snapshot is taken, or a leader's installed
	Installs atomic.Int64             // of a leader's snapshot that are under way or wait
	preempt  wake.Broadcast           // another one waits
	basedOn  atomic.Pointer[raft.Log] // the end of the snapshot that Raft goes by; only index and term
	Exposed  atomic.Uint64            // how often the newest snapshot was left without a spare (lacksSpare)
	spared   atomic.Uint64            // value of Exposed when there was a spare again
}

// Config provides what Snapshots use of their node.
type Config struct {
	Raft       *group.Group
	Stores     *store.Stores
	Clock      clock.Clock
	Log        *slog.Logger
	Stop       <-chan struct{}
	EntriesMax uint64 // entries between two snapshots, more where the state is large
	BytesMax   uint64 // bytes of entries between two snapshots, more where those are larger
}

// New returns the snapshots of a node that has taken none.
func New(c Config) *Snapshots {
	s := &Snapshots{
		Config: c,
		due:    make(chan struct{}, 1), saves: make(chan chan<- error), Busy: make(chan struct{}, 1),
	}
	s.LastSave.Store(s.Clock.Wall() / 1e6)
	s.SaveOK.Store(true)
	return s
}

// A restart repeats all the work of the entries since the last snapshot before the node serves. A
// few hundred scripts that run to their limits cost more than that should, so work counts as well
// as entries and bytes. But taking snapshots of a large state must not become the main work. So a
// snapshot never comes before the log has cost 1/snapshotLeast of the last snapshot, unless the log
// has grown as large as that snapshot; and for the sake of work alone it comes after snapshotShares
// times its cost.
const (
	replayMax      = time.Second
	snapshotShares = 4
	snapshotLeast  = 2
)

// Grown counts an applied entry, and asks for a snapshot if one is due.
func (s *Snapshots) Grown(size int, work time.Duration) {
	s.GrownEntries.Add(1)
	s.GrownBytes.Add(uint64(size))
	s.grownWork.Add(int64(work))
	if s.wanted() {
		wake.Signal(s.due)
	}
}

func (s *Snapshots) wanted() bool {
	work, cost := s.grownWork.Load(), s.Cost.Load()
	switch {
	case s.asked.Load():
	case s.Exposed.Load() != s.spared.Load():
	case s.GrownBytes.Load() >= max(s.BytesMax, s.size.Load()):
	case s.GrownEntries.Load() >= s.EntriesMax && work >= cost/snapshotLeast:
	case work >= max(int64(replayMax), snapshotShares*cost):
	default:
		return false
	}
	return true
}

// growth counts the growth that a snapshot covers, as of its beginning.
type growth struct {
	entries, bytes uint64
	work           int64
	asked          bool
}

// Installed resets the counts: the state has come in a leader's snapshot.
func (s *Snapshots) Installed() { s.takeGrown() }

// takeGrown resets the counts at the beginning of a snapshot.
func (s *Snapshots) takeGrown() *growth {
	return &growth{s.GrownEntries.Swap(0), s.GrownBytes.Swap(0), s.grownWork.Swap(0), s.asked.Swap(false)}
}

// giveBack restores the counts for a snapshot that was begun and failed.
func (s *Snapshots) giveBack(g *growth) {
	s.GrownEntries.Add(g.entries)
	s.GrownBytes.Add(g.bytes)
	s.grownWork.Add(g.work)
	if g.asked {
		s.asked.Store(true)
	}
	wake.Signal(s.due) // the failed snapshot may have used up a signal
}

// RetryPause is the pause after a failed snapshot.
const RetryPause = time.Second

// Run takes a snapshot whenever one is due or asked for. Nothing else takes snapshots, so
// there is one at a time. After a failure every entry makes it due again, but the pause comes
// first.
func (s *Snapshots) Run() {
	var again <-chan time.Time
	for {
		due := s.due
		if again != nil {
			due = nil
		}
		select {
		case answer := <-s.saves:
			answer <- s.take()
			continue
		case <-due:
		case <-again:
		case <-s.Stop:
			return
		}
		if again = nil; !s.wanted() {
			continue // another one was taken meanwhile
		}
		if err := s.take(); err != nil && !s.Raft.Stopping() {
			s.Log.Warn("no snapshot was taken, and the log grows until one is: make room on the disk", "why", err)
			again = time.After(RetryPause)
		}
	}
}

// Metrics returns the figures of this node's snapshots.
func (s *Snapshots) Metrics() []resp.Metric {
	taken := resp.Metric{
		Name: "lockd_snapshots_total", Kind: resp.Counter, Labels: []string{"result"},
		Help: "Snapshots that this node has taken, or failed to take.",
	}
	taken.Add(float64(s.taken.Load()), "ok")
	taken.Add(float64(s.failed.Load()), "failed")
	return []resp.Metric{
		taken,
		resp.GaugeOf("lockd_snapshot_running", "1 while this node takes a snapshot.", resp.One(s.Saving.Load())),
		resp.GaugeOf("lockd_snapshot_last_timestamp_seconds", "When this node took its last snapshot, or was started.",
			s.LastSave.Load()),
		resp.GaugeOf("lockd_snapshot_bytes", "The size of the newest snapshot.", s.size.Load()),
		resp.GaugeOf("lockd_snapshot_work_seconds", "How long the last snapshot was worked on, without its rests.",
			time.Duration(s.Cost.Load()).Seconds()),
		resp.GaugeOf("lockd_snapshot_behind_entries", "Entries that were applied since the last snapshot.",
			s.GrownEntries.Load()),
		resp.GaugeOf("lockd_snapshot_behind_bytes", "Their bytes.", s.GrownBytes.Load()),
	}
}

// Save takes a snapshot now and waits for it. When ctx ends it stops waiting, and the snapshot goes
// on: it may take minutes, too long for a client that has hung up or a server that stops.
func (s *Snapshots) Save(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case s.saves <- answer:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.Stop:
		return group.ErrHalted
	}
	return s.Raft.Await(ctx, answer)
}

// take takes a snapshot now and trims the log behind the one before it.
func (s *Snapshots) take() error {
	s.Saving.Store(true)
	defer s.Saving.Store(false)
	exposed := s.Exposed.Load() // a snapshot installed from now on needs another one
	began := s.Clock.Monotonic()
	select {
	case s.Busy <- struct{}{}:
	case <-s.Stop:
		return group.ErrHalted
	}
	done := make(chan error, 1)
	go func() { done <- s.Raft.Snapshot().Error() }()
	err := s.Raft.Await(context.Background(), done) // Raft may wait for a disk that hangs until it is told to stop
	if errors.Is(err, group.ErrHalted) {
		return err
	}
	s.RecordBase()
	<-s.Busy
	cost := int64(s.Clock.Monotonic()-began) - s.rests.Swap(0)
	counted := s.counted.Swap(nil)
	s.SaveOK.Store(err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot))
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	if err != nil {
		s.failed.Add(1)
		if counted != nil {
			s.giveBack(counted)
		}
		return err
	}
	s.taken.Add(1)
	s.Cost.Store(cost)
	s.LastSave.Store(s.Clock.Wall() / 1e6)
	s.RecordSize()
	if !s.LacksSpare() {
		s.spared.Store(exposed)
	}
	return s.trim()
}

// GiveWay makes room for a leader's snapshot until end is called: none of this node's own is taken
// meanwhile. It returns false if the node stops, or closed is, before.
func (s *Snapshots) GiveWay(closed <-chan struct{}) (end func(), ok bool) {
	s.Installs.Add(1)
	s.preempt.Notify()
	select {
	case s.Busy <- struct{}{}:
		return func() { <-s.Busy; s.Installs.Add(-1) }, true
	case <-closed:
	case <-s.Stop:
	}
	s.Installs.Add(-1)
	return nil, false
}

// RecordSize records the size of the newest snapshot.
func (s *Snapshots) RecordSize() {
	if snaps, err := s.Stores.Snaps.List(); err == nil && len(snaps) > 0 {
		s.size.Store(uint64(max(snaps[0].Size, 0)))
	}
}

// Ask asks for a snapshot soon, whether one is due or not.
func (s *Snapshots) Ask() {
	s.asked.Store(true)
	wake.Signal(s.due)
}

// Expose records that the newest snapshot has no spare, and asks for another.
func (s *Snapshots) Expose() {
	s.Exposed.Add(1)
	wake.Signal(s.due)
}

// LacksSpare reports whether the loss of one file would stop this node for good: the log does not
// reach back to a snapshot before the newest. That is so after a leader's snapshot was installed,
// because Raft then removes the whole log. The node's own next snapshot is then taken at once, and
// the installed one becomes its spare.
func (s *Snapshots) LacksSpare() bool {
	snaps, err := s.Stores.Snaps.List()
	if err != nil || len(snaps) == 0 {
		return false
	}
	first, err := s.Stores.Log.FirstIndex()
	if err != nil || first == 1 {
		return false // the log alone is enough
	}
	spare := snaps[len(snaps)-1].Index
	if first == 0 {
		first = snaps[0].Index + 1
	}
	return len(snaps) < store.SnapshotsKept || first > spare+1
}

// trim deletes the log up to the oldest snapshot kept. It keeps that snapshot's last entry: the
// leader's next message may follow it, and the log is never empty. Raft's own trimming counts
// entries back from the last one, so it cannot promise that the older snapshot still reaches the
// log.
func (s *Snapshots) trim() error {
	snaps, err := s.Stores.Snaps.List()
	if err != nil || len(snaps) < store.SnapshotsKept {
		return err
	}
	upTo := snaps[len(snaps)-1].Index
	first, err := s.Stores.Log.FirstIndex()
	if err != nil || first == 0 || first >= upTo {
		return err
	}
	return s.Stores.Log.DeleteRange(first, upTo-1)
}

// Base returns the last entry of the snapshot that Raft goes by.
func (s *Snapshots) Base() (index, term uint64) {
	if at := s.basedOn.Load(); at != nil {
		return at.Index, at.Term
	}
	return 0, 0
}

// RecordBase records that Raft goes by another snapshot. A snapshot that only lies in the folder may
// be damaged; Raft reports its own only in its figures.
func (s *Snapshots) RecordBase() {
	stats := s.Raft.Stats()
	index, _ := strconv.ParseUint(stats["last_snapshot_index"], 10, 64)
	term, _ := strconv.ParseUint(stats["last_snapshot_term"], 10, 64)
	s.basedOn.Store(&raft.Log{Index: index, Term: term})
}
