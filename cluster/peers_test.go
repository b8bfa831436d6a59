package cluster

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/peer/peertest"
	"lockd/resp"
)

const testSecret = "sixteen bytes, or more"

func command(args ...string) resp.Request {
	return resp.Request{Cmds: []resp.Cmd{{Args: args}}}
}

// Who is no member does nothing in a cluster that has no secret, though he may speak the
// protocol: with an invented id, without a cluster, in another's name.
func TestStrangerDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &peertest.Log{}
		c := startCluster(t, 3, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(logs, nil)) })
		defer c.close()
		leader := c.settle()
		other := c.others(leader)[0]
		c.expect(leader, "SET k v", "+OK")
		cluster, arch := leader.members.roster.Load().Cluster, leader.members.identity().Arch
		for _, tc := range []struct {
			name    string
			who     peer.Identity
			streams bool // Raft's own may pass
		}{
			{"invented", peer.Identity{ID: "x", Arch: arch}, false},
			{"invented, of the cluster", peer.Identity{ID: "x", Cluster: cluster, Arch: arch}, true},
			{"another's, no cluster", peer.Identity{ID: other.id, Incarnation: other.members.incarnation, Arch: arch}, false},
			{"another's, other data", peer.Identity{ID: other.id, Cluster: cluster, Arch: arch, Incarnation: "x"}, false},
			{"the node's own", peer.Identity{ID: leader.id, Cluster: cluster, Arch: arch, Incarnation: leader.members.incarnation}, false},
			{"at a level that this node cannot do, no cluster", peer.Identity{ID: "x", Arch: arch, Level: 9, Highest: 9}, false},
			{"of another cluster", peer.Identity{ID: "x", Cluster: "x", Arch: arch}, false},
		} {
			tc.who.Rules = leader.members.rules
			var refusals atomic.Int32
			stranger := c.stranger(tc.who, &refusals, nil)
			for _, connect := range []struct {
				to    string
				may   bool
				tries func() error
			}{
				{"call", false, func() error {
					_, err := stranger.Status(t.Context(), leader.addr, 0)
					return err
				}},
				{"send Raft's messages", tc.streams, func() error {
					return closed(stranger.Streams().Dial(raft.ServerAddress(leader.addr), time.Second))
				}},
				{"replicate", tc.streams, func() error {
					return closed(stranger.Streams().DialLog(raft.ServerAddress(leader.addr), time.Second))
				}},
			} {
				refusals.Store(0)
				err := connect.tries()
				if connect.may != (err == nil) || connect.may != (refusals.Load() == 0) {
					t.Errorf("%s, to %s: %v, refused %d times", tc.name, connect.to, err, refusals.Load())
				}
			}
			stranger.Close()
		}
		c.expect(leader, "GET k", "$1 v")
		if got := logs.Warnings(); len(got) != 1 || !strings.Contains(got[0], "peer=x:1") {
			t.Errorf("warnings %q", got)
		}
	})
}

// stranger opens the port of a node that is none of the cluster's. It believes everybody, or refuses everybody with an
// error.
func (c *testCluster) stranger(who peer.Identity, refusals *atomic.Int32, refuses error) *peer.Port {
	c.t.Helper()
	p, err := peer.Open(peer.Config{
		Network: c.net.From("x:1"), Listen: "x:1", Self: func() peer.Identity { return who },
	}, peer.Handler{
		Admit:   func(peer.Identity, peer.Kind) error { return refuses },
		Forward: func(_ peer.Forwarded, respond func(peer.Answer)) { respond(peer.Answer{Outcome: peer.NotDone}) },
		Status:  func(int64) peer.Status { return peer.Status{} },
		Refused: func(*peer.Refusal) {
			if refusals != nil {
				refusals.Add(1)
			}
		},
		Suspected: func(_ peer.Suspicion, respond func(peer.Report)) { respond(peer.Report{}) },
		Heard:     func(peer.Identity, bool) {},
		Ended:     func(string) {},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// A node that is refused does what the reason says, and nothing for the words: an id, or a message of another release, may
// have the same.
func TestReasonOfRefusalDecides(t *testing.T) {
	words := errors.New("node n1 was removed from this cluster: give it a new id and an empty data folder")
	for _, tc := range []struct {
		name  string
		says  error
		stops string
	}{
		{"no reason", words, ""},
		{"a reason that may pass", peer.Because(peer.Passing, membership.WasRemoved("n1")), ""},
		{"a reason that stops founders", peer.Because(peer.Foreign, words), ""},
		{"a reason of a later release", peer.Because("weary", words), ""},
		{"removed", membership.WasRemoved("n1"), words.Error() + " (says x)"},
		{"removed, in other words", peer.Because(peer.Removed, errors.New("go away")), "go away (says x)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 1)
				defer c.close()
				n := c.settle()
				who := n.members.identity()
				who.ID, who.PeerAddr = "x", "x:1"
				stranger := c.stranger(who, nil, tc.says)
				defer stranger.Close()
				if _, err := n.peers.Status(t.Context(), "x:1", 0); err == nil {
					t.Error("it was not refused")
				}
				synctest.Wait()
				if got := n.stopped(); got != tc.stops {
					t.Errorf("it stops over %q, want %q", got, tc.stops)
				}
			})
		})
	}
}

