package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/followers"
	"lockd/cluster/request"
	"lockd/cluster/store"
	"lockd/cluster/wait"
	"lockd/keyspace"
	"lockd/resp"
)

// The tests of blocking commands run the real machine: what is shown is what the two
// do together.
func withKeyspace(cfg *Config) { cfg.Machine = keyspace.New(nil) }

// blockedClient is a client in a blocking command.
type blockedClient struct {
	node    *testNode
	unblock chan resp.Unblock
	cancel  context.CancelFunc
	hungUp  bool   // it will not be answered any more; node.pub.mu is held
	then    func() // if not nil, called when it is served
	held    int    // where its answer belongs among what the node publishes; -1: at the end

	mu    sync.Mutex
	reply string // "" while it waits
	took  time.Duration
}

// block sends a blocking command to a node.
func (c *testCluster) block(n *testNode, line string) *blockedClient {
	ctx, cancel := context.WithCancel(context.Background())
	b := &blockedClient{node: n, unblock: make(chan resp.Unblock, 1), cancel: cancel, held: -1}
	start := time.Now()
	go func() {
		defer cancel()
		r, _ := n.Block(ctx, resp.Cmd{Args: strings.Fields(line)}, "", b.unblock, b)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reply = strings.TrimSpace(strings.ReplaceAll(string(r.AppendTo(nil, 3)), "\r\n", " "))
		b.took = time.Since(start)
	}()
	return b
}

// Hold implements resp.Waiter: what the node publishes waits for the answer.
func (b *blockedClient) DelayPushes() {
	b.node.pub.mu.Lock()
	defer b.node.pub.mu.Unlock()
	b.held = len(b.node.pub.heard)
}

// Release implements resp.Waiter.
func (b *blockedClient) ResumePushes() {}

// Served implements resp.Waiter: it notes the answer beside what the node publishes.
func (b *blockedClient) Served(r resp.Reply) bool {
	b.node.pub.mu.Lock()
	defer b.node.pub.mu.Unlock()
	at := len(b.node.pub.heard)
	if b.held >= 0 {
		at = b.held
	}
	b.node.pub.heard = slices.Insert(b.node.pub.heard, at, "SERVED "+strings.Join(strings.Fields(string(r.AppendTo(nil, 3))), " "))
	if b.then != nil {
		b.then()
	}
	return !b.hungUp
}

// hangUp has the client close its connection; its session notices if noticed is set.
func (b *blockedClient) hangUp(noticed bool) {
	b.node.pub.mu.Lock()
	b.hungUp = true
	b.node.pub.mu.Unlock()
	if noticed {
		b.cancel()
	}
}

func (b *blockedClient) answer() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reply
}

// want waits a while for the answer and compares it.
func (c *testCluster) want(b *blockedClient, reply string) {
	c.t.Helper()
	for range 3000 {
		if b.answer() != "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := b.answer(); got != reply {
		c.t.Fatalf("a client of %s was answered %q, want %q", b.node.id, got, reply)
	}
}

// waiting waits until so many commands wait in the machine of each of these nodes; none
// is given: of every running one.
func (c *testCluster) waiting(want int, nodes ...*testNode) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.others(nil)
	}
	var got map[string]int
	for range 3000 {
		got = map[string]int{}
		for _, n := range nodes {
			got[n.id] = n.waiters()
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(got)), func(n int) bool { return n != want }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("%v commands wait, want %d on each", got, want)
}

// waiters counts what waits in a node's machine.
func (n *testNode) waiters() (count int) {
	for session := range uint64(20) {
		for number := range uint64(50) {
			if n.state.Blocked(resp.BlockID{Session: session, Number: number}) == resp.BlockWaiting {
				count++
			}
		}
	}
	return count
}

func popped(key, value string) string {
	return fmt.Sprintf("*2 $%d %s $%d %s", len(key), key, len(value), value)
}

