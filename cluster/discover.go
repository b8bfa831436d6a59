package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"lockd/cluster/founding"
	"lockd/cluster/join"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/cluster/store"
)

// Discovery lets nodes found a cluster without a list of members, and find one that has been founded.
type Discovery struct {
	// Expect counts the nodes that found the cluster, founding.Min to founding.Max; as on all nodes. Of 2*Expect empty
	// nodes or more two halves that do not find each other would found a cluster each.
	Expect int
	// Addrs are the peer addresses at which other nodes may be, host:port, as of now; this node's own may be among
	// them. Addresses that come with an error are asked as well.
	Addrs func(ctx context.Context) ([]string, error)
}

// entrance brings a node into a cluster: by a list of founders, by discovery, or by joining.
type entrance struct {
	*core
	peers   *peer.Port
	members *members
	gate    *gatekeeper
	state   *replica.State
	dir     *store.Folder // nil in memory
	empty   bool          // the disk was empty at the start
	joiner  *join.Joiner

	moved atomic.Pointer[map[raft.Server]string] // where members were found that Raft's configuration has elsewhere

	single bool // the data folder, at the start, was that of a node that is a cluster by itself
}

func newEntrance(c *core, d data, peers *peer.Port, m *members, g *gatekeeper, s *replica.State) *entrance {
	self := func(s raft.Server) bool { return string(s.ID) == c.cfg.ID }
	e := &entrance{
		core: c, peers: peers, members: m, gate: g, state: s, dir: d.dir, empty: d.stores.Empty,
		joiner: &join.Joiner{
			Self: c.cfg.ID, Advertise: func() string { return *m.advertise.Load() },
			Cluster: func() string { return m.identity().Cluster },
			IsVoter: func() bool { return slices.ContainsFunc(c.raft.Voters(), self) },
			TLS:     c.cfg.JoinTLS, Clock: c.clock, Log: c.log, Stop: c.stop,
		},
	}
	if _, isTCP := c.cfg.Network.(peer.TCPNetwork); !isTCP {
		e.joiner.Dial = c.cfg.Network.Dial
	}
	e.moved.Store(&map[raft.Server]string{})
	return e
}

// Join makes this node, which was opened with Config.Join, a member of the cluster that the members at some client
// addresses belong to, as join.Joiner does.
func (n *Node) Join(ctx context.Context, addrs []string, password string) error {
	return n.entrance.joiner.Run(ctx, addrs, password)
}

// Discover brings this node, which was opened with Config.Discover, into a cluster: the one that is there, or one
// that it founds with others. A node with data looks once, and returns an error if it is alone with them beside another
// cluster. Else it goes on until ctx ends; joining ends as in
// Join, with its errors.
func (n *Node) Discover(ctx context.Context, password string) error {
	return n.entrance.discover(ctx, password)
}

func (e *entrance) discover(ctx context.Context, password string) error {
	f := e.finder(ctx)
	f.Expect, f.Addrs = e.cfg.Discover.Expect, e.cfg.Discover.Addrs
	f.Join = func(members []peer.Identity) error { return e.joinFound(ctx, members, password) }
	if !e.members.search.On() {
		return e.checkFound(f.Look(ctx))
	}
	return f.Run(ctx, e.members.search)
}

// finder returns what founding by a list and founding without one have in common.
func (e *entrance) finder(ctx context.Context) *founding.Finder {
	return &founding.Finder{
		Self: e.members.identity, Identify: e.peers.Identify,
		Found: func(p peer.Promise) error { return e.found(ctx, p) },
		Say: func(why string, trouble map[string]string) {
			e.log.Warn("this node is in no cluster yet, and serves nobody: it waits "+why, "noAnswer", trouble)
		},
	}
}

// check compares what the node was told about its cluster with the members in its data folder. The list of
// first members founds a cluster and is not read again, so one that differs is a mistake or out of date. A node that
// has been alone must not start under it, nor to join others: it would go on alone, beside their cluster.
func (e *entrance) check(servers []raft.Server) error {
	for _, s := range servers {
		if string(s.ID) == e.cfg.ID {
			continue // the others hear where it is now
		}
		if err := e.cfg.needsSecret("the address of peer "+string(s.ID), string(s.Address)); err != nil {
			return err
		}
	}
	known := map[string]string{}
	for _, s := range servers {
		known[string(s.ID)] = string(s.Address)
	}
	e.single = len(known) == 1 && known[e.cfg.ID] != ""
	if was := known[e.cfg.ID]; was != "" && was != *e.members.advertise.Load() {
		if err := e.gate.checkOriginal(e.members.identity(), was); err != nil {
			return err
		}
	}
	switch {
	case e.single && e.cfg.Join:
		return fmt.Errorf("data folder %s is that of a single node, which would go on alone beside the cluster that it is "+
			"to join: start it without --join, or, if its data are not needed, with an empty data folder", e.cfg.Dir)
	case e.single && len(e.cfg.Members) > 1:
		return fmt.Errorf("data folder %s is that of a single node, but the member list names %d: start this node "+
			"without the list, and add each of the others, with an empty data folder, by --join",
			e.cfg.Dir, len(e.cfg.Members))
	case e.empty || len(e.cfg.Members) == 0 || len(known) == 0 || maps.Equal(known, e.cfg.Members):
		return nil
	}
	e.log.Warn("the member list differs from the members in the data folder, which count: correct --cluster, or leave it "+
		"out, as it is read at the first start only",
		"list", e.cfg.Members, "members", known)
	return nil
}

