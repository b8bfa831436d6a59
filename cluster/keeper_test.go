package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/face"
	"lockd/cluster/followers"
	"lockd/cluster/join"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/request"
	"lockd/internal/freeport"
	"lockd/resp"
)

// settle waits until every node knows every member of the cluster.
func (c *testCluster) settle() *testNode {
	c.t.Helper()
	for range 1000 {
		leader := c.leader()
		if len(leader.members.roster.Load().Members) == len(leader.raft.Servers()) {
			c.agree()
			return leader
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("the roster was not completed")
	return nil
}

// A member that is removed while it is about to get its vote does not come back with one.
func TestRemovedBeforeItsVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		far := c.others(leader)[1]
		c.add("n4")
		c.start("n4")
		c.net.SetCut(true, []string{far.addr}, []string{leader.addr}) // to ask all members takes a while now
		if err := leader.raft.AddNonvoter("n4", "n4:1", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		for tries := 0; leader.members.roster.Load().Members["n4"].ID == ""; tries++ {
			if tries == 10000 {
				t.Fatal("the new member did not introduce itself")
			}
			time.Sleep(time.Millisecond)
		}
		if len(leader.raft.Voters()) != 3 || len(leader.raft.Servers()) != 4 {
			t.Fatalf("members: %v", leader.raft.Servers())
		}
		if err := leader.raft.RemoveServer("n4", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if len(leader.raft.Servers()) != 3 {
			t.Errorf("members: %v", leader.raft.Servers())
		}
		c.net.Heal()
	})
}

// A member that comes back under another address is followed there.
func TestMemberMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		moved := c.others(leader)[0]
		c.kill(moved.id)
		moved.addr = moved.id + ":2"
		c.start(moved.id)
		time.Sleep(5 * time.Second)
		c.expect(moved, "SET a 1", "+OK")
		c.kill(c.others(leader)[1].id)
		c.expect(leader, "SET a 2", "+OK")
		c.expect(moved, "GET a", "$1 2")
		if got := c.leader().raft.IDAt(moved.addr); got != moved.id {
			t.Errorf("at %s the cluster knows %q", moved.addr, got)
		}
	})
}

// A member that was away while another was replaced at its old address is led by the
// replacement: what it knows of the members is old, and only the leader can bring it
// up to date. The same for a node that joins and replays how the members were once.
func TestReplacementLeadsWhoKnewItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 4)
		defer c.close()
		leader := c.settle()
		away, gone := c.others(leader)[0], c.others(leader)[1]
		c.kill(away.id)
		for range followers.EntriesMax + 10 { // so that the log does not fit into one message
			c.expect(leader, "SET a 0", "+OK")
		}
		c.expect(leader, "LOCKD REMOVE "+gone.id, "+OK")
		c.kill(gone.id)
		next := c.add("next")
		next.addr = gone.addr
		c.start(next.id)
		c.expect(leader, "LOCKD ADD next "+next.addr, "+OK")
		for now := leader; now != next; now = c.leader() { // another may be elected as it stands
			c.expect(now, "LOCKD TRANSFER next", "+OK")
		}

		joins := c.add("joins")
		c.start(joins.id)
		c.expect(next, "LOCKD ADD joins "+joins.addr, "+OK")
		c.net.Partition([]string{away.addr}, []string{leader.addr, next.addr, c.others(leader)[1].addr, joins.addr})
		c.start(away.id)
		time.Sleep(time.Second)
		c.net.Heal()
		c.expect(away, "SET a 1", "+OK")
		if now := c.leader(); now != next {
			t.Fatalf("%s leads, so that nothing was tested", now.id)
		}
		c.agree()
	})
}

