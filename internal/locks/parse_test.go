package locks

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

// fieldsOf is a map of names and values: texts, integers, replies; nil is a nil.
func fieldsOf(items ...any) resp.Reply {
	var elems []resp.Reply
	for _, item := range items {
		switch item := item.(type) {
		case nil:
			elems = append(elems, resp.Nil())
		case string:
			elems = append(elems, resp.Bulk(item))
		case int:
			elems = append(elems, resp.Int(int64(item)))
		case resp.Reply:
			elems = append(elems, item)
		}
	}
	return resp.Map(elems...)
}

// flat is a reply as RESP2 has it.
func flat(r resp.Reply) resp.Reply {
	if r.Kind == resp.KindMap {
		r.Kind = resp.KindArray
	}
	elems := r.Elems
	r.Elems = nil
	for _, e := range elems {
		r.Elems = append(r.Elems, flat(e))
	}
	return r
}

var (
	noon    = time.Date(2026, 11, 22, 12, 0, 0, 212e6, time.UTC)
	held    = fieldsOf("token", "7f3c9a12...", "owner", "web-7", "by", "LOCK", "client-id", 9, "client-name", "web", "client-addr", "10.0.0.9:1", "node", "n1", "fence", 812, "lease-left-ms", 12000, "since", "2026-11-22T12:00:00.212Z", "held-ms", 1500, "lease-ms", 30000, "renewals", 2, "last-renewal", "2026-11-22T12:00:00.212Z", "note", "bills", "of-tomorrow", resp.Array())
	holder  = Holder{Token: "7f3c9a12...", Owner: "web-7", By: "LOCK", Client: Client{9, "web", "10.0.0.9:1", "n1"}, Fence: 812, Note: "bills", HasLease: true, LeaseLeft: 12 * time.Second, Lease: 30 * time.Second, Since: noon, Held: 1500 * time.Millisecond, Renewals: 2, LastRenewal: noon}
	forever = fieldsOf("token", "t", "owner", "t", "fence", 7, "lease-left-ms", -1, "note", nil)
	waits   = fieldsOf("token", "t2", "owner", "o2", "client-id", 10, "client-name", nil, "mode", "shared", "waited-ms", 1200, "left-ms", 800, "note", "n")
	waiter  = Waiter{Token: "t2", Owner: "o2", Client: Client{ID: 10}, Mode: Shared, Waited: 1200 * time.Millisecond, Left: 800 * time.Millisecond, Note: "n"}
)

