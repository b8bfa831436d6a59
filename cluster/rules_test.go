package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/keyspace"
	"lockd/resp"
)

// warnings keeps what is logged as a warning, or worse.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler           { return w }
func (w *warnings) WithGroup(string) slog.Handler                { return w }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.Value.String(); return true })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
	return nil
}

// count is how many warnings hold all these words.
func (w *warnings) count(words ...string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.said {
		all := true
		for _, word := range words {
			all = all && strings.Contains(text, word)
		}
		if all {
			n++
		}
	}
	return n
}

// warned keeps the warnings of each node.
func warned() (map[string]*warnings, func(*Config)) {
	logs := map[string]*warnings{}
	return logs, func(cfg *Config) {
		if logs[cfg.ID] == nil {
			logs[cfg.ID] = &warnings{}
		}
		cfg.Log = slog.New(logs[cfg.ID])
	}
}

// Two nodes that differ by one command refuse each other, and both logs say by which, as a
// warning that does not come again and again.
func TestNodesOfOtherRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 3, keep, func(cfg *Config) {
			if cfg.ID == "n3" {
				cfg.Machine.(*testMachine).more = []*resp.Spec{{Name: "append", Arity: 3, Flags: resp.Write}}
			}
		})
		defer c.close()
		c.expect(c.leader("n1", "n2"), "SET a 1", "+OK")
		time.Sleep(10 * time.Second)
		odd := c.nodes["n3"]
		if _, id := odd.raft.LeaderWithID(); id != "" || odd.state.Applied.Load() != 0 || odd.stopped() != "" {
			t.Errorf("n3 follows %q, has applied %d entries, said %q", id, odd.state.Applied.Load(), odd.stopped())
		}
		for _, id := range []string{"n1", "n3"} {
			first := logs[id].count("than node n1: it has append that the latter does not know") +
				logs[id].count("node n1 is another version of lockd than node n3: it does not know append")
			if first < 1 || first > 4 {
				t.Errorf("%s: %q", id, logs[id].said)
			}
		}
	})
}

// A node without a majority says again and again for whom it waits.
func TestAwaitedMembersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 3, keep)
		defer c.close()
		leader := c.settle()
		others := c.others(leader)
		time.Sleep(20 * time.Second)
		c.kill(others[0].id)
		time.Sleep(20 * time.Second)
		if n := logs[leader.id].count("waits for others"); n != 0 {
			t.Errorf("with a majority: %d lines", n)
		}
		c.kill(others[1].id)
		time.Sleep(35 * time.Second)
		if n := logs[leader.id].count("waits for others", others[0].id+" ("+others[0].addr+", for ", ": dial ", others[1].id); n < 3 || n > 4 {
			t.Errorf("%d lines: %q", n, logs[leader.id].said)
		}
	})
}

// The rules are those of all rows, subcommands too, and of the formats.
func TestRulesOfKeyspace(t *testing.T) {
	rules := membership.Rules(keyspace.New(nil), formatsSince)
	if len(rules) > peer.RulesMax/2 {
		t.Errorf("rules of %d bytes: the limit is near", len(rules))
	}
	for _, name := range []string{"set", "script|load", "(entry)", "(snapshot)", "(image)"} {
		if !strings.Contains(" "+rules, " "+name+":") {
			t.Errorf("no rule for %s", name)
		}
	}
}

// What no machine knows is refused before the log, whichever way it comes; in the log it
// stops the node.
func TestUnknownCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		follower := c.others(leader)[0]
		c.expect(leader, "SET a b", "+OK") // the first entry of the term is in
		before := leader.raft.LastIndex()
		unknown, few, set := resp.Cmd{Args: resp.Args{"NOSUCH", "k"}}, resp.Cmd{Args: resp.Args{"SET", "k"}}, resp.Cmd{Args: resp.Args{"SET", "k", "v"}}
		sub := resp.Cmd{Args: resp.Args{"SCRIPT", "NOSUCH"}}
		for _, n := range []*testNode{leader, follower} {
			for _, cmds := range [][]resp.Cmd{{unknown}, {few}, {sub}, {set, unknown}, {set, few}, {sub, set}} {
				for _, multi := range []bool{false, true} {
					res := n.Do(t.Context(), resp.Request{Cmds: cmds, Multi: multi})
					if len(res.Replies) != len(cmds) || !res.Replies[len(cmds)-1].IsErr() {
						t.Errorf("%v at %s: %+v", cmds, n.id, res)
					}
					ch := make(chan peer.Outcome, 1)
					leader.requests.Serve(peer.Forwarded{Req: resp.Request{Cmds: cmds, Multi: multi}, Until: clock.After(time.Second)}, func(a peer.Answer) { ch <- a.Outcome })
					if o := <-ch; o != peer.Done {
						t.Errorf("%v forwarded: %v", cmds, o)
					}
				}
			}
		}
		ask := resp.BlockAsking(resp.BlockID{Session: 1, Number: 1}, 0, unknown)
		if r := follower.Do(t.Context(), ask).Replies[0]; !r.IsErr() {
			t.Errorf("a blocking command that is unknown: %v", r)
		}
		c.expect(follower, "GET k", "_")
		if last := leader.raft.LastIndex(); last != before {
			t.Errorf("%d entries were logged", last-before)
		}
		c.expect(leader, "SET k v", "+OK")

		e := &record.Entry{Kind: record.Batch, Term: leader.lead.Load().Term, Reqs: []resp.Request{{Cmds: []resp.Cmd{unknown}}}}
		data := record.Append(nil, e)
		leader.raft.ApplyLog(raft.Log{Data: data}, time.Second)
		c.stopsOver(leader, "a command that this version of lockd does not know: ERR unknown command 'NOSUCH'")
		c.kill(leader.id) // as its process does
		time.Sleep(5 * time.Second)
		if n := c.others(nil); n[0].stopped() == "" && n[1].stopped() == "" {
			t.Error("the next leader has applied it")
		}
	})
}

// stopsOver waits until a node has ended its process with these words.
func (c *testCluster) stopsOver(n *testNode, words string) {
	c.t.Helper()
	for range 1000 {
		if strings.Contains(n.stopped(), words) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("%s said %q, want %q", n.id, n.stopped(), words)
}