// Where no session can be had because nobody leads, each client is answered within its
// own time, and at once when it is told to wait no longer: nothing was asked for.
func TestBlockedWithoutSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		c.cut(away)
		time.Sleep(10 * time.Second)
		const toldAfter = time.Second
		wait := away.cfg.LeaderWait
		type want struct {
			reply string
			took  time.Duration
		}
		var clients []*blockedClient
		var wants []want
		come := func(reply string, took time.Duration) *blockedClient {
			b := c.block(away, "BLPOP list 1")
			synctest.Wait() // the first of them is the one that tries to open a session
			clients, wants = append(clients, b), append(wants, want{reply, took})
			return b
		}
		told := map[*blockedClient]resp.Unblock{
			come("_", toldAfter):                   resp.UnblockTimeout,
			come("-"+resp.ErrUnblocked, toldAfter): resp.UnblockError,
			come("-"+resp.ErrNotDone, toldAfter):   resp.UnblockStop,
		}
		for range 10 {
			come("-"+resp.ErrNotDone, wait)
		}
		time.Sleep(toldAfter)
		for b, why := range told {
			b.unblock <- why
		}
		come("-"+resp.ErrNotDone, wait) // from when it came
		time.Sleep(time.Minute)
		for i, b := range clients {
			if b.answer() != wants[i].reply || b.took != wants[i].took {
				t.Errorf("client %d was answered %q after %v, want %q after %v", i, b.answer(), b.took, wants[i].reply, wants[i].took)
			}
		}
	})
}

// Clients that wait for a session get one as soon as there is a leader, all of them the
// same, also when the one that tried to open it has hung up meanwhile.
func TestBlockedUntilSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		away := c.others(c.settle())[0]
		c.cut(away)
		time.Sleep(10 * time.Second)
		first := c.block(away, "BLPOP list 0")
		synctest.Wait()
		for range 10 {
			c.block(away, "BLPOP list 0")
		}
		time.Sleep(time.Second)
		first.hangUp(true)
		synctest.Wait()
		if first.answer() == "" {
			t.Error("Block waits on for a client that is gone")
		}
		c.net.Heal()
		c.waiting(10)
		if sessions := away.blocker.Sessions(); len(sessions) != 1 {
			t.Errorf("they wait in the sessions %v", sessions)
		}
	})
}

// A node that stops does not keep clients that wait for a session.
func TestBlockedWithoutSessionNodeStops(t *testing.T) {
	for name, stop := range map[string]func(*testCluster, *testNode){
		"in order": func(c *testCluster, n *testNode) { _ = n.Close(c.t.Context()) },
		"at once":  func(c *testCluster, n *testNode) { c.kill(n.id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3, withKeyspace)
				defer c.close()
				away := c.others(c.settle())[0]
				c.cut(away)
				time.Sleep(10 * time.Second)
				clients := []*blockedClient{c.block(away, "BLPOP list 0"), c.block(away, "BLPOP list 0")}
				synctest.Wait()
				stop(c, away)
				away.Node = nil
				for _, b := range clients {
					c.want(b, "-"+resp.ErrNotDone)
					if b.took >= time.Second {
						t.Errorf("it took %v", b.took)
					}
				}
			})
		})
	}
}

// A node that is behind hears late that its session is over. Its clients have not waited
// out their time then, whatever its own clock says: they are asked for again, and the log
// decides.
func TestBlockedWhileBehind(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"BLPOP list 2", popped("list", "a")}, // its time is over when the node hears of it
		{"BLPOP list 0", popped("list", "a")},
		{"BLPOP none 2", "_"},
	} {
		t.Run(c.line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { blockedWhileBehind(t, c.line, c.want) })
		})
	}
}

// listening is a client that takes every answer.
type listening struct{}

func (listening) DelayPushes()           {}
func (listening) ResumePushes()          {}
func (listening) Served(resp.Reply) bool { return true }

// stuck is a client that holds up its node's goroutine that applies, until resume is closed.
type stuck struct{ resume chan struct{} }

func (s stuck) DelayPushes()         { <-s.resume }
func (s stuck) ResumePushes()        {}
func (stuck) Served(resp.Reply) bool { return true }

func blockedWhileBehind(t *testing.T, line, want string) {
	c := startCluster(t, 3, withKeyspace)
	defer c.close()
	leader := c.settle()
	behind := c.others(leader)[0]
	stall, resume := c.mayStall(behind)
	stall()
	if r := leader.Do(t.Context(), resp.BlockClosing([]uint64{1})).Replies[0]; r.Str != "OK" {
		t.Fatal(r)
	}
	c.expect(leader, "RPUSH list a", ":1")
	client := c.block(behind, line)
	time.Sleep(3 * time.Second)
	if got := client.answer(); got != "" {
		t.Fatalf("answered %q before the node has heard of anything", got)
	}
	resume()
	c.want(client, want)
	c.waiting(1) // the first client: what it was given was settled with its session
}

