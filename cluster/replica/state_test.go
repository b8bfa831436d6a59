package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/figures"
	"lockd/cluster/membership"
	"lockd/cluster/record"
	"lockd/resp"
)

// fake is a machine that does what a test says, and holds that it is used under the state's lock.
type fake struct {
	Machine
	t *testing.T
	s *State

	now      time.Duration // the monotonic clock
	tick     int64
	deadline int64 // 0: none
	level    int
	nodes    string
	sessions []resp.BlockSession
	revision uint64
	gifts    []resp.BlockGift
	leases   []resp.Lease
	image    string
	err      error // of Restore and of a snapshot

	stamp   resp.Stamp // of the last request
	applies int
	before  uint64 // what counted as applied while the last entry was applied
	result  resp.Result
}

var _ resp.BlockView = (*fake)(nil)

func (m *fake) used() {
	m.t.Helper()
	if m.s.mu.TryLock() {
		m.s.mu.Unlock()
		m.t.Error("the machine is used without its lock")
	}
}

func (m *fake) Monotonic() time.Duration { return m.now }

func (*fake) Wall() int64 { return 77 }

func (m *fake) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	m.used()
	m.before = m.s.Applied.Load()
	m.stamp, m.tick, m.now = at, at.Tick, m.now+30*time.Millisecond
	m.applies++
	return make([]resp.Result, len(reqs)), []resp.Message{{}}
}

func (m *fake) View(at resp.Stamp, _ resp.Request) resp.Result {
	m.used()
	m.stamp, m.now = at, m.now+20*time.Millisecond
	return m.result
}

func (m *fake) DryRun(at resp.Stamp, _ resp.Request) (resp.Result, bool) {
	m.used()
	m.stamp = at
	return m.result, true
}

func (m *fake) Tick() int64 { m.used(); return m.tick }

func (m *fake) NextDeadline() (int64, bool) { m.used(); return m.deadline, m.deadline != 0 }

func (m *fake) Blocks() resp.BlockView { m.used(); return m }

func (m *fake) KeysInSlot(int, uint64, int) ([]string, uint64) { m.used(); return nil, 0 }

func (m *fake) Leases([]resp.HeldLock) []resp.Lease { m.used(); return m.leases }

func (m *fake) Settings() []resp.Message { m.used(); return nil }

func (m *fake) FullDisks() (nodes, refusal string) { m.used(); return m.nodes, "full: " + m.nodes }

func (m *fake) Info() []resp.Section { m.used(); return nil }

func (m *fake) Metrics() []resp.Metric { m.used(); return nil }

func (m *fake) Digest() uint64 { m.used(); return 99 }

func (m *fake) SetLevel(level int) { m.used(); m.level = level }

func (m *fake) Snapshot() func(io.Writer) error {
	m.used()
	text, err := m.image, m.err
	return func(w io.Writer) error {
		_, _ = io.WriteString(w, text)
		return err
	}
}

func (m *fake) Restore(r io.Reader) error {
	m.used()
	text, err := io.ReadAll(r)
	m.image = string(text)
	return errors.Join(err, m.err)
}

func (m *fake) State(resp.BlockID) resp.BlockState { m.used(); return resp.BlockWaiting }

func (m *fake) Sessions() []resp.BlockSession { m.used(); return m.sessions }

func (m *fake) Revision() uint64 { m.used(); return m.revision }

func (m *fake) Gifts(uint64) []resp.BlockGift { m.used(); return m.gifts }

func (m *fake) Given(resp.BlockID) bool { m.used(); return true }

// Find knows the command SET, of level 2.
func (m *fake) Find(args resp.Args) (*resp.Spec, resp.Reply) {
	if args[0] == "SET" {
		return &resp.Spec{Name: "set", Level: 2}, resp.Reply{}
	}
	return nil, resp.Err("ERR unknown command " + args[0])
}

// start returns a state over a fake machine, at level 2.
func start(t *testing.T) (*State, *fake) {
	roster := membership.Empty.With(membership.Change{Level: 2})
	m := &fake{t: t, revision: 1}
	m.s = New(Config{
		Machine: m, Clock: m, Due: make(chan struct{}, 1),
		Roster: func() *membership.Roster { return roster },
		Use:    func(next *membership.Roster) { m.used(); roster = next },
		Check: func(level int) error {
			if level > 3 {
				return fmt.Errorf("level %d", level)
			}
			return nil
		},
	})
	return m.s, m
}

