// Package replica holds the state that a node has built from the log: the machine, behind the one lock around it, and
// the index of the last applied entry. A running node applies entries as Raft commits them; the data folder of a
// stopped node is read in the same way.
package replica

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/figures"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/wake"
	"lockd/resp"
)

// State is the state that this node has built from the log: the machine, behind the one lock around it, and the index
// of the last applied entry. Only the goroutine that applies the log changes it.
type State struct {
	Config

	mu      sync.Mutex // the one lock around the machine
	applied uint64     // index of the last entry applied

	// Led counts since the machine's tick was last set.
	Led clock.Led

	// Deadline is the tick after which the leader must propose a tick; NoDeadline if no lease runs.
	Deadline    atomic.Int64
	Applied     atomic.Uint64                       // as applied, without the lock
	Digest      atomic.Pointer[DigestAt]            // as of the last entry applied; nil: none
	Full        atomic.Pointer[fullNow]             // as of the last entry applied
	Delivered   atomic.Uint64                       // the last entry whose messages this node has delivered
	sessionsNow atomic.Pointer[[]resp.BlockSession] // of blocking commands, as of the last entry applied

	sessionsRevision uint64 // of the machine, for sessionsNow

	Work figures.Executions
}

// Config provides what a State uses of its node.
type Config struct {
	Machine Machine
	Clock   clock.Clock
	Due     chan struct{}                 // capacity 1: signals that the tick by which the leader must propose has changed
	Roster  func() *membership.Roster     // in use
	Use     func(next *membership.Roster) // takes a roster into use, under the state's lock
	Check   func(level int) error         // returns an error if this node does not support a level
}

// New returns a state to which no entry was applied.
func New(c Config) *State {
	s := &State{Config: c}
	s.Deadline.Store(NoDeadline)
	s.Full.Store(&fullNow{})
	s.sessionsNow.Store(&[]resp.BlockSession{})
	return s
}

// fullNow names the nodes whose disks keep the state from growing, and the error of requests that would let it grow.
type fullNow struct{ Nodes, Refusal string }

// refreshFullDisks judges requests by the setting as it is now. mu is held.
func (s *State) refreshFullDisks() {
	if nodes, refusal := s.Machine.FullDisks(); nodes != s.Full.Load().Nodes {
		s.Full.Store(&fullNow{nodes, refusal})
	}
}

// Applied is the result of an entry.
type Applied struct {
	Void    bool // stamped in another term: no node executes it
	Results []resp.Result
}

// FitsEntry returns an error if an entry of the log cannot be applied here, because the machine lacks a command or a
// format. It sets the Spec of the commands.
func (s *State) FitsEntry(l *raft.Log, e *record.Entry) error {
	if e.Term != l.Term {
		return nil // a void entry is skipped
	}
	if err := s.Check(e.Change.Level); err != nil {
		return err
	}
	for _, req := range e.Reqs {
		for i := range req.Cmds {
			if err := s.fits(&req.Cmds[i]); err != nil {
				return fmt.Errorf("a command that this version of lockd does not know: %s", peer.OneLine(err.Error(), 128))
			}
		}
	}
	return nil
}

func (s *State) fits(c *resp.Cmd) error {
	spec, fail := s.Machine.Find(c.Args)
	level := s.Roster().Level
	switch {
	case spec == nil:
		return resp.Error(fail.Str)
	case spec.Level > level:
		return fmt.Errorf("'%s' comes with level %d of the cluster, and level %d is in force", spec.Name, spec.Level, level)
	}
	c.Spec = spec
	return nil
}

// NoDeadline is Deadline while no lease runs.
const NoDeadline = math.MaxInt64

