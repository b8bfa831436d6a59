package request

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/keyspace"
	"lockd/resp"
)

// configOf returns what a proposer uses of a node that does not lead.
func configOf(c clock.Clock) *Config {
	due := make(chan struct{}, 1)
	return &Config{Clock: c, Due: due, Lead: &clock.CurrentTerm{}, State: replica.New(replica.Config{Clock: c, Due: due})}
}

// A second entry follows the first once that is on the leader's disk, if it carries
// about as much; a third one waits.
func TestSecondEntryFollows(t *testing.T) {
	p := newProposer(configOf(clock.NewSystem()))
	lead := &clock.Leadership{}
	answered := 0
	submit := func(ops int) {
		for range ops {
			p.submit(&op{size: 1, done: func(peer.Outcome, resp.Result) { answered++ }})
		}
	}
	take := func(want int, when string) []*op {
		t.Helper()
		ops, wait := p.take(lead)
		if len(ops) != want || (wait == 0) != (want > 0) {
			t.Fatalf("%s: took %d ops and waits %s, want %d", when, len(ops), wait, want)
		}
		return ops
	}
	submit(10)
	first := take(10, "nothing on its way")
	submit(20)
	take(0, "the first entry is not on disk")
	p.Stored()
	second := take(20, "the first entry is on disk")
	submit(30)
	p.Stored()
	take(0, "two entries on their way")
	completeFlight(p, first)
	take(30, "the first has settled, the second is on disk")
	completeFlight(p, second)
	submit(14)
	p.Stored()
	take(0, "fewer than half of what is on its way wait")
	submit(1)
	take(15, "half of what is on its way waits")
	if answered != 30 {
		t.Errorf("%d ops were answered, want those of the two entries that settled", answered)
	}
}

// Ops that only join others wait for one, or until their time is over; they make no entry follow another.
func TestOpsThatJoin(t *testing.T) {
	stepping := &steppingClock{now: time.Hour}
	p := newProposer(configOf(stepping))
	lead := &clock.Leadership{Clock: stepping}
	submit := func(joins time.Duration) {
		p.submit(&op{size: 1, joins: joins, done: func(peer.Outcome, resp.Result) {}})
	}
	expect := func(want int, sleep time.Duration, when string) []*op {
		t.Helper()
		ops, wait := p.take(lead)
		if len(ops) != want || wait != sleep {
			t.Fatalf("%s: took %d ops and waits %s, want %d and %s", when, len(ops), wait, want, sleep)
		}
		return ops
	}
	submit(stepping.now + JoinMax)
	stepping.now += JoinMax / 4
	submit(stepping.now + JoinMax)
	expect(0, 3*JoinMax/4, "nobody to join")
	submit(0)
	first := expect(3, 0, "one to join")
	p.Stored()
	submit(stepping.now + JoinMax)
	submit(stepping.now + JoinMax)
	expect(0, clock.IdleMax, "an entry is on its way")
	submit(0)
	expect(0, clock.IdleMax, "fewer than half of what is on its way wait for an entry")
	submit(0)
	second := expect(4, 0, "half of it waits")
	completeFlight(p, first)
	completeFlight(p, second)
	submit(stepping.now + JoinMax)
	stepping.now += JoinMax
	expect(1, 0, "its time is over")
}

// A LOCK that came while the entry was on its way that frees its lock joins nobody when that has come.
func TestLockThatIsFreeByNow(t *testing.T) {
	stepping := &steppingClock{now: time.Hour}
	c := configOf(stepping)
	c.Lead.Store(&clock.Leadership{Clock: stepping})
	machine := keyspace.New(nil)
	c.State.Machine = machine
	p := newProposer(c)
	apply := func(line string) {
		machine.Apply(resp.Stamp{Index: 1}, []resp.Request{{Cmds: []resp.Cmd{{Args: strings.Fields(line)}}}})
	}
	apply("LOCK door alice PX 86400000")
	lock := resp.Request{Cmds: []resp.Cmd{{Args: strings.Fields("LOCK door bob PX 60000 WAIT 30000")}}}
	p.submit(&op{size: 1, req: lock, joins: stepping.now + JoinMax, done: func(peer.Outcome, resp.Result) {}})
	p.inFlight = 2
	for _, free := range []bool{false, true} {
		if free {
			apply("UNLOCK door alice")
		}
		completeFlight(p, nil)
		if joins := p.joining > 0; joins == free {
			t.Errorf("the lock is free: %v, the op joins others: %v", free, joins)
		}
	}
}

