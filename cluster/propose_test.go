package cluster

import (
	"testing"
	"time"

	"lockd/resp"
)

// A second entry follows the first once that is on the leader's disk, if it carries
// about as much; a third one waits.
func TestSecondEntryFollows(t *testing.T) {
	p := newProposer(newCore(Config{Clock: NewSystemClock()}), nil, nil)
	lead := &leadership{}
	answered := 0
	submit := func(ops int) {
		for range ops {
			p.submit(&op{size: 1, done: func(outcome, resp.Result) { answered++ }})
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
	p.stored()
	second := take(20, "the first entry is on disk")
	submit(30)
	p.stored()
	take(0, "two entries on their way")
	completeFlight(p, first)
	take(30, "the first has settled, the second is on disk")
	completeFlight(p, second)
	submit(14)
	p.stored()
	take(0, "fewer than half of what is on its way wait")
	submit(1)
	take(15, "half of what is on its way waits")
	if answered != 30 {
		t.Errorf("%d ops were answered, want those of the two entries that settled", answered)
	}
}

// completeFlight ends an entry of these ops.
func completeFlight(p *proposer, ops []*op) {
	(&flight{p: p, took: len(ops), ops: ops}).complete(outcomeNotDone, nil)
}

// However the proposer's looks at the clock fall, an op that waits is not left alone: it
// is taken, or the proposer wakes up when its wait for others is over.
func TestLoneOpIsNotForgotten(t *testing.T) {
	for ahead := range 8 {
		clock := &steppingClock{now: time.Hour}
		c := newCore(Config{Clock: clock})
		c.lead.Store(&leadership{clock: clock})
		p := newProposer(c, newState(c, nil, nil), nil)
		p.delay.batchDone(50, 0, time.Second, clock.now)
		p.submit(&op{size: 1})
		clock.step = p.delay.most / 4
		clock.now += time.Duration(ahead) * clock.step / 2
		if ops, wait := p.take(c.lead.Load()); len(ops) == 0 && (wait <= 0 || wait > p.delay.most) {
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
	clock := &steppingClock{now: time.Hour}
	p := newProposer(newCore(Config{Clock: clock}), &state{}, nil)
	lead := &leadership{clock: clock, base: 10}
	for range 2 {
		if ops, wait := p.take(lead); len(ops) > 0 || wait != 0 {
			t.Fatalf("a lease is over: %d ops, it waits %s", len(ops), wait)
		}
		completeFlight(p, nil)
		if _, wait := p.take(lead); wait != tickPause {
			t.Errorf("refused: it waits %s, want %s", wait, tickPause)
		}
		clock.now += tickPause
	}
}
