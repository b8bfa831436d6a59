package request

import (
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/resp"
)

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
	r := newReader(&Config{}, nil)
	var outcomes []peer.Outcome
	submit := func(size int) {
		r.submit(&op{size: size, done: func(o peer.Outcome, _ resp.Result) { outcomes = append(outcomes, o) }})
	}
	submit(2 * queueBytesMax)
	submit(1)
	if len(outcomes) != 1 || outcomes[0] != peer.NotDone {
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

// A rival that is not logged after all leaves its place to the next, and too many are
// logged as they come.
func TestRivals(t *testing.T) {
	var r keyGate
	lock := claim{key: "lock"}
	want := func(when string, c claim, first, waits bool) {
		t.Helper()
		if f, w := r.begin(c, &op{}); f != first || w != waits {
			t.Errorf("%s: first %v, waits %v", when, f, w)
		}
	}
	want("nobody is there", lock, true, false)
	want("another key", claim{key: "other"}, true, false)
	want("another database", claim{db: 1, key: "lock"}, true, false)
	for range gateMax {
		want("one is there", lock, false, true)
	}
	want("too many are there", lock, false, false)
	if n := len(r.end(lock)); n != gateMax {
		t.Errorf("%d have waited", n)
	}
	want("it has its answer", lock, true, false)
	large := &op{size: gateBytesMax}
	if _, waits := r.begin(lock, large); !waits {
		t.Error("a large one does not wait")
	}
	if _, waits := r.begin(lock, &op{size: 1}); waits {
		t.Error("more wait than the limit")
	}
	r.end(lock)
	if r.bytes != 0 {
		t.Errorf("nobody waits with %d bytes", r.bytes)
	}
}