// Many clients hang up at once.
func TestManyHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, withKeyspace)
		defer c.close()
		n := c.settle()
		var clients []*blockedClient
		for range wait.CancelsMax + 10 {
			clients = append(clients, c.block(n, "BLPOP list 0"))
		}
		c.waiting(49) // of those that are looked at
		for _, b := range clients {
			b.hangUp(true)
		}
		for range 3000 {
			if !n.blocker.Waits() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		c.expect(n, "RPUSH list a", ":1")
		c.expect(n, "LLEN list", ":1")
	})
}

// Of 30 clients that wait at three nodes ten hang up while 20 values are pushed: some are seen to be gone before or after
// they are served, some only when they are to be answered. The 20 others get all values, each once.
func TestNothingIsLostToThoseWhoHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		nodes := c.others(nil)
		var clients, stay []*blockedClient
		for i := range 30 {
			clients = append(clients, c.block(nodes[i%3], "BLPOP jobs 0"))
			c.waiting(i + 1)
		}
		push := "RPUSH jobs"
		want := map[string]int{}
		for i := range 20 {
			push += fmt.Sprintf(" %d", i)
			want[popped("jobs", strconv.Itoa(i))] = 1
		}
		for i, b := range clients {
			switch {
			case i%6 == 0:
				b.hangUp(true)
			case i%6 == 1 && i < 18:
				b.hangUp(false)
			}
		}
		pushed := make(chan string)
		go func() { pushed <- leader.do(push) }()
		clients[14].hangUp(true)
		clients[27].hangUp(true)
		if got := <-pushed; got != ":20" {
			t.Fatalf("the push answers %s", got)
		}
		for _, b := range clients {
			if !b.hungUp {
				stay = append(stay, b)
			}
		}
		got := map[string]int{}
		for _, b := range stay {
			got[c.answered(b)]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d clients stay and get %v", len(stay), got)
		}
		c.expect(leader, "LLEN jobs", ":0")
		c.agree()
	})
}

// A snapshot takes the place of messages. What clients were given meanwhile, and nobody was told, goes back, and they
// are served again; the others wait on.
func TestBlockedThroughSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace, onDisk(t, func(cfg *Config) { cfg.SnapshotEntries, cfg.LogStore = 20, store.BoltDB }))
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		served, waits := c.block(away, "BLPOP a 0"), c.block(away, "BLPOP b 0")
		c.waiting(2)
		c.cut(away)
		// What is logged first after the cut is sent again and again and arrives in the end,
		// in front of the snapshot: that must not be the push.
		c.expect(leader, "SET first v", "+OK")
		synctest.Wait()
		c.expect(leader, "RPUSH a 1", ":1")
		for i := range 200 {
			c.expect(leader, fmt.Sprintf("SET k%d v", i%7), "+OK")
			synctest.Wait()
		}
		c.net.Heal()
		c.want(served, popped("a", "1"))
		c.waiting(1)
		c.expect(away, "RPUSH b 2", ":1")
		c.want(waits, popped("b", "2"))
		c.agree()
	})
}

// Pushers and waiters on all nodes, while leaders are killed and cut off: no value is
// given out twice, and one that was pushed for sure is given out, is still there, or
// was popped for somebody who was told that nobody knows.
func TestQueueOverFaults(t *testing.T) {
	synctest.Test(t, queueOverFaults)
}

