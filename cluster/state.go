package cluster

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
	"lockd/cluster/record"
	"lockd/cluster/wake"
	"lockd/resp"
)

// state is what the log has made of this node so far: the machine, behind the one lock around it,
// and how far it has come. Only the goroutine that applies the log changes it.
type state struct {
	*core
	members *members

	mu      sync.Mutex // the one lock around the machine
	machine Machine
	applied uint64 // index of the last entry applied
	// appliedAt is the monotonic time at which the machine's tick was last set.
	appliedAt time.Duration

	// deadline is the tick after which the leader must propose a tick; noDeadline if no lease runs.
	deadline     atomic.Int64
	appliedNow   atomic.Uint64                       // as applied, without the lock
	digest       atomic.Pointer[digestAt]            // as of the last entry applied; nil: none
	full         atomic.Pointer[fullNow]             // as of the last entry applied
	deliveredNow atomic.Uint64                       // the last entry whose messages this node has delivered
	sessionsNow  atomic.Pointer[[]resp.BlockSession] // of blocking commands, as of the last entry applied

	sessionsRevision uint64 // of the machine, for sessionsNow

	work figures.Executions
}

func newState(c *core, machine Machine, m *members) *state {
	s := &state{core: c, machine: machine, members: m}
	s.deadline.Store(noDeadline)
	s.full.Store(&fullNow{})
	s.sessionsNow.Store(&[]resp.BlockSession{})
	return s
}

// fullNow are the nodes whose disks keep the state from growing, and how what would let it grow is answered.
type fullNow struct{ nodes, refusal string }

// refreshFullDisks has the requests be judged by the setting as it is now. mu is held.
func (s *state) refreshFullDisks() {
	if nodes, refusal := s.machine.FullDisks(); nodes != s.full.Load().nodes {
		s.full.Store(&fullNow{nodes, refusal})
	}
}

// applied is what Apply hands to the future of an entry.
type applied struct {
	void    bool // stamped in another term: no node executes it
	results []resp.Result
}

// noDeadline is state.deadline while no lease runs.
const noDeadline = math.MaxInt64

// apply is where the machine changes.
func (s *state) apply(l *raft.Log, e *record.Entry) (*applied, []resp.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = l.Index
	s.appliedNow.Store(l.Index)
	if e.Term != l.Term {
		// The stamp may be ahead of the clock of the leader that logged the entry, so applying
		// it could end a lease early. Every node compares the same two terms.
		return &applied{void: true}, nil
	}
	if e.Kind == record.Roster {
		s.setRoster(s.members.roster.Load().With(e.Change))
		return &applied{}, nil
	}
	stamp := resp.Stamp{Tick: e.Tick, Wall: e.Wall, Index: l.Index, Seed: mix(l.Index)}
	began := s.clock.Monotonic()
	results, msgs := s.machine.Apply(stamp, e.Reqs)
	s.executed(e.Reqs, results, s.clock.Monotonic()-began)
	for i := range results {
		results[i].Index = l.Index
	}
	s.appliedAt = s.clock.Monotonic()
	s.refreshDeadline()
	s.refreshFullDisks()
	if s.machine.BlockRevision() != s.sessionsRevision {
		s.refreshSessions()
	}
	return &applied{results: results}, msgs
}

// setRoster takes a new roster into use, and the level that it says. mu is held.
func (s *state) setRoster(next *membership.Roster) {
	s.machine.SetLevel(next.Level)
	s.members.set(next)
}

// refreshDeadline tells the proposer the tick past which the leader must propose an entry if nothing
// else is written: the machine's next deadline, or clockLagMax from now if that is sooner. mu
// is held.
func (s *state) refreshDeadline() {
	deadline, ok := s.machine.NextDeadline()
	if ok {
		deadline = min(deadline, s.machine.Tick()+clock.LagMax.Milliseconds())
	} else {
		deadline = noDeadline
	}
	if s.deadline.Swap(deadline) != deadline {
		wake.Signal(s.wakeProposer)
	}
}

// mix spreads an index over 64 bits (splitmix64), so that commands that draw at
// random draw the same on every node.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// ledSinceApplied is how long a leader was heard from, the last time at heard, after the last entry
// was applied here. Leases ran on in that time, although nobody wrote. It cannot exceed the real time
// since the entry was stamped, because the entry was applied after that; so no lease ends early by
// it. The time after the leader's last message does not count. mu is held.
func (s *state) ledSinceApplied(heard time.Time) time.Duration {
	if heard.IsZero() {
		return 0
	}
	return max(s.clock.Monotonic()-s.appliedAt-clock.Since(heard), 0)
}

// goOn is the log clock from which a leader goes on that heard from the one before at heard, the
// last time.
func (s *state) goOn(heard time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Tick() + s.ledSinceApplied(heard).Milliseconds()
}

