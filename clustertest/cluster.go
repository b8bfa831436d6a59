package clustertest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster"
)

const (
	// step is the virtual time that passes after each line of a transcript and each call that changes the cluster:
	// enough for all nodes to learn of it.
	step = 50 * time.Millisecond
	// leaderMax bounds the wait for a leader, in virtual time.
	leaderMax = 30 * time.Second
	// clientsStopMax and nodeStopMax bound the parts of an orderly stop, in virtual time, as in cmd/lockd.
	clientsStopMax = 15 * time.Second
	nodeStopMax    = 10 * time.Second
	// Killed is why a process ends at a fault point that kills it.
	Killed = "(killed)"
	// NodesMax bounds the nodes of a cluster, which is also the limit of founding members.
	NodesMax = 9
)

// Cluster is a cluster of simulated nodes. The goroutine of the test uses it, inside a bubble of testing/synctest.
type Cluster struct {
	t        testing.TB
	world    *World
	tune     []func(*cluster.Config)
	founders map[string]string // their peer addresses by id
	nodes    []*Node
}

// Start starts a cluster of the nodes n1 to nN, and returns once it has been founded, and n1 leads. It ends with the
// test. tune may change what nodes are given, at each start of each.
func Start(t testing.TB, n int, tune ...func(*cluster.Config)) *Cluster {
	t.Helper()
	if n < 1 || n > NodesMax {
		t.Fatalf("a cluster has 1 to %d nodes, not %d", NodesMax, n)
	}
	c := &Cluster{t: t, world: NewWorld(1), tune: tune, founders: map[string]string{}}
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		c.founders[id] = id + ":16379"
	}
	for i := range n {
		add(c, fmt.Sprintf("n%d", i+1), c.founders)
	}
	t.Cleanup(c.close)
	c.Start(c.ids()...)
	c.await("founding", func() bool {
		return slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.leads(len(c.nodes) - 1) })
	})
	c.Lead("n1")
	return c
}

// add adds a machine to a cluster.
func add(c *Cluster, id string, members map[string]string) {
	c.t.Helper()
	err := c.world.Add(Machine{ID: id, Members: members, Tune: func(back *cluster.Config) {
		for _, tune := range c.tune {
			tune(back)
		}
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	m, _ := c.world.machine(id)
	c.nodes = append(c.nodes, &Node{machine: m, cluster: c})
}

// close ends all nodes, and what clients still wait for.
func (c *Cluster) close() {
	c.world.Close()
	for _, n := range c.nodes {
		if why := n.death(); why != nil {
			c.t.Errorf("%s has ended its process: %v", n.machine.ID, why)
		}
	}
}

func (c *Cluster) ids() (ids []string) {
	for _, n := range c.nodes {
		ids = append(ids, n.machine.ID)
	}
	return ids
}

// Node returns a node by its id, n1 and so on.
func (c *Cluster) Node(id string) *Node {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.machine.ID == id {
			return n
		}
	}
	c.t.Fatalf("there is no node %s", id)
	return nil
}

// Start starts nodes that do not run, on the disks that they have. A node may end itself at once: Died waits for that.
func (c *Cluster) Start(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		n := c.Node(id)
		if err := n.machine.start(); err != nil && n.death() == nil {
			c.t.Fatalf("%s does not start: %v", id, err)
		}
	}
	settle(c)
}

// Kill ends the processes of nodes as kill -9 does. Their machines go on: what the processes wrote is on their disks.
func (c *Cluster) Kill(ids ...string) { c.end(kill, ids) }

// LoseUnsynced ends nodes as a power failure does, all at once: writes that were not synced are lost.
func (c *Cluster) LoseUnsynced(ids ...string) { c.end(drop, ids) }

func (c *Cluster) end(how death, ids []string) {
	c.t.Helper()
	synctest.Wait() // no request is between two of a node's goroutines
	for _, id := range ids {
		n := c.Node(id)
		if n.machine.running() == nil {
			c.t.Fatalf("%s does not run", id)
		}
		_ = n.machine.end(how) // it runs
		n.hangUp()
	}
	for _, id := range ids {
		c.Node(id).machine.awaitGone()
	}
	settle(c)
}

// Stop ends the processes of nodes in order, one after the other, as SIGTERM does: waiting clients get answers, a
// leader hands over, and requests in flight end.
func (c *Cluster) Stop(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		n := c.Node(id)
		if err := c.world.Stop(context.Background(), id); err != nil {
			c.t.Fatal(err)
		}
		n.hangUp()
	}
	settle(c)
}

// New starts machines that are not in the list of founding members: empty nodes, which wait for LOCKD ADD.
func (c *Cluster) New(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		add(c, id, nil)
	}
	c.Start(ids...)
}

