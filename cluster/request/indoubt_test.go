package request

import (
	"testing"

	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/resp"
)

func command(args ...string) resp.Request {
	return resp.Request{Cmds: []resp.Cmd{{Args: args}}}
}

// The attempts of a node, one case after the other.
func TestAttempts(t *testing.T) {
	entryOf := func(from ...record.Origin) *record.Entry {
		e := &record.Entry{Origins: from}
		for range from {
			e.Reqs = append(e.Reqs, command("INCR", "count"))
		}
		return e
	}
	did := func(n int) *replica.Applied {
		a := &replica.Applied{}
		for i := range n {
			a.Results = append(a.Results, resp.Result{Replies: []resp.Reply{resp.Int(int64(i))}})
		}
		return a
	}
	r, woken := newAttempts(), 0
	begin := func(term uint64) *attempt { return r.begin(term, func() { woken++ }) }
	want := func(when string, a *attempt, o peer.Outcome, reply int64) {
		t.Helper()
		if r.open[a.Number] != nil || a.out.Outcome != o || o == peer.Done && a.out.Result.Replies[0].Int != reply {
			t.Errorf("%s: %+v", when, a)
		}
	}
	wantNothing := func(when string, a *attempt) {
		t.Helper()
		if r.open[a.Number] == nil {
			t.Errorf("%s: %+v was shown", when, a.out)
		}
	}
	a, b := begin(5), begin(5)
	if a.Number == b.Number || a.Session != b.Session || a.Session == 0 {
		t.Fatalf("%+v and %+v", a.Origin, b.Origin)
	}
	r.Applied(5, entryOf(record.Origin{}, record.Origin{Session: a.Session + 1, Number: b.Number}, a.Origin), did(3))
	want("it is in the entry", a, peer.Done, 2)
	wantNothing("another session's is in the entry", b)
	r.Applied(5, entryOf(a.Origin), did(1))
	want("it is there already", a, peer.Done, 2)
	r.Applied(6, entryOf(b.Origin), &replica.Applied{Void: true})
	want("a void entry", b, peer.NotDone, 0)
	c, d := begin(6), begin(7)
	r.Applied(7, entryOf(), did(0))
	want("a later term", c, peer.NotDone, 0)
	wantNothing("its own term", d)
	if begin(6) != nil {
		t.Error("an attempt in a term that is over")
	}
	r.Restored()
	wantNothing("a snapshot, and there may be an answer", d)
	if r.leave(d) {
		t.Error("the log may not tell of what was before the snapshot")
	}
	r.Applied(8, entryOf(), did(0))
	want("a snapshot and then a later term", d, peer.Unknown, 0)
	e := begin(8)
	if !r.leave(e) {
		t.Error("the log will tell")
	}
	select {
	case <-e.shown:
		t.Error("the log has told nothing yet")
	default:
	}
	r.Restored()
	want("a snapshot, and no answer comes", e, peer.Unknown, 0)
	<-e.shown
	if <-d.shown; !r.leave(a) {
		t.Error("the log has told")
	}
	<-a.shown
	if len(r.open) != 0 || woken != 5 {
		t.Errorf("%d are left, %d were woken", len(r.open), woken)
	}
	for range attemptsMax {
		if begin(8) == nil {
			t.Fatal("too few attempts at a time")
		}
	}
	if begin(8) != nil {
		t.Error("more attempts than the limit")
	}
}

// What a leader remembers of recalls, one case after the other.
func TestRecalls(t *testing.T) {
	r := &recalls{}
	ask := func(term, session, number uint64) bool {
		return r.refuses(term, &op{origin: record.Origin{Session: session, Number: number}})
	}
	take := func(when string, term uint64, from record.Origin, want bool) {
		t.Helper()
		if got := !r.refuses(term, &op{req: command("INCR", "a"), origin: from}); got != want {
			t.Errorf("%s: taken %v", when, got)
		}
	}
	take("nothing is recalled", 5, record.Origin{Session: 1, Number: 3}, true)
	if ask(5, 1, 3) {
		t.Fatal("a recall is refused")
	}
	take("it is recalled", 5, record.Origin{Session: 1, Number: 3}, false)
	take("an older one", 5, record.Origin{Session: 1, Number: 2}, false)
	take("a later one", 5, record.Origin{Session: 1, Number: 4}, true)
	take("another session's", 5, record.Origin{Session: 2, Number: 1}, true)
	take("nobody's", 5, record.Origin{}, true)
	if ask(5, 1, 2) {
		t.Fatal("a recall that comes late is refused")
	}
	take("a recall of less came late", 5, record.Origin{Session: 1, Number: 3}, false)
	take("another term", 6, record.Origin{Session: 1, Number: 3}, true)
	for session := range uint64(recallSessionsMax) {
		if ask(6, session+1, 1) {
			t.Fatal("too few sessions")
		}
	}
	if !ask(6, recallSessionsMax+1, 1) || ask(6, 1, 2) {
		t.Error("more sessions than the limit, or not again")
	}
	take("too many have recalled", 6, record.Origin{Session: recallSessionsMax + 1, Number: 1}, true)
	take("recalled again", 6, record.Origin{Session: 1, Number: 2}, false)
}

// What a recall in the log says of a node's attempts, one case after the other.
func TestAttemptsRecalled(t *testing.T) {
	r := newAttempts()
	begin := func(term uint64) *attempt { return r.begin(term, func() {}) }
	want := func(when string, a *attempt, shown bool, o peer.Outcome) {
		t.Helper()
		if is := r.open[a.Number] == nil; is != shown || a.out.Outcome != o {
			t.Errorf("%s: shown %v, %v", when, is, a.out.Outcome)
		}
	}
	recall := func(term uint64, from record.Origin, void bool) {
		did := &replica.Applied{Void: void}
		if !void {
			did.Results = make([]resp.Result, 2)
		}
		r.Applied(term, &record.Entry{Reqs: make([]resp.Request, 2), Origins: []record.Origin{{}, from}}, did)
	}
	a, next, b, c := begin(5), begin(6), begin(5), begin(5)
	recall(5, record.Origin{Session: b.Session + 1, Number: c.Number}, false)
	want("another session's", a, false, 0)
	recall(5, record.Origin{}, false)
	want("nobody's", a, false, 0)
	recall(5, b.Origin, true)
	want("it is void", b, false, 0)
	recall(5, b.Origin, false)
	want("one before it", a, true, peer.NotDone)
	want("itself", b, true, peer.NotDone)
	want("one behind it", c, false, 0)
	want("one before it, of a later term", next, false, 0)
	r.Restored()
	recall(5, c.Origin, false)
	want("a snapshot came before", c, true, peer.Unknown)
	if len(r.open) != 1 {
		t.Errorf("%d are left", len(r.open))
	}
}