// digestNow is the digest as of the last entry applied.
func (s *state) digestNow() digestAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return digestAt{s.applied, s.machine.Digest()}
}

// wall is the cluster's time as of the last entry applied, in microseconds since 1970.
func (s *state) wall() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Wall()
}

// view runs a request against the applied state, at a time of the cluster that clients may be shown (reader.show).
func (s *state) view(lead *clock.Leadership, wall int64, req resp.Request) resp.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.clock.Monotonic()
	res := s.machine.View(readStamp(lead, began, wall), req)
	took := s.clock.Monotonic() - began
	res.TookNs = int64(took)
	s.work.Add(req.Cmds, took)
	return res
}

// executed shares the time of an entry out among its requests, by the work that each was, and counts it.
func (s *state) executed(reqs []resp.Request, results []resp.Result, took time.Duration) {
	work := 0.0
	for i := range results {
		work += shareOf(&results[i])
	}
	for i := range results {
		results[i].TookNs = int64(float64(took) * shareOf(&results[i]) / work)
		s.work.Add(reqs[i].Cmds, time.Duration(results[i].TookNs))
	}
}

// shareOf is what a request counts for in the time of its entry: something even where it did nothing.
func shareOf(r *resp.Result) float64 { return float64(max(r.Work, 1)) }

// dryRun asks the machine whether a request that may write would change nothing, and what
// it is answered then. wall is as for view; 0: that of the last entry will do, as the answer is not for a client yet.
func (s *state) dryRun(lead *clock.Leadership, wall int64, req resp.Request) (resp.Result, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Try(readStamp(lead, s.clock.Monotonic(), wall), req)
}

// readStamp is the stamp of a read at a monotonic time.
func readStamp(lead *clock.Leadership, now time.Duration, wall int64) resp.Stamp {
	return resp.Stamp{Tick: lead.TickAt(now), Wall: wall, Seed: rand.Uint64()}
}

func (s *state) blocked(id resp.BlockID) resp.BlockState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Blocked(id)
}

// refreshSessions has the sessions of blocking commands be known without the lock. mu is held.
func (s *state) refreshSessions() {
	all := s.machine.BlockSessions()
	s.sessionsRevision = s.machine.BlockRevision()
	s.sessionsNow.Store(&all)
}

// sessions lists the sessions of blocking commands.
func (s *state) sessions() []resp.BlockSession { return *s.sessionsNow.Load() }

// gifts lists what clients of a session were given by entries after an index, and have perhaps not heard of.
func (s *state) gifts(session, after uint64) []resp.BlockID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []resp.BlockID
	for _, g := range s.machine.BlockGifts(session) {
		if g.Entry > after {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// given reports whether what was given under a name can still be taken back.
func (s *state) given(id resp.BlockID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.BlockGiven(id)
}

// leaseAges returns for how many milliseconds the leases of locks have run at a tick; -1 of one that its token does not
// hold any more.
func (s *state) leaseAges(locks []resp.HeldLock, tick int64) []int64 {
	s.mu.Lock()
	leases := s.machine.Leases(locks)
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

func (s *state) settings() []resp.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Settings()
}

// image captures the present state.
func (s *state) image(pace *snapshots) *image {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &image{pace: pace, applied: s.applied, roster: s.members.roster.Load(), write: s.machine.Snapshot()}
}

// restore replaces the whole state by an image.
func (s *state) restore(r io.Reader) error {
	in := bufio.NewReaderSize(r, 256<<10)
	applied, ros, err := record.ReadImage(in)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if applied < s.applied {
		return fmt.Errorf("%w: it ends with entry %d, and entry %d is applied here",
			errSnapshotKnown, applied, s.applied)
	}
	if ros.Level > s.members.highest {
		return fmt.Errorf("%w: %w", errLevel, s.members.tooOld(ros.Level))
	}
	s.machine.SetLevel(ros.Level)
	if err := s.machine.Restore(in); err != nil {
		return fmt.Errorf("%w: %w", record.ErrImage, err)
	}
	s.applied, s.appliedAt = applied, s.clock.Monotonic()
	s.appliedNow.Store(applied)
	s.setRoster(ros)
	s.refreshDeadline()
	s.refreshFullDisks()
	s.refreshSessions()
	return nil
}

// metrics are the machine's figures, and its clock.
func (s *state) metrics() (figures []resp.Metric, tick int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Metrics(), s.machine.Tick()
}

// info lists the machine's sections of INFO.
func (s *state) info() []resp.Section {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Info()
}

// errSnapshotKnown makes a leader send its snapshot again later. It was not this node's leader when
// the snapshot arrived, and needs none then.
var errSnapshotKnown = errors.New("the state reaches past this snapshot")

// errLevel is wrapped by the error of a state whose level this lockd cannot do.
var errLevel = errors.New("level")

// digestAt is a state's digest as of an entry.
type digestAt struct{ index, digest uint64 }
