package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
)

// A read asks the member that answered last, and the other one as soon as that one is
// silent for a moment: so a member that is cut off delays one read, and only so long.
func TestReadAsksTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		time.Sleep(5 * time.Second) // the roster is complete
		c.expect(leader, "SET k v", "+OK")
		took := func() time.Duration {
			start := time.Now()
			c.expect(leader, "GET k", "$1 v")
			return time.Since(start)
		}
		for i, silent := range append(c.others(leader), c.others(leader)...) {
			c.net.Partition([]string{silent.addr}, []string{leader.addr})
			first, second := took(), took()
			if first != hedgeAfter && i > 0 || first > hedgeAfter || second > 0 {
				t.Errorf("%s is silent: a read took %s, the next one %s; want %s (the first time it may be nothing), then nothing",
					silent.id, first, second, hedgeAfter)
			}
			c.net.Heal()
			time.Sleep(5 * time.Second) // its answers of before arrive
			c.leader()
		}
	})
}

// Who answered last is asked first, who did not answer last.
func TestPrompt(t *testing.T) {
	gone := ""
	p := responders{gone: func(id string) bool { return id == gone }}
	ask := func() (ids []raft.ServerID) {
		for _, s := range p.order([]raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}}) {
			ids = append(ids, s.ID)
		}
		return ids
	}
	want := func(when string, ids ...raft.ServerID) {
		t.Helper()
		if got := ask(); !slices.Equal(got, ids) {
			t.Errorf("%s: the order is %v, want %v", when, got, ids)
		}
	}
	want("at first", "a", "b", "c")
	p.record("b", true)
	want("b has answered", "b", "a", "c")
	p.record("c", true)
	p.record("c", true)
	want("c has answered", "c", "b", "a")
	p.record("c", false)
	want("c has not", "b", "a", "c")
	gone = "b"
	want("the process of b has ended", "a", "c", "b")
}

// The bytes of those that wait for a round are bounded; a round makes room again, and one
// request finds room however large it is.
func TestReadsWaitingAreBounded(t *testing.T) {
	r := newReader(nil, nil, nil, nil, nil)
	var outcomes []outcome
	submit := func(size int) {
		r.submit(&op{size: size, done: func(o outcome, _ resp.Result) { outcomes = append(outcomes, o) }})
	}
	submit(2 * queueBytesMax)
	submit(1)
	if len(outcomes) != 1 || outcomes[0] != outcomeNotDone {
		t.Errorf("beside one that is too large: %v", outcomes)
	}
	if ops := r.takeAll(); len(ops) != 1 {
		t.Errorf("%d wait", len(ops))
	}
	submit(queueBytesMax - 1)
	submit(1)
	if len(outcomes) != 1 {
		t.Errorf("there is room: %v", outcomes)
	}
}
