package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clients"
	"lockd/resp"
	"lockd/resp/server"
)

// front is the server of a node's clients in front of it.
type front struct {
	c   *testCluster
	id  string
	hub *server.Hub
	srv *server.Server

	came int // clients so far
}

// withFronts starts a cluster whose nodes serve clients.
func withFronts(t *testing.T, n int, config ...func(*Config)) (*testCluster, map[string]*front) {
	fronts := map[string]*front{}
	hubs := func(cfg *Config) {
		f := &front{id: cfg.ID, hub: server.NewHub()}
		fronts[cfg.ID] = f
		cfg.Publisher, cfg.Clients = f.hub, f.hub
	}
	c := startCluster(t, n, append(config, hubs)...)
	for _, f := range fronts {
		f.c = c
		f.serve()
	}
	c.settle()
	return c, fronts
}

func (f *front) addr() string { return f.id + ":6379" }

// serve lets clients in, once the node runs.
func (f *front) serve() {
	n := f.c.nodes[f.id]
	f.srv = server.New(server.Config{Backend: n.Node, Hub: f.hub, Node: f.id, Log: n.cfg.Log})
	l, err := f.c.net.From(f.addr()).Listen(f.addr())
	if err != nil {
		f.c.t.Fatal(err)
	}
	go f.srv.Serve(l)
}

// stop cuts off the clients of a node.
func (f *front) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.srv.Shutdown(ctx)
}

// kill stops a node and its server as kill -9 does.
func (f *front) kill() {
	f.c.kill(f.id)
	f.stop()
}

// closeAll ends a test.
func closeAll(c *testCluster, fronts map[string]*front) {
	for _, f := range fronts {
		f.stop()
	}
	c.close()
}

// netClient is a client of a node, over a connection.
type netClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (f *front) dial() *netClient {
	f.c.t.Helper()
	f.came++
	conn, err := f.c.net.From(fmt.Sprintf("client-of-%s:%d", f.id, f.came)).Dial(f.addr(), time.Second)
	if err != nil {
		f.c.t.Fatal(err)
	}
	return &netClient{t: f.c.t, conn: conn, in: bufio.NewReader(conn)}
}

func (c *netClient) send(line string) {
	if _, err := c.conn.Write(resp.AppendCommand(nil, strings.Fields(line)...)); err != nil {
		c.t.Errorf("%s: %v", line, err)
	}
}

// reply reads one reply, the words of it with spaces between them.
func (c *netClient) reply() string {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return "closed"
	}
	line = strings.TrimSpace(line)
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '$':
		if n < 0 {
			return "nil"
		}
		text := make([]byte, n+2)
		if _, err := readFull(c.in, text); err != nil {
			return "closed"
		}
		return string(text[:n])
	case '*', '>', '%':
		if line[0] == '%' {
			n *= 2
		}
		words := make([]string, max(n, 0))
		for i := range words {
			words[i] = c.reply()
		}
		return strings.Join(words, " ")
	}
	return line
}

func readFull(r *bufio.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var got int
		got, err = r.Read(b[n:])
		n += got
	}
	return n, err
}

func (c *netClient) do(line string) string {
	c.send(line)
	return c.reply()
}

func (c *netClient) want(line, want string) {
	c.t.Helper()
	if got := c.do(line); got != want {
		c.t.Errorf("%s: got %q, want %q", line, got, want)
	}
}

// Of two clients that subscribe at two nodes and then ask who has, at the same time, at most one is told that it is
// alone: so portalocker takes a lock. That holds while the leadership moves, and every lone client is told that it is.
func TestTwoAreNeverAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fronts := withFronts(t, 3)
		defer closeAll(c, fronts)
		ids := []string{"n1", "n2", "n3"}
		for try := range 100 {
			if try%10 == 9 {
				leader := c.leader()
				go leader.do("LOCKD TRANSFER " + c.others(leader)[try/10%2].id)
			}
			channel := fmt.Sprint("lock", try)
			var clients []*netClient
			alone := make([]bool, 2)
			var both sync.WaitGroup
			for i := range alone {
				sub, asks := fronts[ids[(try+i)%3]].dial(), fronts[ids[(try+i)%3]].dial()
				clients = append(clients, sub, asks)
				both.Go(func() {
					time.Sleep(time.Duration(try*i%7) * 50 * time.Microsecond)
					sub.want("SUBSCRIBE "+channel, "subscribe "+channel+" :1")
					alone[i] = asks.do("PUBSUB NUMSUB "+channel) == channel+" :1"
				})
			}
			both.Wait()
			if alone[0] && alone[1] {
				t.Fatalf("try %d: both were told that they are alone", try)
			}
			for i := range alone {
				clients[2*i].want("UNSUBSCRIBE", "unsubscribe "+channel+" :0")
			}
			clients[0].want("SUBSCRIBE "+channel, "subscribe "+channel+" :1")
			clients[3].want("PUBSUB NUMSUB "+channel, channel+" :1")
			for _, client := range clients {
				client.conn.Close()
			}
		}
	})
}