// closed closes a connection, if there is one.
func closed(conn net.Conn, err error) error {
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// A cluster with a secret works as one without: through every node, over the loss of the
// leader, and with a node that joins; who does not have the secret cannot join.
func TestClusterWithSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := func(cfg *Config) { cfg.PeerSecrets = [][]byte{[]byte(testSecret)} }
		c := startCluster(t, 3, secret)
		defer c.close()
		leader := c.settle()
		for _, n := range c.nodes {
			c.expect(n, "SET "+n.id+" v", "+OK")
		}
		c.add("n4", secret)
		c.start("n4")
		c.expect(leader, "LOCKD ADD n4 n4:1", "+OK")
		c.expect(c.nodes["n4"], "GET n1", "$1 v")
		c.kill(leader.id)
		next := c.leader(idsOf(c.others(leader))...)
		c.expect(next, "GET "+leader.id, "$1 v")
		c.start(leader.id)
		c.settle()

		c.add("n5", func(cfg *Config) { cfg.PeerSecrets = [][]byte{[]byte("another secret, as long")} })
		c.start("n5")
		c.expect(next, "LOCKD ADD n5 n5:1", "-TRYAGAIN node n5 is a member now, but does not answer at n5:1: it gets its vote once it has caught up")
		c.expect(next, "LOCKD REMOVE n5", "+OK")
		if n5 := c.nodes["n5"]; n5.state.Applied.Load() > 0 || len(n5.raft.Servers()) > 0 {
			t.Error("the node without the secret has data")
		}
		c.expect(next, "GET n1", "$1 v")
	})
}

func idsOf(nodes []*testNode) (ids []string) {
	for _, n := range nodes {
		ids = append(ids, n.id)
	}
	return ids
}

// Without a secret nodes are on loopback, or the operator has said that all may be read
// and changed by everybody.
func TestPeersOnLoopback(t *testing.T) {
	secret := []byte(testSecret)
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"loopback", Config{PeerListen: "127.1.2.3:1"}, ""},
		{"IPv6", Config{PeerListen: "[::1]:1", Members: map[string]string{"n1": "localhost:1"}}, ""},
		{"all interfaces", Config{PeerListen: "0.0.0.0:1"}, "peer address 0.0.0.0:1 is not on loopback"},
		{"no host", Config{PeerListen: ":1"}, "peer address :1 is not on loopback"},
		{"advertised", Config{PeerListen: "127.0.0.1:1", PeerAdvertise: "node1:1"}, "advertised peer address node1:1 is not on loopback"},
		{"a member", Config{PeerListen: "127.0.0.1:1", Members: map[string]string{"n1": "127.0.0.1:1", "n2": "10.0.0.2:1"}}, "the address of peer n2 10.0.0.2:1 is not on loopback"},
		{"secret", Config{PeerListen: "0.0.0.0:1", PeerSecrets: [][]byte{secret}}, ""},
		{"insecure", Config{PeerListen: "0.0.0.0:1", PeerInsecure: true}, ""},
		{"short", Config{PeerListen: "127.0.0.1:1", PeerSecrets: [][]byte{secret[:peer.SecretMin-1]}}, "the secret of the peers has 15 bytes, fewer than 16"},
	} {
		tc.cfg.ID, tc.cfg.Machine, tc.cfg.Publisher = "n1", newTestMachine(), &testPublisher{}
		err := tc.cfg.complete()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if err != nil && tc.name != "short" && !strings.Contains(err.Error(), makeSecret) {
			t.Errorf("%s: %v, want the command that makes a secret", tc.name, err)
		}
	}
}
