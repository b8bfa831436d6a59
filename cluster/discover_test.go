package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/founding"
	"lockd/cluster/peer"
)

// discovering lets nodes of a test look for each other.
func discovering(expect int, addrs ...string) func(*Config) {
	return func(cfg *Config) {
		cfg.Members, cfg.Join = nil, false
		cfg.Discover = &Discovery{Expect: expect, Addrs: func(context.Context) ([]string, error) { return addrs, nil }}
		if cfg.ID == "stranger" {
			cfg.PeerSecrets = [][]byte{[]byte("another secret, that is")}
		} else {
			cfg.PeerSecrets = [][]byte{[]byte("the secret of the three")}
		}
	}
}

// Three empty nodes that find each other's addresses become one cluster, a stranger with another secret at one of the
// addresses or not. A node with data looks for nobody.
func TestDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 0)
		defer c.close()
		ids := []string{"n1", "n2", "n3", "stranger"}
		in := make(chan error, len(ids))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, id := range ids {
			c.add(id, discovering(3, "n1:1", "n2:1", "n3:1", "stranger:1", "nobody:1"))
			c.start(id)
			n := c.nodes[id]
			go func() { in <- n.Discover(ctx, "") }()
			time.Sleep(5 * time.Second)
			if member := n.Ready()[1].Value; len(c.nodes) < 3 && !strings.Contains(member, "it waits for more empty nodes") {
				t.Errorf("%s: %q", id, member)
			}
		}
		leader := c.leader("n1", "n2", "n3")
		c.expect(leader, "SET a 1", "+OK")
		for range 3 {
			if err := <-in; err != nil {
				t.Error(err)
			}
		}
		if err := <-in; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the stranger: %v", err)
		}
		cluster := leader.members.roster.Load().Cluster
		for _, n := range c.others(nil) {
			if n.id != "stranger" && (len(n.raft.Voters()) != 3 || n.members.roster.Load().Cluster != cluster) {
				t.Errorf("%s has the members %v of %s", n.id, n.raft.Voters(), n.members.roster.Load().Cluster)
			}
		}
		c.kill(leader.id)
		c.start(leader.id)
		if err := leader.Discover(ctx, ""); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		c.expect(c.nodes["n1"], "GET a", "$1 1")
	})
}

// A node that looks for others takes no log: it could be that of a cluster beside the one that it has promised.
func TestSeekerTakesNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		seeker := c.add("n2", discovering(3))
		seeker.config = func(cfg *Config) {
			discovering(3)(cfg)
			cfg.PeerSecrets = nil
		}
		c.start("n2")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got := c.leader().doCtx(ctx, "LOCKD ADD n2 n2:1"); !strings.Contains(got, "does not answer") {
			t.Errorf("it was added: %s", got)
		}
		if last := seeker.raft.LastIndex(); last != 0 {
			t.Errorf("it has %d entries", last)
		}
		seeker.members.search.End()
		time.Sleep(time.Minute)
		if got := c.leader().do("LOCKD ADD n2 n2:1"); got != "+OK" {
			t.Errorf("it was not added: %s", got)
		}
	})
}

// A promise is there after a restart, until the node has data; and who was started without --discover then does not
// found a cluster of its own.
func TestPromiseIsKept(t *testing.T) {
	dir := t.TempDir()
	open := func(config func(*Config)) (*Node, error) {
		cfg := Config{
			ID: "n1", PeerListen: "127.0.0.1:0", Dir: dir, Machine: newTestMachine(), Publisher: &testPublisher{},
			Discover: &Discovery{Expect: 2, Addrs: func(context.Context) ([]string, error) { return nil, nil }},
		}
		config(&cfg)
		return Open(cfg)
	}
	refused := func(want string, config func(*Config)) {
		t.Helper()
		n, err := open(config)
		if err == nil {
			_ = n.Close(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	as := func(*Config) {}
	n, err := open(as)
	if err != nil {
		t.Fatal(err)
	}
	self := n.members.identity()
	p := peer.Promise{Round: 7, Members: []peer.Founder{
		{ID: "n1", Incarnation: self.Incarnation, PeerAddr: self.PeerAddr}, {ID: "n2", Incarnation: "x", PeerAddr: "127.0.0.1:2"},
	}}
	if err := n.members.search.Keep(p); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "promise.json"))
	want := `{"Round":7,"Members":[{"ID":"n1","Incarnation":"` + self.Incarnation + `","PeerAddr":"` + self.PeerAddr +
		`"},{"ID":"n2","Incarnation":"x","PeerAddr":"127.0.0.1:2"}]}` + "\ncrc32c "
	if err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("promise.json is %q, want %q and a sum; %v", text, want, err)
	}
	alone := func(cfg *Config) { cfg.Discover = nil }
	refused("this node has promised others to found a cluster with them", alone)
	refused("this node has promised others", func(cfg *Config) { cfg.Discover, cfg.Join = nil, true })
	if n, err = open(as); err != nil {
		t.Fatal(err)
	}
	if got := n.members.identity(); !reflect.DeepEqual(got.Promise, p) || got.Cluster != "" {
		t.Errorf("after a restart: %+v", got)
	}
	// It dies when it has noted that the promise is kept, and before Raft has the members.
	if err := n.members.saveCluster(founding.ClusterOf(p)); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err = open(as); err != nil {
		t.Fatal(err)
	}
	if got := n.members.identity(); got.Cluster != founding.ClusterOf(p) {
		t.Errorf("after the promise was kept: %+v", got)
	}
	if err := n.Discover(t.Context(), ""); err != nil || len(n.raft.Voters()) != 2 {
		t.Errorf("%v, members %v", err, n.raft.Voters())
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err = open(alone); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "promise.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a node with data has a promise: %v", err)
	}
}

// A damaged promise refuses the folder, and one of another cluster that was about to be founded.
func TestPromiseOfDamagedFolder(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{
		ID: "n1", PeerListen: "127.0.0.1:0", Dir: dir, Machine: newTestMachine(), Publisher: &testPublisher{},
		Discover: &Discovery{Expect: 2, Addrs: func(context.Context) ([]string, error) { return nil, nil }},
	}
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.members.search.Keep(peer.Promise{Round: 1, Members: []peer.Founder{{ID: "n1"}}}); err != nil {
		t.Fatal(err)
	}
	if err := n.members.saveCluster("another"); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	fails := func(want string) {
		t.Helper()
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	fails("this node was about to found another cluster")
	path := filepath.Join(dir, "promise.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("n1"), []byte("n9"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	fails("is damaged: promise.json: ")
}

// A node joins by the addresses for clients that it can use.
func TestJoinAddrs(t *testing.T) {
	members := []peer.Identity{
		{ID: "plain", ClientAddrs: []string{"a:1", "sentinel://a:3"}},
		{ID: "both", ClientAddrs: []string{"b:1", "tls://b:2"}},
		{ID: "TLS alone", ClientAddrs: []string{"c:2", "tls://c:2"}},
		{ID: "none"},
	}
	if got := strings.Join(joinAddrs(members, true), " "); got != "a:1 tls://b:2 b:1 tls://c:2" {
		t.Errorf("with certificates: %s", got)
	}
	if got := strings.Join(joinAddrs(members, false), " "); got != "a:1 b:1" {
		t.Errorf("without: %s", got)
	}
}