// Wipe replaces the disks of nodes that do not run by empty ones.
func (c *Cluster) Wipe(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if err := c.Node(id).machine.wipe(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// World returns the machines of the cluster, for faults that Cluster has no method for.
func (c *Cluster) World() *World { return c.world }

// Died waits until the process of a node has ended by itself, and returns why; Killed if a fault point has killed it.
// It does not run afterwards.
func (c *Cluster) Died(id string) string {
	c.t.Helper()
	n := c.Node(id)
	c.await("the end of "+id, func() bool { return n.machine.running() == nil })
	why := Killed
	if err := n.death(); err != nil {
		why = err.Error()
	}
	n.machine.last().died.Store(nil)
	n.hangUp()
	n.machine.awaitGone()
	settle(c)
	return why
}

// Restart kills the nodes, all at once, and starts them again.
func (c *Cluster) Restart(ids ...string) {
	c.t.Helper()
	c.end(kill, ids)
	c.Start(ids...)
}

// Cut separates a node from the named nodes in both directions, or from all others if none is named. Clients still
// reach every node. Messages between separated nodes stay under way until Heal.
func (c *Cluster) Cut(id string, from ...string) {
	c.t.Helper()
	if len(from) == 0 {
		from = slices.DeleteFunc(c.ids(), func(other string) bool { return other == id })
	}
	for _, other := range from {
		c.world.net.Partition([]string{c.Node(id).machine.PeerAddr}, []string{c.Node(other).machine.PeerAddr})
	}
	settle(c)
}

// Heal ends what Cut has begun.
func (c *Cluster) Heal() {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.machine.PeerAddr)
	}
	c.world.net.SetCut(false, all, all)
	settle(c)
}

// Pause stops nodes as SIGSTOP does: they send nothing, to nodes or clients, and what they are sent waits. The package
// comment says in what it differs.
func (c *Cluster) Pause(ids ...string) { pauseOrResume(c, true, ids) }

// Resume ends what Pause has begun.
func (c *Cluster) Resume(ids ...string) { pauseOrResume(c, false, ids) }

func pauseOrResume(c *Cluster, paused bool, ids []string) {
	c.t.Helper()
	for _, id := range ids {
		c.Node(id).machine.setPaused(paused)
	}
	settle(c)
}

// Slow makes each later write to a node's disk take latency. A node ends itself if its disk takes 5 s for an entry,
// or for a vote, which is two writes.
func (c *Cluster) Slow(id string, latency time.Duration) {
	c.t.Helper()
	c.Node(id).machine.diskNow().SetLatency(latency)
	settle(c)
}

// Full says whether the disk of a node is nearly full from now on. Nodes look once a second.
func (c *Cluster) Full(id string, full bool) {
	c.t.Helper()
	c.Node(id).machine.diskNow().SetShort(full)
	settle(c)
}

// StepClock steps the wall clock of a node's machine, forward or back.
func (c *Cluster) StepClock(id string, by time.Duration) {
	c.t.Helper()
	c.Node(id).machine.clock.Step(by)
	settle(c)
}

// Lead has a node lead, and waits until it does.
func (c *Cluster) Lead(id string) {
	c.t.Helper()
	n := c.Node(id)
	c.await(id+" as the leader", func() bool {
		if n.leads(0) {
			return true
		}
		n.ask("LOCKD", "TRANSFER", id)
		return false
	})
	settle(c)
}

// Transfer has the leader hand over to another node, and waits until that leads.
func (c *Cluster) Transfer() {
	c.t.Helper()
	before := c.Leader()
	c.await("another leader", func() bool {
		if now := c.leader(); now != "" && now != before {
			return true
		}
		c.Node(before).ask("LOCKD", "TRANSFER")
		return false
	})
	settle(c)
}

// Leader waits until a node leads, and returns its id.
func (c *Cluster) Leader() (id string) {
	c.t.Helper()
	c.await("a leader", func() bool {
		id = c.leader()
		return id != ""
	})
	return id
}

// leader is the node that leads now, or "".
func (c *Cluster) leader() string {
	for _, n := range c.nodes {
		if n.leads(0) {
			return n.machine.ID
		}
	}
	return ""
}

// await waits until something is so.
func (c *Cluster) await(what string, is func() bool) {
	c.t.Helper()
	for range leaderMax / step {
		if is() {
			return
		}
		time.Sleep(step)
	}
	c.t.Fatalf("waited %s for %s, in vain", leaderMax, what)
}

// settle lets what has begun come to its end.
func settle(c *Cluster) {
	time.Sleep(step)
	synctest.Wait()
}

// logger returns the logger of a node: it writes to stderr if LOCKD_TEST_LOG is set, and nowhere otherwise.
func logger(id string) *slog.Logger {
	if os.Getenv("LOCKD_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", id)
}
