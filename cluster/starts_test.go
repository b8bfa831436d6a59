package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/membership"

	"github.com/hashicorp/raft"
)

// putCopy is what a backup does.
func putCopy(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// foldersOf are the data folders of a cluster on disks.
func foldersOf() (map[string]string, func(*Config)) {
	dirs := map[string]string{}
	return dirs, func(cfg *Config) { dirs[cfg.ID] = cfg.Dir }
}

// rollBack makes a cluster in which n1 is started on a copy of its folder from before it and n2
// have granted a lock, beside n3, which was away then. between runs before that.
func rollBack(t *testing.T, between func(dirs map[string]string)) *testCluster {
	dirs, note := foldersOf()
	c := startCluster(t, 3, onDisk(t, nil), note)
	leader := c.settle()
	backup := filepath.Join(t.TempDir(), "backup")
	c.expect(leader, "LOCKD TRANSFER n2", "+OK")
	c.leader("n2")
	c.kill("n1")
	putCopy(t, dirs["n1"], backup)
	c.start("n1")
	c.settle()
	time.Sleep(5 * time.Second) // until n1 and n3 have spoken
	c.kill("n3")
	c.expect(c.nodes["n1"], "SETNX lock alice", ":1")
	c.kill("n1")
	c.kill("n2")
	putCopy(t, backup, dirs["n1"])
	between(dirs)
	c.start("n1")
	c.start("n3")
	return c
}

// A node on a copy of its folder from before must not help to grant a lock twice. The others
// know that it has been started since; it is refused, for good, and says so.
func TestFolderFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rollBack(t, func(map[string]string) {})
		defer c.close()
		old := c.nodes["n1"]
		c.stopsOver(old, "node n1 "+membership.SaysCopied)
		if c.nodes["n3"].lead.Held() || old.lead.Held() {
			t.Error("there is a leader")
		}
		for range 3 { // each start has a higher number
			c.again(old)
			c.stopsOver(old, "node n1 "+membership.SaysCopied)
		}
		c.kill("n1")
		c.start("n2")
		c.expect(c.nodes["n3"], "SETNX lock bob", ":0")
		c.expect(c.nodes["n3"], "GET lock", "$5 alice")
		c.expect(c.leader("n2", "n3"), "LOCKD REMOVE n1", "+OK")
	})
}

// Where all who had met it are away or have forgotten, the one that has applied what the
// others have lost stops, and does not give it up.
func TestAppliedIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rollBack(t, func(dirs map[string]string) {
			for _, id := range []string{"n2", "n3"} {
				if err := os.Remove(filepath.Join(dirs[id], "peers.json")); err != nil {
					t.Fatal(err)
				}
			}
		})
		defer c.close()
		c.expect(c.nodes["n3"], "SETNX lock bob", ":1") // nobody can know
		c.start("n2")
		c.stopsOver(c.nodes["n2"], "this node has applied entry ")
	})
}

// The same where it was not restarted.
func TestAppliedIsNotContradicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		others := c.others(leader)
		c.kill(others[0].id)
		c.expect(leader, "SETNX lock alice", ":1")
		time.Sleep(time.Second)
		has := others[1]
		c.net.Partition([]string{has.addr}, []string{leader.addr, others[0].addr})
		last := leader.raft.LastIndex()
		c.kill(leader.id)
		if err := leader.disk.log.DeleteRange(last, last); err != nil {
			t.Fatal(err)
		}
		c.start(leader.id)
		c.start(others[0].id)
		c.expect(others[0], "SETNX lock bob", ":1")
		c.net.Heal()
		c.stopsOver(has, fmt.Sprintf("this node has applied entry %d of term", last))
	})
}

// A leader refuses a member whose log ends before what it had confirmed, and the member stops.
func TestMemberThatLostItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 3, keep)
		defer c.close()
		leader := c.settle()
		loser := c.others(leader)[0]
		c.expect(leader, "SET a 1", "+OK")
		c.expect(leader, "SET a 2", "+OK")
		time.Sleep(time.Second)
		last := leader.raft.LastIndex()
		c.kill(loser.id)
		if err := loser.disk.log.DeleteRange(last-1, last); err != nil {
			t.Fatal(err)
		}
		c.start(loser.id)
		want := fmt.Sprintf("node %s %s: its log ends with entry %d, and it had confirmed entry ", loser.id, membership.SaysLost, last-2)
		c.stopsOver(loser, want)
		c.expect(leader, "GET a", "$1 2")
		if logs[leader.id].count(want) == 0 || logs[loser.id].count("refused") > 0 && loser.stopped() == "" {
			t.Errorf("the leader's log: %q", logs[leader.id].said)
		}
		c.again(loser)
		c.stopsOver(loser, want)
	})
}

