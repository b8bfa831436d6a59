package keyspace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/emit"
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
	msgs = slices.DeleteFunc(msgs, func(m resp.Message) bool { return m.Kind == resp.MessageHeld })
	if len(msgs) != 4 || msgs[0].Kind != resp.MessageChanges || msgs[0].Index != at(2000).Index || msgs[1].Channel != "news" ||
		len(newsIn(msgs[2:])) != 2 {
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
	results, msgs := m.Apply(at(1), []resp.Request{traced("SET a 1", "EVAL 'GET a\nSET b 1\nFLUSHALL\nlimit' 0", "SET c 1")})
	if got := strings.Join(changedKeys(msgs), " "); got != "a c" {
		t.Errorf("changes %q", got)
	}
	if got, want := results[0].Trace, (resp.Trace{Index: at(1).Index, Marks: []int64{1, 1, 2}}); !sameTrace(got, want) {
		t.Errorf("trace %+v, want %+v", got, want)
	}
}

// traced is a request that wants a Trace.
func traced(lines ...string) resp.Request {
	req := request(0, lines...)
	req.Trace = true
	return req
}

func sameTrace(got *resp.Trace, want resp.Trace) bool {
	return got != nil && got.Index == want.Index && got.From == want.From && slices.Equal(got.Marks, want.Marks) && slices.Equal(got.Reads, want.Reads)
}

// A Trace tells where among the entry's changes each command of its request stood, and at
// which place scripts read which keys.
func TestTrace(t *testing.T) {
	m := New(fakeScripts{})
	mustApply(t, m, resp.Stamp{Index: 6}, 0, "SET old v")
	req := traced("SET k 1", "EVAL 'GET k\nGET k\nEXISTS x y\nSET k 2\nGET k\nTTL x\nDEL k' 0", "GET k")
	results, _ := m.Apply(resp.Stamp{Index: 7}, []resp.Request{request(0, "DEL old"), req})
	want := resp.Trace{Index: 7, From: 1, Marks: []int64{2, 4, 4}, Reads: []resp.KeyRead{{Cmd: 1, Key: "k", At: 2}, {Cmd: 1, Key: "x", At: 2}, {Cmd: 1, Key: "y", At: 2}, {Cmd: 1, Key: "k", At: 3}, {Cmd: 1, Key: "x", At: 3}}}
	if got := results[1].Trace; !sameTrace(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	res := m.View(resp.Stamp{}, traced("GET k", "EVAL_RO 'GET a\nGET b' 0"))
	const last = math.MaxInt32
	want = resp.Trace{Index: 7, From: last, Marks: []int64{last, last}, Reads: []resp.KeyRead{{Cmd: 1, Key: "a", At: last}, {Cmd: 1, Key: "b", At: last}}}
	if !sameTrace(res.Trace, want) {
		t.Errorf("a read comes after all of the last entry: %+v\nwant %+v", res.Trace, want)
	}
	if _, tried := m.DryRun(resp.Stamp{}, traced("SETNX old v")); tried {
		t.Error("a request was tried that wants a trace")
	}
}

// A script that reads more keys than are noted has no Trace; to read one key again and
// again is nothing to note.
func TestTraceIsBounded(t *testing.T) {
	m := New(fakeScripts{})
	many := []string{}
	for i := range emit.ReadsMax + 2 {
		many = append(many, fmt.Sprintf("GET k%d", i))
	}
	again := slices.Repeat([]string{"GET k"}, emit.ReadsMax+2)
	for script, fails := range map[string]bool{strings.Join(many, "\n"): true, strings.Join(again, "\n"): false} {
		req := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"EVAL", script, "0"}}}, Trace: true}
		results, _ := m.Apply(at(1), []resp.Request{req})
		if (results[0].Trace == nil) != fails {
			t.Errorf("%.20q...: %.200v", script, results[0].Trace)
		}
	}
}