// Apply applies an entry. Nothing else changes the machine but Restore.
func (s *State) Apply(l *raft.Log, e *record.Entry) (*Applied, []resp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = l.Index
	defer s.Applied.Store(l.Index) // not before: followers may learn of a commit by it, and answer their clients
	if e.Term != l.Term {
		// The stamp may be ahead of the clock of the leader that logged the entry, so applying
		// it could end a lease early. Every node compares the same two terms.
		return &Applied{Void: true}, nil
	}
	if e.Kind == record.Roster {
		s.setRoster(s.Roster().With(e.Change))
		return &Applied{}, nil
	}
	stamp := resp.Stamp{Tick: e.Tick, Wall: e.Wall, Index: l.Index, Seed: mix(l.Index)}
	began := s.Clock.Monotonic()
	results, msgs := s.Machine.Apply(stamp, e.Reqs)
	shareOut(&s.Work, e.Reqs, results, s.Clock.Monotonic()-began)
	for i := range results {
		results[i].Index = l.Index
	}
	s.Led.Restart(s.Clock.Monotonic())
	s.refreshDeadline()
	s.refreshFullDisks()
	if s.Machine.Blocks().Revision() != s.sessionsRevision {
		s.refreshSessions()
	}
	return &Applied{Results: results}, msgs
}

// setRoster takes a new roster into use, and the level that it says. mu is held.
func (s *State) setRoster(next *membership.Roster) {
	s.Machine.SetLevel(next.Level)
	s.Use(next)
}

// refreshDeadline tells the proposer the tick past which the leader must propose an entry if nothing else is written:
// the machine's next deadline, or clockLagMax from now if that is sooner. mu is held.
func (s *State) refreshDeadline() {
	deadline, ok := s.Machine.NextDeadline()
	if ok {
		deadline = min(deadline, s.Machine.Tick()+clock.LagMax.Milliseconds())
	} else {
		deadline = NoDeadline
	}
	if s.Deadline.Swap(deadline) != deadline {
		wake.Signal(s.Due)
	}
}

// mix spreads an index over 64 bits (splitmix64), the seed of commands that draw at random: it is the same on every
// node.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tick returns the log clock as far as it has certainly run: from the last entry that set it, through the time for
// which there was a leader since. That time cannot exceed the real time since the entry was stamped, because the entry
// was applied after that; so no lease ends early by it. mu is held.
func (s *State) tick() int64 { return s.Machine.Tick() + s.Led.Ran().Milliseconds() }

// GoOn returns the log clock from which a new leader continues, and the cluster's time as of the last applied entry, in
// microseconds since 1970.
func (s *State) GoOn() (tick, wall int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tick(), s.Machine.Wall()
}

// DigestNow returns the digest as of the last entry applied.
func (s *State) DigestNow() DigestAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return DigestAt{s.applied, s.Machine.Digest()}
}

// View runs a read against the applied state, at a time of the cluster that clients may see (reader.show).
func (s *State) View(lead *clock.Leadership, wall int64, req resp.Request) resp.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.Clock.Monotonic()
	res := s.Machine.View(readStamp(lead, began, wall), req)
	took := s.Clock.Monotonic() - began
	res.TookNs = int64(took)
	s.Work.Add(req.Cmds, took)
	return res
}

// shareOut divides the time of an entry among its requests, by the work of each, and counts it.
func shareOut(w *figures.Executions, reqs []resp.Request, results []resp.Result, took time.Duration) {
	work := 0.0
	for i := range results {
		work += shareOf(&results[i])
	}
	for i := range results {
		results[i].TookNs = int64(float64(took) * shareOf(&results[i]) / work)
		w.Add(reqs[i].Cmds, time.Duration(results[i].TookNs))
	}
}

// shareOf returns the weight of a request in the time of its entry, which is positive even without work.
func shareOf(r *resp.Result) float64 { return float64(max(r.Work, 1)) }

// DryRun asks the machine whether a request that may write would change nothing, and for its answer then. wall is as
// for View; 0: that of the last entry, since no client sees the answer yet.
func (s *State) DryRun(lead *clock.Leadership, wall int64, req resp.Request) (resp.Result, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.DryRun(readStamp(lead, s.Clock.Monotonic(), wall), req)
}

// readStamp returns the stamp of a read at a monotonic time.
func readStamp(lead *clock.Leadership, now time.Duration, wall int64) resp.Stamp {
	return resp.Stamp{Tick: lead.TickAt(now), Wall: wall, Seed: rand.Uint64()}
}

// Leases returns the state of granted locks as of the last applied entry, and the log clock from which this node would
// continue if it led now.
func (s *State) Leases(locks []resp.HeldLock) (leases []resp.Lease, tick int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.Leases(locks), s.tick()
}

