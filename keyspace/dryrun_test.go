package keyspace

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"lockd/resp"
)

func imageOf(t *testing.T, m *Machine) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Snapshot()(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What Try answers, and what it leaves to the log. It never changes anything.
func TestTry(t *testing.T) {
	m := New(fakeScripts{})
	mustApply(t, m, resp.Stamp{Tick: 1000, Index: 1}, 0, "CONFIG SET notify-keyspace-events KEA",
		"SET taken me", "SET leased me PX 500", "HSET hash f v")
	before := imageOf(t, m)
	for _, c := range []struct {
		line string
		want string // "log": it is not answered
	}{
		{"SET taken x NX", "(nil)"},
		{"SET taken x NX PX 5000", "(nil)"},
		{"SET taken x nx get", "me"},
		{"SET hash x NX", "(nil)"},
		{"SET hash x NX GET", resp.ErrWrongType},
		{"SETNX taken x", "0"},
		{"SETNX leased x", "0"},
		{"SET taken x NX XX", resp.ErrSyntax},
		{"SET taken x NX PX 0", "ERR invalid expire time in 'set' command"},
		{"SET free x NX", "log"},
		{"SET free x NX GET", "log"},
		{"SETNX free x", "log"},
		{"SET taken x", "log"},
		{"SET taken NX", "log"},
		{"SET taken x XX", "log"},
		{"DEL free", "log"},
		{"HSETNX hash f v", "log"},
		{"GET taken", "log"},
		{"NOSUCH taken", "log"},
		{"SETNX taken", "log"},
	} {
		got := "log"
		if res, ok := m.DryRun(resp.Stamp{Tick: 1400}, request(0, c.line)); ok {
			got = plain(res.Replies[0])
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
	// The lease has ended by the leader's clock, and the log does not say so yet.
	if _, ok := m.DryRun(resp.Stamp{Tick: 1501}, request(0, "SETNX leased x")); ok {
		t.Error("a key whose lease is about to end refuses without the log")
	}
	for name, req := range map[string]resp.Request{
		"two commands":  request(0, "SETNX taken x", "SETNX taken x"),
		"a transaction": {Cmds: request(0, "SETNX taken x").Cmds, Multi: true},
		"a watched key": {Cmds: request(0, "SETNX taken x").Cmds, Watch: &resp.Watching{Check: []resp.Watch{{Key: "taken"}}}},
	} {
		if _, ok := m.DryRun(resp.Stamp{Tick: 1400}, req); ok {
			t.Errorf("%s was tried", name)
		}
	}
	if !bytes.Equal(imageOf(t, m), before) {
		t.Error("to try has changed the state")
	}
	if msgs := mustApply(t, m, resp.Stamp{Tick: 1400, Index: 2}, 0); len(msgs) > 0 {
		t.Errorf("to try has left messages: %v", msgs)
	}
}

// Whatever Try answers, the log would have answered too, and have changed nothing.
func TestTryAgreesWithApply(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	m := New(fakeScripts{})
	at, answered := resp.Stamp{Tick: 1, Index: 0}, 0
	for range 3000 {
		at.Index++
		at.Tick += int64(r.IntN(20))
		line := pick("SET", "SET", "SETNX", "DEL", "APPEND") + " k" + strconv.Itoa(r.IntN(8))
		switch {
		case line[:4] == "SET ":
			line += " v " + pick("NX", "NX PX 50", "NX GET", "NX EX 0", "PX 30", "XX", "NX KEEPTTL")
		case line[:3] != "DEL":
			line += " v"
		}
		before := imageOf(t, m)
		res, ok := m.DryRun(at, request(0, line))
		results, msgs := m.Apply(at, []resp.Request{request(0, line)})
		if !ok {
			continue
		}
		answered++
		results[0].Work = 0 // nobody asks what a try has cost
		if !reflect.DeepEqual(res, results[0]) {
			t.Fatalf("%s: tried %v, applied %v", line, res, results[0])
		}
		n := New(fakeScripts{})
		if err := n.Restore(bytes.NewReader(before)); err != nil {
			t.Fatal(err)
		}
		n.Apply(at, nil) // time passes either way
		if !bytes.Equal(untraced(t, m), untraced(t, n)) {
			t.Fatalf("%s: answered without the log, and it changes something", line)
		}
		for _, msg := range msgs {
			for _, c := range msg.Changes {
				if c.Kind != resp.ChangeExpired {
					t.Fatalf("%s: answered without the log, which tells of %v", line, c)
				}
			}
		}
	}
	if answered < 300 {
		t.Errorf("only %d of 3000 were answered", answered)
	}
}