// Founders that take a node with data for one of theirs neither touch its log nor
// found a cluster beside it; and that node does not start under their list.
func TestFoundersLeaveDataAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		old := c.settle()
		c.expect(old, "SET lock holder 600000", "+OK")
		list := map[string]string{"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}
		c.first = list
		for _, id := range []string{"n2", "n3"} {
			c.add(id)
			c.start(id)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, n := range c.others(old) {
				if n.stopped() != "" {
					c.kill(n.id) // as its process does
				}
			}
		}
		c.expect(old, "GET lock", "$6 holder")
		for _, id := range []string{"n2", "n3"} {
			if said := c.nodes[id].stopped(); !strings.Contains(said, "node "+id+" is in no cluster, and none of the members of "+
				old.members.identity().Cluster+" (says n1): this new node does not found a cluster beside a node that has data") {
				t.Errorf("%s said %q", id, said)
			}
		}

		c.kill("n1")
		if err := c.tryStart("n1"); err == nil || !strings.Contains(err.Error(), "is that of a single node, but the member list names 3: start this node without the list") {
			t.Errorf("n1 under the list of three: %v", err)
		}
		c.nodes["n1"].Node = nil
		c.first = map[string]string{"n1": "n1:1"}
		c.start("n1")
		c.expect(c.leader("n1"), "GET lock", "$6 holder")
	})
}

// The id of a cluster does not follow from the list of its founders: nodes with empty folders that found one by the same
// list found another one.
func TestListFoundsAnotherCluster(t *testing.T) {
	names := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		for _, n := range c.others(nil) {
			if got := n.members.identity().Cluster; got != leader.members.identity().Cluster || got == "" {
				t.Errorf("%s is in %q, not in %q", n.id, got, leader.members.identity().Cluster)
			}
		}
		names[leader.members.identity().Cluster] = true
		for id := range c.nodes {
			c.kill(id)
			c.nodes[id].disk = newTestDisk(id + " wiped")
		}
		for id := range c.nodes {
			c.start(id)
		}
		names[c.settle().members.identity().Cluster] = true
	})
	if len(names) != 2 {
		t.Errorf("clusters %v", names)
	}
}

// What a list has founded it does not found again while one of its nodes has data: two of three disks are lost, and the
// two wait, also for the third, which was away. Nothing is granted, and they say what to do.
func TestListIsNotFoundedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 3, keep)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "SET lock alice 600000", "+OK")
		c.agree()
		cluster, left := leader.members.identity().Cluster, c.others(leader)[0]
		for _, n := range c.others(nil) {
			c.kill(n.id)
		}
		var wiped []*testNode
		for _, n := range c.nodes {
			if n != left {
				n.disk = newTestDisk("second " + n.id)
				c.start(n.id)
				wiped = append(wiped, n)
			}
		}
		time.Sleep(time.Minute)
		for _, n := range wiped {
			if n.lead.Held() || n.members.identity().Cluster != "" {
				t.Errorf("%s is in cluster %q", n.id, n.members.identity().Cluster)
			}
			if why := n.Ready()[1].Value; !strings.Contains(why, "it waits for "+left.id+": a list founds a cluster once all of its nodes are there") {
				t.Errorf("%s: %q", n.id, why)
			}
		}
		c.start(left.id)
		time.Sleep(time.Minute)
		for _, n := range wiped {
			if got := n.do("GET lock"); !strings.HasPrefix(got, "-LOADING") {
				t.Errorf("%s answers %q", n.id, got)
			}
			want := "it waits as " + left.id + " (" + left.addr + ") has data of cluster " + cluster + ": this list was founded before"
			if why := n.Ready()[1].Value; !strings.Contains(why, want) || n.stopped() != "" {
				t.Errorf("%s: %q, stopped %q", n.id, why, n.stopped())
			}
			if logs[n.id].count(want) == 0 {
				t.Errorf("%s does not log why it waits", n.id)
			}
		}
	})
}

const foundingSeeds = 5

