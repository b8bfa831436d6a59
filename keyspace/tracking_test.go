package keyspace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// An entry tells, before its messages, everything it did to the data, in order: the
// leases that ended with it, each write that changed something, databases emptied or
// exchanged.
func TestChangesOfAnEntry(t *testing.T) {
	m := New(fakeScripts{})
	mustApply(t, m, at(1000), 0, "SET b v PX 20", "SET a v PX 20", "SET kept v", "HSET h f v")
	_, msgs := m.Apply(at(2000), []resp.Request{
		request(3, "SET other v", "GET other", "DEL nothing", "SETNX other w", "PUBLISH news x"),
		request(0, "RENAME kept moved", "EVAL 'SET s 1\nSET s 2' 0", "FLUSHDB", "HSET h g v", "SWAPDB 0 1"),
	})
	if len(msgs) != 2 || msgs[0].Kind != resp.MessageChanges || msgs[0].Index != at(2000).Index || msgs[1].Channel != "news" {
		t.Fatalf("%+v", msgs)
	}
	want := "x a, x b, other, moved, kept, s, s, all, h, all"
	if got := strings.Join(changedKeys(msgs), ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if _, msgs := m.Apply(at(2000), []resp.Request{request(0, "GET h", "EXPIRE nothing 10", "PERSIST h")}); len(msgs) != 0 {
		t.Errorf("nothing was changed: %+v", msgs)
	}
}

// A script that is undone has changed nothing and read nothing; what came before it
// in the entry stands.
func TestUndoneScriptChangesNothing(t *testing.T) {
	m := New(fakeScripts{})
	results, msgs := m.Apply(at(1), []resp.Request{request(0, "SET a 1", "EVAL 'GET a\nSET b 1\nFLUSHALL\nlimit' 0", "SET c 1", "tracked")})
	if got := strings.Join(changedKeys(msgs), " "); got != "a c" {
		t.Errorf("changes %q", got)
	}
	if got := plain(results[0].Replies[3]); got != fmt.Sprint(at(1).Index)+" 0 1 1 2 " {
		t.Errorf("tracked: %q", got)
	}
}

// The command "tracked" tells where among the entry's changes each command of its
// request stood, and at which place scripts read which keys.
func TestTracked(t *testing.T) {
	m := New(fakeScripts{})
	mustApply(t, m, resp.Stamp{Index: 6}, 0, "SET old v")
	tracked := request(0, "SET k 1", "EVAL 'GET k\nGET k\nEXISTS x y\nSET k 2\nGET k\nTTL x\nDEL k' 0", "GET k", "tracked")
	results, _ := m.Apply(resp.Stamp{Index: 7}, []resp.Request{request(0, "DEL old"), tracked})
	// Index; one change before; positions after the three commands; command, key, position.
	want := "7 1 2 4 4 1 k 2 1 x 2 1 y 2 1 k 3 1 x 3"
	if got := plain(results[1].Replies[3]); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	res := m.View(resp.Stamp{}, request(0, "GET k", "EVAL_RO 'GET a\nGET b' 0", "tracked"))
	want = "7 2147483647 2147483647 2147483647 1 a 2147483647 1 b 2147483647"
	if got := plain(res.Replies[2]); got != want {
		t.Errorf("a read comes after all of the last entry: %q\nwant %q", got, want)
	}
	for _, line := range []string{"tracked", "EVAL 'tracked' 0"} {
		results, _ := m.Apply(at(1), []resp.Request{request(0, line, "GET k")})
		if r := results[0].Replies[0]; !r.IsErr() {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// A script that reads more keys than are noted makes "tracked" fail, in a bounded
// reply; to read one key again and again is nothing to note.
func TestTrackedIsBounded(t *testing.T) {
	m := New(fakeScripts{})
	many := []string{}
	for i := range readsMax + 2 {
		many = append(many, fmt.Sprintf("GET k%d", i))
	}
	again := slices.Repeat([]string{"GET k"}, readsMax+2)
	for script, fails := range map[string]bool{strings.Join(many, "\n"): true, strings.Join(again, "\n"): false} {
		req := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"EVAL", script, "0"}}, {Args: resp.Args{"tracked"}}}}
		results, _ := m.Apply(at(1), []resp.Request{req})
		if r := results[0].Replies[1]; r.IsErr() != fails {
			t.Errorf("%.20q...: %.200v", script, r)
		}
	}
}