func queueOverFaults(t *testing.T) {
	c := startCluster(t, 3, withKeyspace)
	defer c.close()
	c.settle()
	var mu sync.Mutex
	pushed, got, doubts := map[string]bool{}, map[string]int{}, 0
	stop := make(chan struct{})
	var workers sync.WaitGroup
	nodes := c.others(nil)
	for i, n := range nodes {
		node := n.Node // of this incarnation: it is not killed, only cut off
		workers.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				value := fmt.Sprintf("%d.%d", i, k)
				res := node.Do(context.Background(), resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"RPUSH", "queue", value}}}})
				mu.Lock()
				pushed[value] = !res.Replies[0].IsErr()
				mu.Unlock()
				time.Sleep(40 * time.Millisecond)
			}
		})
		for range 3 {
			workers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					r, _ := node.Block(context.Background(), resp.Cmd{Args: resp.Args{"BLPOP", "queue", "0.7"}}, "", nil, listening{})
					mu.Lock()
					switch {
					case len(r.Elems) == 2:
						got[r.Elems[1].Str]++
					case r.Str == resp.ErrUnknown:
						doubts++
					}
					mu.Unlock()
				}
			})
		}
	}
	for range 2 {
		time.Sleep(2 * time.Second)
		c.cut(c.leader())
		time.Sleep(2 * time.Second)
		c.net.Heal()
		time.Sleep(2 * time.Second)
		c.leader().elections.handOver(context.Background(), "")
	}
	close(stop)
	workers.Wait()
	time.Sleep(15 * time.Second)
	rest := nodes[0].do("LRANGE queue 0 -1")
	lost := 0
	for value, sure := range pushed {
		there := strings.Contains(rest+" ", " "+value+" ")
		if got[value] > 1 || got[value] == 1 && there {
			t.Errorf("%s was given out %d times, and is there: %t", value, got[value], there)
		}
		if sure && got[value] == 0 && !there {
			lost++
		}
	}
	if len(got) < 100 || lost > 0 {
		t.Errorf("%d values were given out; %d were lost, %d clients were told that nobody knows", len(got), lost, doubts)
	}
	c.agree()
}

// A client that has waited is answered before its node publishes what the command did,
// and after what came before it, on every node.
func TestServedBeforePublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "CONFIG SET notify-keyspace-events El", "+OK")
		for _, n := range c.others(nil) {
			client := c.block(n, "BLPOP list 0")
			c.waiting(1)
			c.expect(leader, "RPUSH list a", ":1")
			c.want(client, popped("list", "a"))
			const events = "__keyevent@0__:rpush=list SERVED *2 $4 list $1 a = __keyevent@0__:lpop=list"
			if said := n.pub.said(); !strings.HasSuffix(said, events) {
				t.Errorf("a client of %s heard %q", n.id, said)
			}
		}
	})
}

// Who waits for an entry at a follower waits until what it tells is published there, no
// longer, and not for ever where that does not come.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		for _, n := range c.others(nil) {
			payload := "of-" + n.id
			res := n.Do(t.Context(), resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"PUBLISH", "ch", payload}}}, Trace: true})
			index := res.Trace.Index
			if res.Index != index && res.Index != 0 {
				t.Errorf("entry %d, and its trace says %d", res.Index, index)
			}
			start := time.Now()
			n.Await(t.Context(), index)
			if said := n.pub.said(); !strings.HasSuffix(said, "ch="+payload) || time.Since(start) > 100*time.Millisecond {
				t.Errorf("after %v a client of %s has heard %q", time.Since(start), n.id, said)
			}
			if start = time.Now(); n == leader {
				n.Await(t.Context(), index+1000)
				if took := time.Since(start); took < n.cfg.LeaderWait || took > n.cfg.LeaderWait+time.Second {
					t.Errorf("it waited %v for an entry that does not come", took)
				}
			}
		}
	})
}

// LOCK waits in line on any node, over a failover too; who waits in vain is answered a null bulk.
func TestLockInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		others := c.others(leader)
		taken := leader.do("LOCK door alice PX 60000")
		c.expect(leader, "FENCE door", taken)
		c.expect(others[0], "LOCK door bob PX 60000", "_")
		first := c.block(others[0], "LOCK door bob PX 60000 WAIT 30000")
		c.waiting(1)
		second := c.block(others[1], "LOCK door carol PX 60000 WAIT 30000")
		c.waiting(2)
		vain := c.block(others[1], "LOCK door dave PX 60000 WAIT 100")
		c.want(vain, "_")
		try := []resp.Cmd{{Args: strings.Fields("LOCK door dave PX 1 WAIT 1")}}
		others[1].commands.Identify(try)
		if got, _ := others[1].Block(t.Context(), try[0], "", nil, listening{}); got.Kind != resp.KindNil {
			t.Errorf("a client that waited in vain is answered %v", got)
		}
		c.kill(leader.id)
		c.expect(others[1], "UNLOCK door alice", ":1")
		c.want(first, ":"+c.fence(others[0], "door"))
		c.expect(others[0], "GET door", "$3 bob")
		c.expect(others[0], "UNLOCK door bob", ":1")
		c.want(second, ":"+c.fence(others[1], "door"))
		c.waiting(0)
	})
}