// A leader that is cut off keeps its subscribers for as long as a follower does, and no longer than others wait for it
// to count them.
func TestDeposedLeaderKeepsSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fronts := withFronts(t, 3)
		defer closeAll(c, fronts)
		time.Sleep(time.Minute)
		leader := c.leader()
		holder, asks := fronts[leader.id].dial(), fronts[c.others(leader)[0].id].dial()
		holder.want("SUBSCRIBE lock", "subscribe lock :1")
		c.cut(leader)
		time.Sleep(leader.cfg.LeaderWait - leader.cfg.Heartbeat)
		c.net.Heal()
		time.Sleep(time.Second)
		asks.want("PUBLISH lock x", ":1")
		if got := holder.reply(); got != "message lock x" {
			t.Fatalf("after a while without a leader the subscriber is told %q", got)
		}
		leader = c.leader()
		time.Sleep(time.Minute)
		holder, asks = fronts[leader.id].dial(), fronts[c.others(leader)[0].id].dial()
		holder.want("SUBSCRIBE other", "subscribe other :1")
		c.cut(leader)
		asks.want("PUBSUB NUMSUB other", "other :0")
		began := time.Now()
		if got := holder.reply(); got != "closed" || !time.Now().Equal(began) {
			t.Errorf("once it is not counted it is told %q, %s later", got, time.Since(began))
		}
	})
}

// Subscribers of a member that died are gone at once. One that is cut off is waited for as long as its subscribers may
// be left, and then not again; it cannot count itself, as fewer than a majority answer it.
func TestCountWithoutAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fronts := withFronts(t, 3)
		defer closeAll(c, fronts)
		lone := c.others(c.leader())[0].id
		rest := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(id string) bool { return id == lone })
		holder, asks := fronts[lone].dial(), fronts[rest[0]].dial()
		timed := func(line, want string, atLeast, atMost time.Duration) {
			t.Helper()
			began := time.Now()
			asks.want(line, want)
			if took := time.Since(began); took < atLeast || took > atMost {
				t.Errorf("%s took %s", line, took)
			}
		}
		holder.want("SUBSCRIBE lock", "subscribe lock :1")
		timed("PUBSUB NUMSUB lock", "lock :1", 0, time.Millisecond)
		leaderWait, heartbeat := c.nodes[lone].cfg.LeaderWait, c.nodes[lone].cfg.Heartbeat
		c.cut(c.nodes[lone])
		timed("PUBLISH lock x", ":0", clients.BriefMax, clients.BriefMax+100*time.Millisecond)
		timed("PUBLISH lock x", ":0", 0, 100*time.Millisecond)
		timed("PUBSUB NUMSUB lock", "lock :0", leaderWait, leaderWait+2*heartbeat)
		for holder.reply() != "closed" { // the messages that came before
		}
		timed("PUBSUB NUMSUB lock", "lock :0", heartbeat, heartbeat)
		timed("PUBLISH lock x", ":0", 0, 100*time.Millisecond)
		cut := fronts[lone].dial()
		cut.want("PUBSUB NUMSUB lock", "-"+clients.ErrFewAnswer)
		c.net.Heal()
		time.Sleep(2 * time.Second)
		holder = fronts[lone].dial()
		holder.want("SUBSCRIBE lock", "subscribe lock :1")
		timed("PUBLISH lock x", ":1", 0, 100*time.Millisecond)
		fronts[lone].kill()
		timed("PUBSUB NUMSUB lock", "lock :0", 0, 300*time.Millisecond)
		timed("PUBLISH lock x", ":0", 0, 100*time.Millisecond)
	})
}

// Nobody has the id of another client, at whichever node, before or after a restart; and every id can be read by a
// client that keeps numbers as floating-point.
func TestClientIDs(t *testing.T) {
	disk := onDisk(t, nil)
	synctest.Test(t, func(t *testing.T) {
		c, fronts := withFronts(t, 3, disk)
		defer closeAll(c, fronts)
		seen := map[string]string{}
		take := func(when string) {
			for id, f := range fronts {
				for range 20 {
					client := f.dial()
					got := client.do("CLIENT ID")
					n, err := strconv.ParseInt(got[1:], 10, 64)
					number := c.nodes["n1"].members.roster.Load().Members[id].Number
					if err != nil || n >= 1<<53 || number < 1 || int(n>>clients.CountBits) != number {
						t.Errorf("%s: an id of %s, which has number %d, is %q", when, id, number, got)
					}
					if other := seen[got]; other != "" {
						t.Fatalf("%s: an id of %s is that of %s: %s", when, id, other, got)
					}
					seen[got] = id + " " + when
					if hello := client.do("HELLO"); !strings.Contains(hello, " id "+got+" ") {
						t.Errorf("HELLO says %q, not %s", hello, got)
					}
					client.conn.Close()
				}
			}
		}
		take("first")
		lost := "n2"
		fronts[lost].kill()
		c.start(lost)
		fronts[lost].c = c
		fronts[lost].serve()
		take("after a restart, before it has heard of anybody")
		c.settle()
		take("after that")
	})
}

// A node that stops does not wait for members that do not answer.
func TestStopBesideASilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fronts := withFronts(t, 3, func(cfg *Config) { cfg.Heartbeat = 3 * time.Second })
		defer closeAll(c, fronts)
		leader := c.leader()
		silent, node := c.others(leader)[0], c.others(leader)[1]
		asks := fronts[node.id].dial()
		asks.want("PUBLISH lock x", ":0")
		c.cut(silent)
		asks.want("PUBLISH lock x", ":0")
		time.Sleep(time.Second) // it is asked whether it answers again
		fronts[node.id].stop()
		began := time.Now()
		node.stopOnce.Do(func() {
			close(node.stop)
			node.goroutines.Wait()
		})
		took := time.Since(began)
		_ = node.raft.Shutdown().Error()
		node.peers.Close()
		_ = node.release()
		node.Node = nil
		if took > 0 {
			t.Errorf("it took %s to stop", took)
		}
	})
}