// What the server says is read from either protocol.
func TestParse(t *testing.T) {
	list := resp.Array(
		fieldsOf("key", "order:42", "mode", "exclusive", "permits", 1, "holders", resp.Array(held), "waiters", 3),
		fieldsOf("key", "table", "mode", "limit", "permits", 5, "holders", resp.Array(forever, held), "waiters", 0))
	wantList := []Lock{
		{Key: "order:42", Mode: Exclusive, Permits: 1, Holders: []Holder{holder}, Waiters: 3},
		{Key: "table", Mode: Limit, Permits: 5, Holders: []Holder{{Token: "t", Owner: "t", Fence: 7}, holder}},
	}
	info := fieldsOf("mode", "exclusive", "permits", 1, "holders", resp.Array(held), "line", resp.Array(waits), "known-since", "2026-11-22T12:00:00.212Z")
	line := fieldsOf("line", resp.Array(waits), "known-since", nil)
	history := fieldsOf("known-since", "2026-11-22T12:00:00.212Z", "events", resp.Array(
		fieldsOf("time", "2026-11-22T12:00:00.212Z", "tick", 5, "event", "granted", "token", "t", "owner", nil, "mode", "exclusive", "fence", 12, "by", "SET", "client-id", 9, "client-name", "web", "client-addr", "10.0.0.9:1", "node", "n1", "waited-ms", 0, "lease-ms", 30000, "note", "bills"),
		fieldsOf("time", "2026-11-22T12:00:00.212Z", "tick", 6, "event", "forced", "token", "t", "owner", "o", "mode", "shared", "fence", 12, "by", "LOCKS FORCE", "held-ms", 1, "lease-ms", 20000, "renewals", 1, "last-renewal", nil, "reason", "hangs"),
		fieldsOf("time", "2026-11-22T12:00:00.212Z", "tick", 7, "event", "swapped", "by", "SWAPDB", "db", 3)))
	wantHistory := History{KnownSince: noon, Events: []Event{
		{Time: noon, Tick: 5, Event: "granted", Token: "t", Mode: Exclusive, Fence: 12, By: "SET", Client: holder.Client, Note: "bills", Lease: 30 * time.Second},
		{Time: noon, Tick: 6, Event: "forced", Token: "t", Owner: "o", Mode: Shared, Fence: 12, By: "LOCKS FORCE", Held: time.Millisecond, Lease: 20 * time.Second, Renewals: 1, Reason: "hangs"},
		{Time: noon, Tick: 7, Event: "swapped", By: "SWAPDB", DB: 3},
	}}
	doctor := fieldsOf("known-since", "2026-11-22T12:00:00.212Z", "node", "n1", "seen-since", nil, "findings", resp.Array(
		fieldsOf("mistake", "late-release", "keys", "report:*", "count", 1, "example", "report:7", "client", "report-2", "says", "report:* was released late")))
	wantDoctor := Diagnosis{Node: "n1", KnownSince: noon, Findings: []Finding{{"report:*", "report:* was released late", []Field{
		{"mistake", "late-release"}, {"keys", "report:*"}, {"count", "1"}, {"example", "report:7"}, {"client", "report-2"}}}}}
	advice := fieldsOf("known-since", nil, "locks", resp.Array(fieldsOf("keys", "report:*", "hold-p50-ms", 30, "lease-ms", nil)))
	wantAdvice := [][]Field{{{"keys", "report:*"}, {"hold-p50-ms", "30"}, {"lease-ms", ""}}}
	members := resp.Array(fieldsOf("id", "n1", "peer", "p:1", "clients", resp.Bulks("c:1", "c:2"), "role", "leader", "suffrage", "voter", "state", "up", "applied", 90,
		"level", 1, "lowest", 1, "highest", 2, "version", "0.2.0"))
	wantMembers := []Member{{"n1", "p:1", "leader", "voter", "up", []string{"c:1", "c:2"}, 90, 1, 1, 2, "0.2.0"}}
	for _, protocol := range []func(resp.Reply) resp.Reply{func(r resp.Reply) resp.Reply { return r }, flat} {
		if cursor, got := Piece(protocol(resp.Array(resp.Bulk("17"), list))); cursor != "17" || !reflect.DeepEqual(got, protocol(list)) {
			t.Errorf("a piece of LIST: %s, %v", cursor, got)
		}
		piece := resp.Map(append([]resp.Reply{resp.Bulk("cursor"), resp.Bulk("0")}, history.Elems...)...)
		if cursor, got := Piece(protocol(piece)); cursor != "0" || !reflect.DeepEqual(got, protocol(history)) {
			t.Errorf("a piece of HISTORY: %s, %v", cursor, got)
		}
		if cursor, got := Piece(protocol(history)); cursor != "0" || !reflect.DeepEqual(got, protocol(history)) {
			t.Errorf("no piece: %s, %v", cursor, got)
		}
		if got, err := ParseList(protocol(list)); err != nil || !reflect.DeepEqual(got, wantList) {
			t.Errorf("LIST: %v\n%+v\n%+v", err, got, wantList)
		}
		want := &Info{Lock: wantList[0], Line: []Waiter{waiter}, KnownSince: noon}
		want.Waiters = 1
		if got, err := ParseInfo("order:42", protocol(info)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("INFO: %v\n%+v\n%+v", err, got, want)
		}
		want = &Info{Lock: Lock{Key: "k", Waiters: 1}, Line: []Waiter{waiter}}
		if got, err := ParseInfo("k", protocol(line)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("INFO of a line: %v\n%+v\n%+v", err, got, want)
		}
		if got, err := ParseHistory(protocol(history)); err != nil || !reflect.DeepEqual(got, wantHistory) {
			t.Errorf("HISTORY: %v\n%+v\n%+v", err, got, wantHistory)
		}
		if got, err := ParseDoctor(protocol(doctor)); err != nil || !reflect.DeepEqual(got, wantDoctor) {
			t.Errorf("DOCTOR: %v\n%+v\n%+v", err, got, wantDoctor)
		}
		if got, err := ParseAdvice(protocol(advice)); err != nil || !reflect.DeepEqual(got, wantAdvice) {
			t.Errorf("ADVICE: %v\n%+v\n%+v", err, got, wantAdvice)
		}
		if got, err := ParseMembers(protocol(members)); err != nil || !reflect.DeepEqual(got, wantMembers) {
			t.Errorf("MEMBERS: %v\n%+v\n%+v", err, got, wantMembers)
		}
	}
	if got, err := ParseInfo("k", resp.Nil()); got != nil || err != nil {
		t.Errorf("INFO of no lock: %v, %v", got, err)
	}
	if e := wantHistory.Events; !e[0].Granted() || e[0].Lost() || e[1].Granted() || !e[1].Lost() || !e[2].Lost() {
		t.Error("what an event is")
	}
}

// Any other answer is an error, and an error of the server keeps its text.
func TestParseWhatIsNoAnswer(t *testing.T) {
	for _, tt := range []struct {
		reply resp.Reply
		want  string
	}{
		{resp.Err("LOADING no leader"), "LOADING no leader"},
		{resp.Int(1), "the answer to LOCKS LIST is not understood: there is no array"},
		{resp.Array(resp.Int(1)), "there is no map"},
		{resp.Array(resp.Array(resp.Bulk("key"))), "there is no map"},
		{resp.Array(fieldsOf("key", 1)), "key is no text"},
		{resp.Array(fieldsOf("permits", "many")), "permits is no integer"},
		{resp.Array(fieldsOf("holders", fieldsOf("since", "now"))), "there is no array"},
		{resp.Array(fieldsOf("holders", resp.Array(fieldsOf("since", "now")))), "since is no time"},
		{resp.Array(fieldsOf("holders", resp.Err("ERR x"))), "ERR x"},
	} {
		_, err := ParseList(tt.reply)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %s", tt.reply, err, tt.want)
		}
		var said resp.Error
		if errors.As(err, &said) != (tt.reply.IsErr() || tt.want == "ERR x") {
			t.Errorf("%v: %T", tt.reply, err)
		}
	}
	if _, err := ParseInfo("k", resp.Err("NOPERM")); err != resp.Error("NOPERM") {
		t.Error(err)
	}
	if _, err := ParseHistory(resp.Int(1)); err == nil {
		t.Error("an integer is no history")
	}
	for _, r := range []resp.Reply{resp.Err("ERR unknown subcommand"), resp.Nil(), resp.Bulk("healthy"), fieldsOf("findings", 1)} {
		if got, err := ParseDoctor(r); err == nil || len(got.Findings) > 0 {
			t.Errorf("DOCTOR: %v, %v", got, err)
		}
	}
	long := fieldsOf("held-ms", 1<<62, "lease-left-ms", 1<<62)
	locks, err := ParseList(resp.Array(fieldsOf("holders", resp.Array(long))))
	if err != nil || locks[0].Holders[0].Held < 200*365*24*time.Hour || !locks[0].Holders[0].HasLease {
		t.Errorf("a long time: %+v, %v", locks, err)
	}
}
