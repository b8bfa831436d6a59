package cluster

import (
	"testing"

	"lockd/resp"
)

// A second entry follows the first once that is on the leader's disk, if it carries
// about as much; a third one waits.
func TestSecondEntryFollows(t *testing.T) {
	p := newProposer(&Node{clock: NewSystemClock()})
	lead := &leadership{}
	answered := 0
	submit := func(ops int) {
		for range ops {
			p.submit(&op{size: 1, done: func(outcome, resp.Result) { answered++ }})
		}
	}
	take := func(want int, when string) []*op {
		t.Helper()
		ops, ok := p.take(lead)
		if len(ops) != want || ok != (want > 0) {
			t.Fatalf("%s: took %d ops (%t), want %d", when, len(ops), ok, want)
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
	settle(p, first)
	take(30, "the first has settled, the second is on disk")
	settle(p, second)
	submit(14)
	p.stored()
	take(0, "fewer than half of what is on its way wait")
	submit(1)
	take(15, "half of what is on its way waits")
	if answered != 30 {
		t.Errorf("%d ops were answered, want those of the two entries that settled", answered)
	}
}

// settle ends an entry of these ops.
func settle(p *proposer, ops []*op) {
	(&flight{p: p, took: len(ops), ops: ops}).settle(outcomeNotDone, nil)
}