// Blocked returns the state of a blocking command.
func (s *State) Blocked(id resp.BlockID) resp.BlockState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.Blocks().State(id)
}

// refreshSessions publishes the sessions of blocking commands, which are read without the lock. mu is held.
func (s *State) refreshSessions() {
	all := s.Machine.Blocks().Sessions()
	s.sessionsRevision = s.Machine.Blocks().Revision()
	s.sessionsNow.Store(&all)
}

// Sessions lists the sessions of blocking commands.
func (s *State) Sessions() []resp.BlockSession { return *s.sessionsNow.Load() }

// Gifts lists the gifts to clients of a session by entries after an index whose delivery is not known.
func (s *State) Gifts(session, after uint64) []resp.BlockID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []resp.BlockID
	for _, g := range s.Machine.Blocks().Gifts(session) {
		if g.Entry > after {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// Given reports whether the gift of a blocking command can still be taken back.
func (s *State) Given(id resp.BlockID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.Blocks().Given(id)
}

// LeaseAges returns the ages of the leases of locks at a tick, in milliseconds; -1 for a lock that its token no longer
// holds.
func (s *State) LeaseAges(locks []resp.HeldLock, tick int64) []int64 {
	s.mu.Lock()
	leases := s.Machine.Leases(locks)
	s.mu.Unlock()
	ages := make([]int64, len(leases))
	for i, l := range leases {
		switch {
		case !l.Held || l.LeaseMs >= 0 && l.Until < tick:
			ages[i] = resp.ClaimRefused
		case l.LeaseMs >= 0:
			ages[i] = max(0, l.LeaseMs-(l.Until-tick))
		}
	}
	return ages
}

// slotKeysMax bounds the keys that one step of a walk looks at, under the lock.
const slotKeysMax = 1000

// KeysInSlot does a step of a walk through all keys from cursor on, 0 at first. It returns the keys of a slot that it
// meets, and the cursor to go on at; 0: there are no more.
func (s *State) KeysInSlot(slot int, cursor uint64) (keys []string, next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.KeysInSlot(slot, cursor, slotKeysMax)
}

// Settings lists every replicated setting, and the users.
func (s *State) Settings() []resp.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.Settings()
}

// Image captures the present state.
func (s *State) Image() *Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Image{Applied: s.applied, Roster: s.Roster(), Write: s.Machine.Snapshot()}
}

// Restore replaces the whole state by an image.
func (s *State) Restore(r io.Reader) error {
	in := bufio.NewReaderSize(r, 256<<10)
	applied, ros, err := record.ReadImage(in)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if applied < s.applied {
		return fmt.Errorf("%w: it ends with entry %d, and entry %d is applied here",
			ErrSnapshotKnown, applied, s.applied)
	}
	if err := s.Check(ros.Level); err != nil {
		return fmt.Errorf("%w: %w", ErrLevel, err)
	}
	s.Machine.SetLevel(ros.Level)
	if err := s.Machine.Restore(in); err != nil {
		return fmt.Errorf("%w: %w", record.ErrImage, err)
	}
	s.Led.Restart(s.Clock.Monotonic())
	s.applied = applied
	s.Applied.Store(applied)
	s.setRoster(ros)
	s.refreshDeadline()
	s.refreshFullDisks()
	s.refreshSessions()
	return nil
}

// Metrics returns the machine's figures, and its clock.
func (s *State) Metrics() (figures []resp.Metric, tick int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.Metrics(), s.Machine.Tick()
}

// Info lists the machine's sections of INFO.
func (s *State) Info() []resp.Section {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Machine.Info()
}

// ErrSnapshotKnown makes a leader send its snapshot again later. The leader was not this node's when the snapshot
// arrived, and this node needs no snapshot then.
var ErrSnapshotKnown = errors.New("the state reaches past this snapshot")

// ErrLevel is wrapped by the error of a state at a level that this lockd does not support.
var ErrLevel = errors.New("level")

// DigestAt is the digest of a state as of an entry.
type DigestAt struct{ Index, Digest uint64 }