// apply applies an entry with requests at an index.
func (m *fake) apply(index uint64, tick int64, reqs ...resp.Request) *Applied {
	did, _ := m.s.Apply(&raft.Log{Index: index, Term: 4}, &record.Entry{Kind: record.Batch, Term: 4, Tick: tick, Wall: 5, Reqs: reqs})
	return did
}

func (m *fake) isDue() bool {
	select {
	case <-m.s.Due:
		return true
	default:
		return false
	}
}

func work(s *State) (count int64, took float64) {
	for _, of := range s.Work.Metric().Of {
		count, took = count+of.Count, took+of.Value
	}
	return count, took
}

var set = resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SET"}, Spec: &resp.Spec{Group: "string"}}}}

// Every method that uses the machine holds its lock meanwhile, and lets go of it.
func TestOneLock(t *testing.T) {
	s, m := start(t)
	lead := &clock.Leadership{Clock: m}
	var image bytes.Buffer
	for name, call := range map[string]func(){
		"Apply":     func() { m.apply(1, 1, set) },
		"roster":    func() { s.Apply(&raft.Log{Index: 1}, &record.Entry{Kind: record.Roster}) },
		"void":      func() { s.Apply(&raft.Log{Index: 1, Term: 1}, &record.Entry{}) },
		"GoOn":      func() { s.GoOn() },
		"DigestNow": func() { s.DigestNow() },
		"View":      func() { s.View(lead, 0, set) },
		"DryRun":    func() { s.DryRun(lead, 0, set) },
		"Leases":    func() { s.Leases(nil) },
		"Blocked":   func() { s.Blocked(resp.BlockID{}) },
		"Gifts":     func() { s.Gifts(1, 1) },
		"Given":     func() { s.Given(resp.BlockID{}) },
		"LeaseAges": func() { s.LeaseAges(nil, 1) },
		"keys":      func() { s.KeysInSlot(1, 1) },
		"Settings":  func() { s.Settings() },
		"Image":     func() { _ = s.Image().Save(&image) },
		"Restore":   func() { _ = s.Restore(bytes.NewReader(record.AppendImageHead(nil, 9, membership.Empty))) },
		"older":     func() { _ = s.Restore(bytes.NewReader(record.AppendImageHead(nil, 0, membership.Empty))) },
		"Metrics":   func() { s.Metrics() },
		"Info":      func() { s.Info() },
	} {
		call()
		if !s.mu.TryLock() {
			t.Fatalf("%s keeps the lock", name)
		}
		s.mu.Unlock()
	}
}

func TestNew(t *testing.T) {
	s, _ := start(t)
	if s.Deadline.Load() != NoDeadline || s.Full.Load() == nil || s.Full.Load().Nodes != "" || len(s.Sessions()) != 0 {
		t.Errorf("deadline %d, full %v, sessions %v", s.Deadline.Load(), s.Full.Load(), s.Sessions())
	}
}

// An entry reaches the machine with its stamp, counts as applied, and its results have its index.
func TestApply(t *testing.T) {
	s, m := start(t)
	did := m.apply(7, 100, set, set)
	want := resp.Stamp{Tick: 100, Wall: 5, Index: 7, Seed: mix(7)}
	if m.stamp != want || did.Void || len(did.Results) != 2 || did.Results[1].Index != 7 || s.Applied.Load() != 7 {
		t.Errorf("%+v, %+v, applied %d", m.stamp, did, s.Applied.Load())
	}
	if m.before != 0 {
		t.Errorf("entry %d counts as applied while the machine applies it: others may learn of its commit", m.before)
	}
	if at := s.DigestNow(); at != (DigestAt{7, 99}) {
		t.Errorf("%+v", at)
	}
	if count, took := work(s); count != 2 || took != 0.03 {
		t.Errorf("%d commands in %v s", count, took)
	}
	m.apply(8, 100, set)
	if count, took := work(s); count != 3 || took != 0.06 {
		t.Errorf("%d commands in %v s", count, took)
	}
}