// Founders of a list are started in any order, and die in between: they found one cluster, of all of them.
func TestListIsFoundedInAnyOrder(t *testing.T) {
	for seed := range seeds(foundingSeeds) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			c := startCluster(t, 0, onDisk(t, nil))
			defer c.close()
			c.first = map[string]string{"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}
			ids := slices.Sorted(maps.Keys(c.first))
			disk := onDisk(t, nil)
			for _, id := range ids {
				c.add(id, disk)
			}
			pause := func() { time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) }
			for range 8 {
				if id := ids[random.IntN(len(ids))]; c.nodes[id].Node != nil {
					c.kill(id)
				} else {
					c.start(id)
				}
				pause()
			}
			for _, id := range ids {
				if c.nodes[id].Node == nil {
					c.start(id)
					pause()
				}
			}
			leader := c.settle()
			c.expect(leader, "SET a 1", "+OK")
			if len(leader.raft.Voters()) != 3 {
				t.Errorf("seed %d: members %v", seed, leader.raft.Voters())
			}
			for _, n := range c.others(nil) {
				if n.stopped() != "" {
					t.Errorf("seed %d: %s stopped: %s", seed, n.id, n.stopped())
				}
			}
		})
	}
}

// Nodes that were given different lists found nothing, and say whose list is another one.
func TestListsThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 0)
		defer c.close()
		for i, list := range []map[string]string{
			{"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}, {"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}, {"n1": "n1:1", "n3": "n3:1", "n4": "n4:1"},
			{"n1": "n1:1", "n3": "n3:1", "n4": "n4:1"},
		} {
			c.first = list
			c.add(fmt.Sprintf("n%d", i+1))
			c.start(fmt.Sprintf("n%d", i+1))
		}
		time.Sleep(time.Minute)
		said := ""
		for _, n := range c.others(nil) {
			said += n.Ready()[1].Value + "; "
			if n.members.identity().Cluster != "" {
				t.Errorf("%s is in cluster %q", n.id, n.members.identity().Cluster)
			}
		}
		if !strings.Contains(said, "founds a cluster of other nodes: ") || !strings.Contains(said, "correct --cluster, which is the same on every node") {
			t.Errorf("they say %s", said)
		}
	})
}

// Nodes of another architecture, removed ones and wiped ones are refused, each in
// words that say what to do.
func TestJudge(t *testing.T) {
	r := membership.Empty.With(membership.Change{Cluster: "red", Upsert: []membership.Member{{ID: "n1", Incarnation: "a"}, {ID: "n2", Incarnation: "b"}}})
	r = r.With(membership.Change{Remove: []string{"n2"}})
	r = r.With(membership.Change{Cluster: "blue", Upsert: []membership.Member{{ID: "n2", Incarnation: "b"}, {ID: "n1", Incarnation: "z"}}})
	for _, tc := range []struct {
		who  peer.Identity
		want string
	}{
		{peer.Identity{ID: "n1", Incarnation: "a", Arch: "amd64"}, ""},
		{peer.Identity{ID: "n1", Incarnation: "a", Arch: "amd64", Cluster: "red"}, ""},
		{peer.Identity{ID: "n3", Incarnation: "c", Arch: "amd64"}, ""},
		{peer.Identity{ID: "n1", Incarnation: "x", Arch: "amd64"}, "node n1 has lost its data: what it had promised is forgotten, so it must not vote again; remove it with LOCKD REMOVE n1 and add it under a new id with an empty data folder"},
		{peer.Identity{ID: "n2", Incarnation: "b", Arch: "amd64"}, "node n2 was removed from this cluster: give it a new id and an empty data folder"},
		{peer.Identity{ID: "n3", Arch: "arm64"}, "node n3 runs on arm64, here it is amd64: nodes of one cluster share an architecture, so that they compute floating-point numbers alike"},
	} {
		got := ""
		if err := r.Check(tc.who, "amd64"); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%+v:\n got %q\nwant %q", tc.who, got, tc.want)
		}
	}
}

// A member that hangs just when leadership goes to it holds up writes for no longer than an election
// would.
func TestTransferToMemberThatHangsThen(t *testing.T) {
	for after := time.Duration(0); after < 200*time.Millisecond; after += 20 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3)
			defer c.close()
			lead := c.settle()
			to := c.others(lead)[0]
			c.expect(lead, "SET a 1", "+OK")
			c.agree()
			c.net.SetRate(5000) // the connection is opened, and the message on its way, for some time
			began := time.Now()
			transfer := lead.raft.LeadershipTransferToServer(raft.ServerID(to.id), raft.ServerAddress(to.addr))
			time.Sleep(after)
			c.cut(to)
			c.net.SetRate(0)
			if err := transfer.Error(); err == nil {
				t.Errorf("%s: leadership went to a member that hangs", after)
			}
			c.expect(lead, "SET b 1", "+OK")
			if took, most := time.Since(began), 2*lead.cfg.Heartbeat; took > most {
				t.Errorf("%s: the next write took %s, more than %s", after, took, most)
			}
			c.net.Heal()
			c.expect(to, "SET c 1", "+OK")
			c.agree()
		})
	}
}