// foundByList founds a cluster with the other nodes of the list, all of them.
func (e *entrance) foundByList() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-e.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	f := e.finder(ctx)
	f.Expect, f.List = len(e.cfg.Members), slices.Sorted(maps.Keys(e.cfg.Members))
	f.Addrs = func(context.Context) ([]string, error) { return slices.Collect(maps.Values(e.cfg.Members)), nil }
	f.Meet = func(members []peer.Identity) { e.introduceTo(ctx, members) }
	if err := f.Run(ctx, e.members.search); err != nil && ctx.Err() == nil {
		e.fatal(err)
	}
}

// introduceTo lets members of a cluster judge this node: where it has lost its data, or is none of theirs, they say so,
// and it stops.
func (e *entrance) introduceTo(ctx context.Context, members []peer.Identity) {
	ctx, cancel := context.WithTimeout(ctx, surveyMax)
	defer cancel()
	var asking sync.WaitGroup
	for _, who := range members {
		asking.Go(func() { _, _ = e.peers.Status(ctx, who.PeerAddr, 0) })
	}
	asking.Wait()
}

// checkFound compares the cluster of a node with data with those of the nodes that it finds. A single node gives way
// to them: the others of a name must not become two clusters. A member of a larger one leaves that to its majority.
func (e *entrance) checkFound(heard []peer.Identity) error {
	mine := e.members.identity().Cluster
	for _, who := range heard {
		if who.Cluster == "" || mine == "" || who.Cluster == mine {
			continue
		}
		err := fmt.Errorf("this node has data of cluster %s, and node %s, which --discover has found at %s, is of cluster "+
			"%s: correct --discover, or, if the data of this node are not needed, start it with an empty data folder",
			mine, who.ID, who.PeerAddr, who.Cluster)
		if e.single {
			return err
		}
		e.log.Warn("nodes of two clusters answer at --discover", "why", err)
		break
	}
	return nil
}

// findMoved looks where the other members are, if none leads: nodes that have all come back at other addresses know
// only the old ones of each other. Once one leads, it has the new addresses agreed on (keeper.follow).
func (e *entrance) findMoved() {
	if e.cfg.Discover == nil || e.members.search.On() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), surveyMax)
	defer cancel()
	f := e.finder(ctx)
	f.Addrs = e.cfg.Discover.Addrs
	e.recordMoved(f.Look(ctx))
}

// addrOf returns the address at which the member was found that Raft's configuration has at another one, or "".
func (e *entrance) addrOf(addr string) string {
	moved := *e.moved.Load()
	if len(moved) == 0 {
		return ""
	}
	return moved[raft.Server{ID: raft.ServerID(e.raft.IDAt(addr)), Address: raft.ServerAddress(addr)}]
}

// recordMoved takes what nodes that were found say of themselves: members among them may have come back elsewhere.
func (e *entrance) recordMoved(found []peer.Identity) {
	moved, mine := map[raft.Server]string{}, e.members.identity().Cluster
	for _, s := range e.raft.Servers() {
		for _, who := range found {
			if who.ID == string(s.ID) && who.Cluster == mine && mine != "" && who.PeerAddr != string(s.Address) &&
				e.members.roster.Load().Check(who, membership.OwnArch) == nil {
				moved[raft.Server{ID: s.ID, Address: s.Address}] = who.PeerAddr
			}
		}
	}
	e.moved.Store(&moved)
}

// found founds the cluster that all of its members have promised.
func (e *entrance) found(ctx context.Context, p peer.Promise) error {
	name := founding.ClusterOf(p)
	if e.dir != nil {
		if err := e.members.saveCluster(name); err != nil {
			return err
		}
	}
	e.members.search.Founds(name)
	var first raft.Configuration
	for _, m := range p.Members {
		first.Servers = append(first.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.PeerAddr)})
	}
	// A node that has voted in a cluster that never reached it again has a term. The others bring it the log.
	if err := e.raft.Wait(ctx, e.raft.BootstrapCluster(first)); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("the cluster %s could not be founded: %w", name, err)
	}
	e.members.search.End()
	e.log.Info("this node has founded a cluster with others", "cluster", name, "members", founding.Founders(p))
	return nil
}

// joinFound joins the cluster that was found. Nothing is promised from then on until the process is started again.
func (e *entrance) joinFound(ctx context.Context, members []peer.Identity, password string) error {
	e.members.search.End()
	addrs := joinAddrs(members, e.cfg.JoinTLS != nil)
	if len(addrs) == 0 {
		return fmt.Errorf("the cluster of %s has no address for clients that this node can use: its clients speak TLS, and "+
			"this node has no certificates", founding.Names(members))
	}
	e.log.Info("this node has found a cluster, and joins it", "cluster", members[0].Cluster, "through", addrs)
	return e.joiner.Run(ctx, addrs, password)
}

// joinAddrs returns where clients reach some members, by TLS first where this node has certificates.
func joinAddrs(members []peer.Identity, certificates bool) (addrs []string) {
	for _, who := range members {
		m := membership.MemberFrom(who)
		if at := m.TLSAddr(); at != "" && certificates {
			addrs = append(addrs, membership.TLSScheme+at)
		}
		if at := m.ClientAddr(); at != "" && at != m.TLSAddr() {
			addrs = append(addrs, at)
		}
	}
	return addrs
}