// An entry that is stamped in another term counts as applied, and does nothing.
func TestApplyVoid(t *testing.T) {
	s, m := start(t)
	did, _ := s.Apply(&raft.Log{Index: 3, Term: 5}, &record.Entry{Kind: record.Batch, Term: 4, Reqs: []resp.Request{set}})
	if !did.Void || m.applies != 0 || s.Applied.Load() != 3 {
		t.Errorf("%+v, %d applied by the machine, up to %d", did, m.applies, s.Applied.Load())
	}
}

// A change of the roster is in use once it is applied, and so is its level.
func TestApplyRoster(t *testing.T) {
	s, m := start(t)
	did, _ := s.Apply(&raft.Log{Index: 3}, &record.Entry{Kind: record.Roster, Change: membership.Change{Cluster: "c", Level: 3}})
	if did.Void || s.Roster().Cluster != "c" || m.level != 3 || m.applies != 0 {
		t.Errorf("%+v, roster %+v, level %d", did, s.Roster(), m.level)
	}
}

// The proposer is told the next deadline when it is another one: that of the machine, within what the clock may lag.
func TestDeadline(t *testing.T) {
	s, m := start(t)
	lag := clock.LagMax.Milliseconds()
	for i, step := range []struct {
		deadline, want int64
		due            bool
	}{
		{0, NoDeadline, false}, {150, 150, true}, {150, 150, false}, {100 + lag, 100 + lag, true}, {101 + lag, 100 + lag, false},
		{120, 120, true}, {0, NoDeadline, true},
	} {
		m.deadline = step.deadline
		m.apply(uint64(i+1), 100)
		if have, due := s.Deadline.Load(), m.isDue(); have != step.want || due != step.due {
			t.Errorf("step %d: deadline %d, told %v", i, have, due)
		}
	}
}

// Which disks are full, and which sessions there are, is known without the lock as of the last entry.
func TestKnownWithoutTheLock(t *testing.T) {
	s, m := start(t)
	m.nodes, m.sessions, m.revision = "n1", []resp.BlockSession{{ID: 5}}, 2
	m.apply(1, 1)
	if *s.Full.Load() != (fullNow{"n1", "full: n1"}) || len(s.Sessions()) != 1 {
		t.Errorf("%v, %v", s.Full.Load(), s.Sessions())
	}
	full := s.Full.Load()
	m.sessions = nil // with the same revision it is not asked for
	m.apply(2, 1)
	if s.Full.Load() != full || len(s.Sessions()) != 1 {
		t.Errorf("%v, %v", s.Full.Load(), s.Sessions())
	}
	m.nodes, m.revision = "", 3
	m.apply(3, 1)
	if s.Full.Load().Nodes != "" || len(s.Sessions()) != 0 {
		t.Errorf("%v, %v", s.Full.Load(), s.Sessions())
	}
}

// The seed of commands that draw at random is a part of what all nodes do: it is that of splitmix64, for ever.
func TestMixNeverChanges(t *testing.T) {
	if mix(1) != 0x910a2dec89025cc1 {
		t.Errorf("%#x", mix(1))
	}
}

// A new leader's clock goes on by the time for which there certainly was a leader after the last entry: not by the time
// before that entry, nor by the time without a leader.
func TestLeasesRanOn(t *testing.T) {
	s, m := start(t)
	s.Led.Heard(3, m.now, 0)
	m.now += time.Second
	s.Led.Heard(3, m.now, m.now)
	m.apply(1, 1000) // the second before counts no more
	if tick, wall := s.GoOn(); tick != 1000 || wall != 77 {
		t.Errorf("goes on at %d, %d", tick, wall)
	}
	m.now += 500 * time.Millisecond
	s.Led.Heard(3, m.now, m.now-200*time.Millisecond) // it led in the first 300 at least
	if tick, _ := s.GoOn(); tick != 1300 {
		t.Errorf("goes on at %d", tick)
	}
	if _, tick := s.Leases(nil); tick != 1300 {
		t.Errorf("leases as of %d", tick)
	}
}

// A read has the tick of the leader and the time that clients are shown. How long it took is counted.
func TestView(t *testing.T) {
	s, m := start(t)
	m.now = time.Second
	lead := &clock.Leadership{Clock: m, Base: 5000, Origin: 400 * time.Millisecond}
	if res := s.View(lead, 8, set); res.TookNs != int64(20*time.Millisecond) || m.stamp.Tick != 5600 || m.stamp.Wall != 8 {
		t.Errorf("%+v at %+v", res, m.stamp)
	}
	if count, took := work(s); count != 1 || took != 0.02 {
		t.Errorf("%d commands in %v s", count, took)
	}
	if s.DryRun(lead, 9, set); m.stamp.Tick != 5620 || m.stamp.Wall != 9 {
		t.Errorf("a dry run at %+v", m.stamp)
	}
}

