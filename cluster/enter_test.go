package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// clientPort is a port for clients of some cluster, as one that joins sees it.
type clientPort struct{ cluster string }

// clientsAddr is the address of a clientPort.
const clientsAddr = "clients:1"

// openClientPort opens one on the network of a cluster. stop closes it.
func openClientPort(c *testCluster, cluster string) (stop func()) {
	c.t.Helper()
	ln, err := c.net.From(clientsAddr).Listen(clientsAddr)
	if err != nil {
		c.t.Fatal(err)
	}
	p := &clientPort{cluster: cluster}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return func() { _ = ln.Close() }
}

// serve answers INFO, and says that every other command is done.
func (p *clientPort) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		var words int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
			return
		}
		command := ""
		for range words {
			var size int
			var word string
			if _, err := fmt.Fscanf(in, "$%d\r\n%s\r\n", &size, &word); err != nil {
				return
			}
			command += word + " "
		}
		answer := "+OK\r\n"
		if strings.HasPrefix(command, "INFO ") {
			info := "# Raft\r\nnode_id:x\r\ncluster_id:" + p.cluster + "\r\nterm:1\r\n"
			answer = string(resp.Bulk(info).AppendTo(nil, 2))
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// Every folder with every way to be told of a cluster, while n2 and n3 of cluster A run: the node serves in the cluster
// of its folder, or says why it does not.
func TestFolderAndFlags(t *testing.T) {
	const (
		serves     = "" // in cluster A
		alone      = "alone"
		lost       = "node n1 has lost its data"
		foreign    = "this new node does not found a cluster beside a node that has data"
		singleJoin = "is that of a single node, which would go on alone beside the cluster that it is to join: start it without --join"
		singleList = "is that of a single node, but the member list names 3"
		otherJoin  = ", which it is to join, is of cluster B: start it without --join"
		otherFound = ", is of cluster "
	)
	list := map[string]string{"n1": "n1:1", "n2": "n2:1", "n3": "n3:1"}
	ways := map[string]func(*Config){
		"none":     func(cfg *Config) { cfg.Members, cfg.Join = nil, false },
		"join A":   func(cfg *Config) { cfg.Members, cfg.Join = nil, true },
		"join B":   func(cfg *Config) { cfg.Members, cfg.Join = nil, true },
		"cluster":  func(cfg *Config) { cfg.Members, cfg.Join = list, false },
		"discover": func(cfg *Config) { discovering(3, "n1:1", "n2:1", "n3:1")(cfg); cfg.PeerSecrets = nil },
	}
	for folder, want := range map[string]map[string]string{
		"empty":     {"none": foreign, "join A": lost, "cluster": lost, "discover": lost},
		"single":    {"none": alone, "join A": singleJoin, "join B": singleJoin, "cluster": singleList, "discover": otherFound},
		"cluster A": {"none": serves, "join A": serves, "join B": otherJoin, "cluster": serves, "discover": serves},
	} {
		for way, want := range want {
			t.Run(folder+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := startFolder(t, folder, clientsAddr)
					defer c.close()
					of := c.nodes["n2"].members.identity().Cluster
					if way == "join B" {
						of = "B"
					}
					defer openClientPort(c, of)()
					said := c.enter("n1", ways[way], clientsAddr)
					switch want {
					case alone:
						c.expect(c.leader("n1"), "GET a", "$6 single")
					case serves:
						c.expect(c.nodes["n1"], "GET a", "$1 1")
					}
					if (want == serves || want == alone) != (said == "") || want != alone && !strings.Contains(said, want) {
						t.Errorf("it said %q, want %q", said, want)
					}
					if want == foreign {
						if err := c.enter("n1", ways[way], clientsAddr); !strings.Contains(err, want) {
							t.Errorf("started again: %q", err)
						}
					}
					c.expect(c.nodes["n2"], "GET a", "$1 1")
				})
			})
		}
	}
}

// startFolder starts cluster A, of n1 to n3, and leaves n2 and n3 of it; n1 has a folder of a kind then. All have clients
// at one address.
func startFolder(t *testing.T, kind, clients string) *testCluster {
	dirs := t.TempDir()
	c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.ClientAddrs = []string{clients} }))
	c.expect(c.settle(), "SET a 1", "+OK")
	c.agree()
	time.Sleep(foundingMax) // they have founded it
	c.kill("n1")
	dir := filepath.Join(dirs, "empty")
	if kind == "cluster A" {
		return c
	}
	own := c.nodes["n1"].config
	c.nodes["n1"].config = func(cfg *Config) {
		own(cfg)
		cfg.Dir = dir
	}
	if kind == "empty" {
		return c
	}
	dir = filepath.Join(dirs, "single")
	c.net.Partition([]string{"n1:1"}, []string{"n2:1", "n3:1"})
	c.first = map[string]string{}
	now := c.nodes["n1"].config
	c.nodes["n1"].config = func(cfg *Config) { now(cfg); cfg.Join = false }
	c.start("n1")
	c.expect(c.leader("n1"), "SET a single", "+OK")
	c.kill("n1")
	c.nodes["n1"].config = now
	c.net.Heal()
	return c
}

// enter starts a node, as the program does, and returns what it said when it was refused, or stopped.
func (c *testCluster) enter(id string, way func(*Config), join string) string {
	n := c.nodes[id]
	own := n.config
	n.config = func(cfg *Config) { own(cfg); way(cfg) }
	if n.Node != nil {
		c.kill(id)
	}
	n.fatals = nil
	if err := c.tryStart(id); err != nil {
		n.Node = nil
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var err error
	switch {
	case n.cfg.Join:
		err = n.Join(ctx, []string{join}, "")
	case n.cfg.Discover != nil:
		err = n.Discover(ctx, "")
	}
	if err != nil && ctx.Err() == nil {
		return err.Error()
	}
	time.Sleep(10 * time.Second)
	return n.stopped()
}