// A client of a follower has the lock as soon as its leader has committed the entry that frees it: it does
// not wait for the next entry, nor for the pause before announcements.
func TestLockIsHandedToAFollowerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace, slowCommits)
		defer c.close()
		leader := c.settle()
		for _, n := range c.others(nil) {
			leader.do("LOCK door alice PX 60000")
			began := time.Now()
			next := c.block(n, "LOCK door bob PX 60000 WAIT 30000")
			c.waiting(1)
			freed := time.Since(began)
			c.expect(leader, "UNLOCK door alice", ":1")
			c.want(next, ":"+c.fence(leader, "door"))
			if took := next.took - freed; took >= followers.AnnouncePause {
				t.Errorf("a client of %s, where %s leads, has the lock %s after its release", n.id, leader.id, took)
			}
			c.expect(leader, "UNLOCK door bob", ":1")
			free := c.block(n, "LOCK door carol PX 60000 WAIT 30000")
			time.Sleep(time.Second)
			c.want(free, ":"+c.fence(leader, "door"))
			if free.took >= followers.AnnouncePause {
				t.Errorf("a client of %s, where %s leads, has a lock that was free after %s", n.id, leader.id, free.took)
			}
			c.expect(leader, "UNLOCK door carol", ":1")
		}
	})
}

// A LOCK that finds its lock taken shares the entry of the release that follows it, and is not in its way; where
// none follows, it stands in line soon.
func TestLockJoinsTheNextEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		for _, n := range c.others(nil) {
			leader.do("LOCK door alice PX 60000")
			c.want(c.block(n, "LOCK door alice PX 60000 WAIT 1"), ":"+c.fence(leader, "door")) // opens a session
			before := leader.raft.LastIndex()
			next := c.block(n, "LOCK door bob PX 60000 WAIT 30000")
			time.Sleep(request.JoinMax / 2)
			if got := leader.raft.LastIndex(); got != before {
				t.Errorf("%s: a LOCK for a lock that is taken has entry %d at once", n.id, got)
			}
			c.expect(leader, "UNLOCK door alice", ":1")
			c.want(next, ":"+c.fence(leader, "door"))
			if got := leader.raft.LastIndex() - before; got != 1 {
				t.Errorf("%s: a release and the LOCK before it took %d entries", n.id, got)
			}
			alone := c.block(n, "LOCK door carol PX 60000 WAIT 30000")
			time.Sleep(2 * request.JoinMax)
			if got := leader.waiters(); got != 1 {
				t.Errorf("%s: %d clients stand in line %s after a LOCK", n.id, got, 2*request.JoinMax)
			}
			c.expect(leader, "UNLOCK door bob", ":1")
			c.want(alone, ":"+c.fence(leader, "door"))
			c.expect(leader, "UNLOCK door carol", ":1")
		}
	})
}

// A LOCK that closes a circle of owners is told so, whichever nodes they wait at, and over a failover.
func TestLockInADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		others := c.others(leader)
		leader.do("LOCK x t1 PX 600000 OWNER a")
		leader.do("LOCK y t2 PX 600000 OWNER b")
		first := c.block(others[0], "LOCK y t3 PX 600000 WAIT 60000 OWNER a")
		c.waiting(1)
		second := c.block(others[1], "LOCK x t4 PX 600000 WAIT 60000 OWNER b")
		c.want(second, "-DEADLOCK b holds y and waits for x, held by a, which waits for y")
		c.kill(leader.id)
		second = c.block(others[1], "LOCK x t4 PX 600000 WAIT 60000 OWNER b")
		c.want(second, "-DEADLOCK b holds y and waits for x, held by a, which waits for y")
		c.expect(others[1], "UNLOCK y t2", ":1")
		c.want(first, ":"+c.fence(others[0], "y"))
		c.waiting(0)
	})
}

func (c *testCluster) fence(n *testNode, key string) string {
	return strings.TrimPrefix(n.do("FENCE "+key), ":")
}

// A lock that was granted to a client that has hung up is released at once, unless its program has
// taken it by another connection meanwhile; of many, whatever its other holders do.
func TestLockOfClientThatIsGone(t *testing.T) {
	for _, tt := range []struct {
		many  string
		again bool
	}{{"", false}, {"", true}, {" LIMIT 2", false}, {" LIMIT 2", true}} {
		synctest.Test(t, func(t *testing.T) { testClientThatIsGone(t, tt.many, tt.again) })
	}
}