// The requests of an entry share its time by their work.
func TestShareOut(t *testing.T) {
	var w figures.Executions
	results := []resp.Result{{Work: 90}, {Work: 0}, {Work: 9}}
	shareOut(&w, []resp.Request{set, set, set}, results, 100*time.Millisecond)
	for i, want := range []time.Duration{90, 1, 9} {
		if results[i].TookNs != int64(want*time.Millisecond) {
			t.Errorf("request %d took %d", i, results[i].TookNs)
		}
	}
	if of := w.Metric().Of[0]; of.Count != 3 || of.Value != 0.1 {
		t.Errorf("%+v is counted", of)
	}
}

func TestGifts(t *testing.T) {
	s, m := start(t)
	for i := range uint64(3) {
		m.gifts = append(m.gifts, resp.BlockGift{ID: resp.BlockID{Number: i}, Entry: 10 + i})
	}
	if ids := s.Gifts(1, 10); !slices.Equal(ids, []resp.BlockID{{Number: 1}, {Number: 2}}) {
		t.Errorf("%v", ids)
	}
}

// The age of a lease is the time since its last renewal; a lease that is over by the tick is none, and a lock without a
// lease has the age 0.
func TestLeaseAges(t *testing.T) {
	s, m := start(t)
	for _, c := range []struct {
		lease resp.Lease
		age   int64
	}{
		{resp.Lease{Held: true, LeaseMs: 30, Until: 120}, 10},
		{resp.Lease{Held: true, LeaseMs: 30, Until: 140}, 0}, // its renewal is ahead of the tick
		{resp.Lease{Held: true, LeaseMs: 30, Until: 100}, 30},
		{resp.Lease{Held: true, LeaseMs: 30, Until: 99}, resp.ClaimRefused},
		{resp.Lease{LeaseMs: 30, Until: 120}, resp.ClaimRefused},
		{resp.Lease{Held: true, LeaseMs: -1, Until: 0}, 0},
		{resp.Lease{Held: true, LeaseMs: 0, Until: 99}, resp.ClaimRefused},
		{resp.Lease{Held: true, LeaseMs: 0, Until: 100}, 0},
	} {
		m.leases = []resp.Lease{{}, c.lease}
		if ages := s.LeaseAges(make([]resp.HeldLock, 2), 100); len(ages) != 2 || ages[0] != resp.ClaimRefused || ages[1] != c.age {
			t.Errorf("%+v: %v", c.lease, ages)
		}
	}
}

// An image that is restored replaces all: what is applied, the roster, the level, deadline, disks and sessions.
func TestRestore(t *testing.T) {
	s, m := start(t)
	m.apply(5, 100)
	m.image = "state"
	roster := membership.Empty.With(membership.Change{Cluster: "other", Level: 3})
	var image bytes.Buffer
	if err := (&Image{Applied: 5, Roster: roster, Write: m.text("state of before")}).Save(&image); err != nil {
		t.Fatal(err)
	}
	m.deadline, m.nodes, m.sessions, m.revision = 130, "n2", []resp.BlockSession{{ID: 9}}, 6
	if m.now = time.Hour; m.isDue() {
		t.Error("a deadline is told that nobody set")
	}
	s.Led.Heard(1, 0, 0)
	s.Led.Heard(1, m.now, m.now)
	if err := s.Restore(bytes.NewReader(image.Bytes())); err != nil {
		t.Fatal(err)
	}
	if m.image != "state of before" || m.level != 3 || s.Roster().Cluster != "other" || s.Applied.Load() != 5 ||
		s.Deadline.Load() != 130 || s.Full.Load().Nodes != "n2" || len(s.Sessions()) != 1 || s.Led.Ran() != 0 {
		t.Errorf("%q, level %d, %+v, applied %d", m.image, m.level, s.Roster(), s.Applied.Load())
	}
	later := record.AppendImageHead(nil, 8, roster)
	if err := s.Restore(bytes.NewReader(later)); err != nil || s.Applied.Load() != 8 || s.Image().Applied != 8 {
		t.Errorf("%v, applied %d", err, s.Applied.Load())
	}
}