// What a member has is known when it has stored an entry of this leader. That it has the entry before
// proves nothing: it may be one that it sent itself while it led, and its disk has not taken.
func TestMemberIsHeldToWhatItHasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		other := c.others(leader)[0]
		c.expect(leader, "SET a 1", "+OK")
		c.agree()
		who, _ := leader.members.identityOf(other.id)
		leader.acked.Forget()
		var last raft.Log
		if err := leader.stores.Log.GetLog(leader.raft.LastIndex(), &last); err != nil {
			t.Fatal(err)
		}
		_, id := leader.raft.LeaderWithID()
		msg := &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(leader.addr)},
			Term:      leader.raft.CurrentTerm(), PrevLogEntry: last.Index, PrevLogTerm: last.Term,
			LeaderCommitIndex: last.Index,
		}
		var answer raft.AppendEntriesResponse
		err := leader.trans.AppendEntries(raft.ServerID(other.id), raft.ServerAddress(other.addr), msg, &answer)
		if err != nil || !answer.Success {
			t.Fatalf("%+v, %v", answer, err)
		}
		if got := leader.acked.RequiredIndex(who); got != 0 {
			t.Errorf("it must have entry %d, and has stored none of this leader", got)
		}
		c.expect(leader, "SET a 2", "+OK")
		c.agree()
		if got := leader.acked.RequiredIndex(who); got <= last.Index {
			t.Errorf("it must have entry %d, and has stored more than %d", got, last.Index)
		}
	})
}

// copyOf is another node on a copy of a node's folder, at another address. advertised is what it says of it; "": the
// truth.
func (c *testCluster) copyOf(t *testing.T, n *testNode, dir, advertised string) *testNode {
	to := filepath.Join(t.TempDir(), "copy")
	putCopy(t, dir, to)
	name := "copy" + fmt.Sprint(len(c.nodes))
	return c.add(name, func(cfg *Config) {
		cfg.ID, cfg.Disk, cfg.Dir = n.id, nil, to
		cfg.Members, cfg.Join = nil, false
		if advertised != "" {
			cfg.PeerAdvertise = advertised
		}
	})
}

// A copy of the folder of a node that runs never takes its place, whatever address it says it is at: the original, which
// answers, stays, also over its next start. Where the original does not run, the folder was moved, and it is the
// original that comes too late.
func TestCopyDoesNotDisplaceOriginal(t *testing.T) {
	for _, role := range []string{"leader", "follower"} {
		for _, advertised := range []string{"", "cut off from it", "original"} {
			t.Run(role+" "+advertised, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dirs, note := foldersOf()
					c := startCluster(t, 3, onDisk(t, nil), note)
					defer c.close()
					leader := c.settle()
					time.Sleep(10 * time.Second)
					original := leader
					if role == "follower" {
						original = c.others(leader)[0]
					}
					at := ""
					if advertised == "original" {
						at = original.addr
					}
					clone := c.copyOf(t, original, dirs[original.id], at)
					if advertised == "cut off from it" {
						c.net.Partition([]string{clone.addr}, []string{original.addr})
					}
					want := "node " + original.id + " " + membership.SaysCopied + ": the original answers at " + original.addr
					if err := c.tryStart(clone.id); err == nil {
						c.stopsOver(clone, want)
						c.kill(clone.id)
					} else if !strings.Contains(err.Error(), want) || advertised != "" {
						t.Error(err)
					}
					c.net.Heal()
					delete(c.nodes, clone.id)
					c.expect(original, "SET a 1", "+OK")
					c.again(original)
					c.expect(original, "SET a 2", "+OK")
					c.agree()
					if said := original.stopped(); said != "" {
						t.Errorf("the original stopped: %s", said)
					}

					c.kill(original.id)
					moved := c.copyOf(t, original, dirs[original.id], at)
					if at != "" {
						return // nobody reaches it
					}
					c.start(moved.id)
					c.expect(moved, "SET a 3", "+OK")
					time.Sleep(10 * time.Second)
					c.start(original.id)
					c.stopsOver(original, "node "+original.id+" "+membership.SaysCopied)
					c.expect(moved, "SET a 4", "+OK")
				})
			})
		}
	}
}

// A copy of the folder of a single node that runs does not serve beside it.
func TestCopyOfSingleNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dirs, note := foldersOf()
		c := startCluster(t, 1, onDisk(t, nil), note)
		defer c.close()
		c.expect(c.settle(), "SET a 1", "+OK")
		clone := c.copyOf(t, c.nodes["n1"], dirs["n1"], "")
		err := c.tryStart(clone.id)
		if err == nil || !strings.Contains(err.Error(), "node n1 "+membership.SaysCopied+": the original answers at n1:1") {
			t.Errorf("it started: %v", err)
		}
		if err == nil {
			return
		}
		clone.Node = nil
		c.kill("n1")
		c.start(clone.id)
		c.expect(clone, "GET a", "$1 1")
	})
}

// again starts a node that has ended its process.
func (c *testCluster) again(n *testNode) {
	c.t.Helper()
	c.kill(n.id)
	n.mu.Lock()
	n.fatals = nil
	n.mu.Unlock()
	c.start(n.id)
}