// completeFlight ends an entry of these ops.
func completeFlight(p *Proposer, ops []*op) {
	(&flight{p: p, took: len(ops), ops: ops}).complete(peer.NotDone, nil)
}

// However the proposer's looks at the clock fall, an op that waits is not left alone: it
// is taken, or the proposer wakes up when its wait for others is over.
func TestLoneOpIsNotForgotten(t *testing.T) {
	for ahead := range 8 {
		stepping := &steppingClock{now: time.Hour}
		c := configOf(stepping)
		c.Lead.Store(&clock.Leadership{Clock: stepping})
		p := newProposer(c)
		p.delay.batchDone(50, 0, time.Second, stepping.now)
		p.submit(&op{size: 1})
		stepping.step = p.delay.most / 4
		stepping.now += time.Duration(ahead) * stepping.step / 2
		if ops, wait := p.take(c.Lead.Load()); len(ops) == 0 && (wait <= 0 || wait > p.delay.most) {
			t.Errorf("the op waits, and the proposer sleeps for %s", wait)
		}
	}
}

// steppingClock goes on by a step at each look, as it may for a goroutine that is
// interrupted between two of them.
type steppingClock struct{ now, step time.Duration }

func (c *steppingClock) Wall() int64 { return 0 }

func (c *steppingClock) Monotonic() time.Duration {
	c.now += c.step
	return c.now
}

// A lease that is over is ended by an entry of its own; if Raft refuses that, as it does
// while leadership moves, the next try comes after a pause.
func TestTickIsNotTriedWithoutPause(t *testing.T) {
	stepping := &steppingClock{now: time.Hour}
	c := configOf(stepping)
	c.State = &replica.State{}
	p := newProposer(c)
	lead := &clock.Leadership{Clock: stepping, Base: 10}
	for range 2 {
		if ops, wait := p.take(lead); len(ops) > 0 || wait != 0 {
			t.Fatalf("a lease is over: %d ops, it waits %s", len(ops), wait)
		}
		completeFlight(p, nil)
		if _, wait := p.take(lead); wait != tickPause {
			t.Errorf("refused: it waits %s, want %s", wait, tickPause)
		}
		stepping.now += tickPause
	}
}

// Only refusals one after the other count, and none while a hand-over of ours is under way.
func TestTransferWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := false
		c := configOf(clock.NewSystem())
		c.Fatal = func(error) { stopped = true }
		p := newProposer(c)
		w := &p.transfer
		refuse := func(times int, pause time.Duration) {
			for range times {
				w.observe(raft.ErrLeadershipTransferInProgress)
				time.Sleep(pause)
			}
		}
		refuse(transferRefusalsMax-1, transferRefusalEvery)
		w.observe(nil)
		refuse(1, time.Hour) // the process is paused
		refuse(10*transferRefusalsMax, transferRefusalEvery/20)
		for range 4 {
			p.Pause(t.Context())
			refuse(transferRefusalsMax/2, transferRefusalEvery)
			p.Resume()
		}
		refuse(transferRefusalsMax-1, transferRefusalEvery)
		if stopped {
			t.Fatal("it stopped too soon")
		}
		if refuse(1, 0); !stopped {
			t.Error("it did not stop")
		}
	})
}

// Two hand-overs at a time hold the proposer until both are over.
func TestHoldsAddUp(t *testing.T) {
	p := newProposer(configOf(clock.NewSystem()))
	p.Pause(t.Context())
	p.Pause(t.Context())
	p.Resume()
	p.submit(&op{size: 1})
	if ops, _ := p.take(&clock.Leadership{}); len(ops) > 0 {
		t.Error("an entry leaves while leadership is being handed over")
	}
	p.Resume()
	if ops, _ := p.take(&clock.Leadership{}); len(ops) != 1 {
		t.Error("no entry leaves after the last hand-over")
	}
}

// What an error of Raft means for a request.
func TestOutcomeOfErrors(t *testing.T) {
	for err, want := range map[error]peer.Outcome{
		nil:                                  peer.Done,
		raft.ErrNotLeader:                    peer.NotDone,
		raft.ErrEnqueueTimeout:               peer.NotDone,
		raft.ErrLeadershipTransferInProgress: peer.NotDone,
		raft.ErrLeadershipLost:               peer.Unknown,
		raft.ErrRaftShutdown:                 peer.Unknown,
		errors.New("disk full"):              peer.Unknown,
	} {
		if got := OutcomeOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