// Where Raft has begun a transfer that it never ends, the process does: another node leads
// then. A transfer that only takes its time ends nothing.
func TestTransferThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		hangs, other := c.others(lead)[0], c.others(lead)[1]
		hangs.disk.gate.close()
		c.expect(lead, "SET a 1", "+OK")
		for range 2 {
			if lead.raft.LeadershipTransferToServer(raft.ServerID(hangs.id), raft.ServerAddress(hangs.addr)).Error() == nil {
				t.Error("leadership went to a member whose disk hangs")
			}
			time.Sleep(300 * time.Millisecond)
		}
		c.cut(hangs)
		hangs.disk.gate.open(nil)
		var clients sync.WaitGroup
		for i := range 200 { // of which each counts, and 100 are too many
			clients.Go(func() { lead.do("SET b 1") })
			time.Sleep(100 * time.Millisecond)
			if said := lead.stopped(); said != "" && i < 50 {
				t.Errorf("it stopped too soon: %s", said)
			}
		}
		if said := lead.stopped(); !strings.HasPrefix(said, "raft has refused every write for 10s ") {
			t.Errorf("it said %q", said)
		}
		clients.Wait()
		c.net.Heal()
		c.kill(lead.id)
		c.expect(other, "SET c 1", "+OK")
	})
}

// A hand-over that hangs does not stop the writes for ever.
func TestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		if !leader.requests.Proposer.Pause(t.Context()) {
			t.Fatal("something is under way")
		}
		began := time.Now()
		c.expect(leader, "SET k v", "+OK")
		if took := time.Since(began); took < handOverMax || took > request.PauseMax+time.Second {
			t.Errorf("the write took %v", took)
		}
		leader.requests.Proposer.Resume()
	})
}

// INFO and ROLE speak Redis's words for a primary and its replicas.
func TestInfoAndRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, func(cfg *Config) {
			cfg.Info = func() []resp.Section { return []resp.Section{face.Section("Server", "redis_version", "7.2.0")} }
		})
		defer c.close()
		leader := c.settle()
		follower := c.others(leader)[0]
		at := func(n *testNode, section, want string) {
			t.Helper()
			if info := n.do("INFO " + section); !strings.Contains(info, want) {
				t.Errorf("INFO %s at %s: no %q in %q", section, n.id, want, info)
			}
		}
		at(leader, "replication", "# Replication role:master connected_slaves:2 slave0:ip=")
		at(follower, "replication", "# Replication role:slave master_host:"+leader.id+" master_port:6379 master_link_status:up ")
		at(leader, "", "# Server redis_version:7.2.0  # Persistence loading:0 ")
		at(leader, "all", "aof_enabled:1 ")
		at(leader, "RAFT", "# Raft node_id:"+leader.id+" cluster_id:")
		at(leader, "keyspace cluster", "# Cluster cluster_enabled:0  # Keyspace keys:0")
		c.expect(leader, "INFO nosuch", "=4 txt:")
		if role := leader.do("ROLE"); !strings.HasPrefix(role, "*3 $6 master :") || !strings.Contains(role, "*2 *3 $2 n") {
			t.Errorf("ROLE at the leader: %q", role)
		}
		if role := follower.do("ROLE"); !strings.HasPrefix(role, "*5 $5 slave $2 "+leader.id+" :6379 $9 connected :") {
			t.Errorf("ROLE at a follower: %q", role)
		}
		c.expect(leader, "CLUSTER INFO", "-ERR This instance has cluster support disabled")
		c.expect(leader, "CLUSTER foo", "-ERR unknown subcommand 'foo'. Try CLUSTER HELP.")
		c.expect(leader, "BGSAVE x", "-ERR syntax error")
		c.expect(leader, "BGSAVE SCHEDULE", "+Background saving started")
		c.expect(leader, "REPLICAOF NO ONE", "-"+face.NotByHand)
	})
}