// text writes a text.
func (*fake) text(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// An image is refused that is older than the state, of a level that this node cannot do, or unreadable.
func TestRestoreRefused(t *testing.T) {
	s, m := start(t)
	m.apply(5, 100)
	head := func(applied uint64, level int) io.Reader {
		return bytes.NewReader(record.AppendImageHead(nil, applied, membership.Empty.With(membership.Change{Level: level})))
	}
	for _, c := range []struct {
		image io.Reader
		want  error
	}{{strings.NewReader("nothing"), record.ErrImage}, {head(4, 1), ErrSnapshotKnown}, {head(5, 4), ErrLevel}} {
		if err := s.Restore(c.image); !errors.Is(err, c.want) {
			t.Errorf("%v, not %v", err, c.want)
		}
	}
	if s.Applied.Load() != 5 || m.image != "" {
		t.Error("an image that is refused has changed the state")
	}
	m.err = errors.New("torn")
	if err := s.Restore(head(6, 3)); !errors.Is(err, record.ErrImage) || s.Applied.Load() != 5 || s.Roster().Level != 2 {
		t.Errorf("%v, applied %d", err, s.Applied.Load())
	}
	if m.level != 3 {
		t.Errorf("the machine reads an image of level 3 at level %d", m.level)
	}
}

// The hash of an image follows from the state and the roster, not from the last entry. What cannot be written is an
// error.
func TestImage(t *testing.T) {
	s, m := start(t)
	hash := func() string {
		t.Helper()
		h, err := s.Image().Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	m.image = "state"
	was := hash()
	if m.apply(3, 1); hash() != was {
		t.Error("the hash follows from the entry")
	}
	if m.image = "another"; hash() == was {
		t.Error("another state has the same hash")
	}
	m.image = "state"
	s.Apply(&raft.Log{Index: 4}, &record.Entry{Kind: record.Roster, Change: membership.Change{Cluster: "c"}})
	if hash() == was {
		t.Error("another roster has the same hash")
	}
	m.err = errors.New("full")
	if _, err := s.Image().Hash(); !errors.Is(err, m.err) {
		t.Error(err)
	}
	if err := s.Image().Save(io.Discard); !errors.Is(err, m.err) {
		t.Error(err)
	}
	if err := s.Image().Save(&brokenWriter{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

type brokenWriter struct{ written int }

func (w *brokenWriter) Write([]byte) (int, error) {
	if w.written++; w.written == 1 {
		return 0, io.ErrClosedPipe
	}
	return 0, io.ErrShortWrite
}

// An entry fits if this node can do its level, and its machine knows the commands at the level in force. They have their
// rows then. Of a void entry nothing is asked.
func TestFitsEntry(t *testing.T) {
	s, _ := start(t)
	entry := func(level int, name string) *record.Entry {
		return &record.Entry{Term: 4, Change: membership.Change{Level: level}, Reqs: []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{name}}}}}}
	}
	fits := entry(3, "SET")
	if err := s.FitsEntry(&raft.Log{Term: 4}, fits); err != nil || fits.Reqs[0].Cmds[0].Spec == nil {
		t.Error(err)
	}
	if err := s.FitsEntry(&raft.Log{Term: 5}, entry(4, "GET")); err != nil {
		t.Errorf("a void entry: %v", err)
	}
	if err := s.FitsEntry(&raft.Log{Term: 4}, entry(4, "SET")); err == nil || err.Error() != "level 4" {
		t.Error(err)
	}
	long := strings.Repeat("x", 200)
	want := "a command that this version of lockd does not know: " + ("ERR unknown command " + long)[:128]
	if err := s.FitsEntry(&raft.Log{Term: 4}, entry(0, long)); err == nil || err.Error() != want {
		t.Error(err)
	}
	s.Use = nil
	s.Roster = func() *membership.Roster { return membership.Empty }
	want = "a command that this version of lockd does not know: 'set' comes with level 2 of the cluster, and level 1 is in force"
	if err := s.FitsEntry(&raft.Log{Term: 4}, entry(0, "SET")); err == nil || err.Error() != want {
		t.Error(err)
	}
}
