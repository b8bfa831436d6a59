package keyspace

import (
	"fmt"
	"strings"
	"testing"

	"lockd/luavm"
	"lockd/resp"
)

// ask runs one request on a machine at tick 1.
func ask(m *Machine, lines ...[]string) []resp.Reply {
	var req resp.Request
	for _, l := range lines {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: l})
	}
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, []resp.Request{req})
	return results[0].Replies
}

func repeat(n int, lines ...[]string) [][]string {
	var all [][]string
	for range n {
		all = append(all, lines...)
	}
	return all
}

// A few bytes of one request cannot take the memory or the time of every replica:
// what goes beyond a limit is refused, and nothing else is.
func TestMeter(t *testing.T) {
	large := fmt.Sprint(stringBytesMax - 1)
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	var grow [][]string
	for _, k := range keys {
		grow = append(grow, []string{"SETRANGE", k, large, "x"})
	}
	for name, tt := range map[string]struct {
		lines [][]string
		want  string
		done  int // commands executed before the first refusal
	}{
		"replies":       {repeat(30, []string{"SETRANGE", "k", large, "x"}, []string{"GETDEL", "k"}), errRepliesMeter, 8},
		"growth":        {grow, errGrowthMeter, 16},
		"work":          {append([][]string{{"SETRANGE", "k", large, "x"}}, repeat(300, []string{"SETRANGE", "k", "0", "y"})...), errWorkMeter, 256},
		"reply of one":  {[][]string{{"SETRANGE", "k", large, "x"}, append([]string{"MGET"}, strings.Fields(strings.Repeat("k ", 10))...)}, errReplyTooLarge, 1},
		"script growth": {[][]string{{"EVAL", "for i=1,1e6 do redis.pcall('SETRANGE', 'k'..i, " + large + ", 'x') end", "0"}}, errGrowthMeter, 0},
		"script work":   {[][]string{{"EVAL", "redis.call('SETRANGE', 'k', " + large + ", 'x') for i=1,1e6 do redis.pcall('SETRANGE', 'k', 0, 'x') end", "0"}}, errWorkMeter, 0},
		"script reply":  {[][]string{{"EVAL", "redis.call('SETRANGE', 'k', " + large + ", 'x') local s = redis.call('GET', 'k') return {s,s,s,s,s}", "0"}}, errReplyTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(luavm.New())
			replies := ask(m, tt.lines...)
			done := 0
			for done < len(replies) && !replies[done].IsErr() {
				done++
			}
			if done == len(replies) || done != tt.done || replies[done].Str != tt.want {
				t.Fatalf("%d commands done, then %.120q; want %d, then %q", done, fmt.Sprint(replies[min(done, len(replies)-1)]), tt.done, tt.want)
			}
			if strings.HasPrefix(name, "script") && m.usedBytes() > 1<<20 {
				t.Errorf("the script was not undone: %d bytes of data", m.usedBytes())
			}
			if got := ask(m, []string{"SET", "after", "v"})[0]; got.IsErr() {
				t.Errorf("the next request: %s", got.Str)
			}
		})
	}
}

// A request that comes after too large ones of its entry is not executed, and its
// client may send it again.
func TestEntryMeter(t *testing.T) {
	m := New(nil)
	large := resp.Cmd{Args: resp.Args{"SETRANGE", "k", fmt.Sprint(stringBytesMax - 1), "x"}}
	var reqs []resp.Request
	for i := range 40 {
		grow := large
		grow.Args = resp.Args{"SETRANGE", fmt.Sprint("k", i), large.Args[2], "x"}
		reqs = append(reqs, resp.Request{Cmds: []resp.Cmd{grow}})
	}
	reqs = append(reqs, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "late", "v"}}}})
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, reqs)
	if got := results[len(results)-1].Replies[0]; got.Str != errEntryMeter {
		t.Errorf("the last request: %v", got)
	}
	if m.dbs[0].keys.len() > 40 {
		t.Errorf("%d keys: a refused request was executed", m.dbs[0].keys.len())
	}
}