// Commands about the node and commands on data share a pipeline: data first, as a
// whole, and every reply in its place.
func TestMixedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		got := c.others(leader)[0].doCtx(t.Context(), "INCR a", "WAIT 2 0", "INCR a", "CLUSTER INFO", "GET a")
		if want := ":1 | :2 | :2 | -ERR This instance has cluster support disabled | $1 2"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A node that is opened to join, and its client port, are enough to join.
func TestJoinIsRefusedForGood(t *testing.T) {
	for _, why := range []string{"NOAUTH Authentication required.", "DENIED it is in protected mode"} {
		joinIsRefused(t, why)
	}
}

func joinIsRefused(t *testing.T, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addr := answerOnce(t, "-"+why+"\r\n")
	n, err := Open(Config{
		ID: "n1", PeerListen: "127.0.0.1:0", Join: true, Dir: t.TempDir(),
		Machine: newTestMachine(), Publisher: &testPublisher{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(ctx)
	err = n.Join(ctx, []string{addr}, "")
	if err == nil || err.Error() != addr+" refuses this node: "+why {
		t.Errorf("got %v", err)
	}
}

// countingLog counts what is said, by its message.
type countingLog struct {
	slog.Handler
	mu   *sync.Mutex
	said map[string]int
}

func (l countingLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level >= slog.LevelInfo {
		l.said[r.Message]++
	}
	return nil
}

func (l countingLog) Enabled(context.Context, slog.Level) bool { return true }

func (l countingLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// A node that joins through an address where nobody answers says so at once, and then once in
// a while; it goes on trying, and in the end gives up.
func TestJoinWaitsQuietly(t *testing.T) {
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	dead := addrs[0]
	synctest.Test(t, func(t *testing.T) {
		log := countingLog{slog.DiscardHandler, &sync.Mutex{}, map[string]int{}}
		c := startCluster(t, 0)
		defer c.close()
		c.add("n1", func(cfg *Config) { cfg.Log = slog.New(log) })
		c.start("n1")
		joined := make(chan error, 1)
		const minutes = int(join.TryMax / time.Minute)
		begin := time.Now()
		go func() { joined <- c.nodes["n1"].Join(t.Context(), []string{dead}, "") }()
		time.Sleep(time.Second)
		log.mu.Lock()
		if n := log.said["joining the cluster"]; n != 1 {
			t.Errorf("in the first second it was said %d times", n)
		}
		log.mu.Unlock()
		want := "no member of the cluster has added this node in 10m0s, and it gives up: is there a cluster with a leader at " + dead
		if err := <-joined; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(begin); took < join.TryMax || took > join.TryMax+time.Minute {
			t.Errorf("it tried for %s", took)
		}
		log.mu.Lock()
		defer log.mu.Unlock()
		if n := log.said["joining the cluster"]; n < minutes/2 || n > minutes+1 {
			t.Errorf("in %d minutes it was said %d times", minutes, n)
		}
		delete(log.said, "joining the cluster")
		for msg, n := range log.said {
			if n > minutes {
				t.Errorf("in %d minutes it was said %d times: %s", minutes, n, msg)
			}
		}
	})
}

// A change of the members that a lost leader leaves in doubt is no refusal to a node that joins: it asks again.
func TestDoubtfulChange(t *testing.T) {
	if o, _ := reconfigureReply(raft.ErrNotLeader); o != peer.NotDone {
		t.Errorf("a change that Raft has not taken is %s", o)
	}
	if _, reply := reconfigureReply(raft.ErrLeadershipLost); !strings.HasPrefix(reply.Str, join.CodeInDoubt+" ") {
		t.Errorf("a change that is in doubt: %s", reply.Str)
	}
}