func testClientThatIsGone(t *testing.T, many string, again bool) {
	c := startCluster(t, 3, withKeyspace)
	defer c.close()
	leader := c.settle()
	others := c.others(leader)
	leader.do("LOCK door alice PX 600000" + many)
	dan := "_"
	if many != "" {
		dan = leader.do("LOCK door dan PX 600000" + many)
	}
	gone := c.block(others[0], "LOCK door bob PX 600000 WAIT 60000"+many)
	c.waiting(1)
	next := c.block(others[1], "LOCK door carol PX 600000 WAIT 60000"+many)
	c.waiting(2)
	c.cut(others[0])
	gone.hangUp(true) // nobody else can know
	c.expect(leader, "UNLOCK door alice", ":1")
	c.expect(leader, "RENEW door dan PX 600000", dan)
	if again {
		c.expect(leader, "LOCK door bob PX 600000"+many, leader.do("RENEW door bob PX 600000"))
	}
	c.net.Heal()
	if again {
		c.agree()
		time.Sleep(time.Minute)
		c.expect(others[0], "UNLOCK door bob", ":1")
		return
	}
	c.want(next, c.holds(leader, "door", "carol"))
	c.expect(leader, "RENEW door bob PX 600000", "_")
	c.expect(leader, "RENEW door dan PX 600000", dan)
}

// A token that was told of its lock keeps it when another request of its program comes late, and the client of that
// one turns out to be gone.
func TestLockOfTokenThatWasTold(t *testing.T) {
	for _, many := range []string{"", " SHARED", " LIMIT 2"} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3, withKeyspace)
			defer c.close()
			leader := c.settle()
			late := c.others(leader)[0]
			told := leader.do("LOCK door bob PX 600000" + many)
			c.cut(late)
			gone := c.block(late, "LOCK door bob PX 600000 WAIT 60000"+many)
			gone.hangUp(false)
			c.net.Heal()
			time.Sleep(time.Minute)
			c.agree()
			c.expect(leader, "RENEW door bob PX 600000", told)
		})
	}
}

// So is one whose client turns out to be gone when it is to be answered.
func TestLockOfClientThatIsFoundGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		gone := c.block(c.others(leader)[0], "LOCK door bob PX 600000 WAIT 60000")
		c.waiting(1)
		gone.hangUp(false)
		c.expect(leader, "UNLOCK door alice", ":1")
		for range 3000 {
			if leader.do("EXISTS door") == ":0" {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("the lock is left to its lease")
	})
}

// A client that has been answered keeps its lock, though it is gone when Block returns: it may have
// read the answer.
func TestLockOfClientThatWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		answered := c.block(c.others(leader)[0], "LOCK door bob PX 600000 WAIT 60000")
		answered.then = answered.cancel
		c.waiting(1)
		c.expect(leader, "UNLOCK door alice", ":1")
		c.waiting(0)
		time.Sleep(time.Minute)
		c.expect(leader, "GET door", "$3 bob")
	})
}

// A release is sent until it is done, though the node is cut off for long.
func TestLockIsReleasedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, withKeyspace)
		defer c.close()
		leader := c.settle()
		node := c.others(leader)[0]
		c.expect(leader, "SET door alice NX PX 600000", "+OK")
		gone := c.block(node, "LOCK door bob PX 600000 WAIT 60000")
		c.waiting(1)
		gone.hangUp(false)
		gone.then = func() { c.cut(node) }
		c.expect(leader, "UNLOCK door alice", ":1")
		c.expect(leader, "GET door", "$3 bob")
		time.Sleep(time.Minute) // what was sent before is lost with its connection
		c.net.Heal()
		for range 3000 {
			if leader.do("EXISTS door") == ":0" {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("the lock is left to its lease")
	})
}

// holds waits until a token holds a lock, and returns its fence.
func (c *testCluster) holds(n *testNode, key, token string) string {
	c.t.Helper()
	for range 3000 {
		if fence := n.do("RENEW " + key + " " + token + " PX 600000"); fence != "_" {
			return fence
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("%s does not get %s", token, key)
	return ""
}
