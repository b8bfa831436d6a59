package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"lockd/cluster/founding"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
)

// Discovery is how nodes found a cluster without a list of members, and find one that has been founded.
type Discovery struct {
	// Expect is how many nodes found the cluster, founding.Min to founding.Max; the same on every node. Of 2*Expect empty
	// nodes or more two halves that do not find each other would found a cluster each.
	Expect int
	// Addrs are the peer addresses at which other nodes may be, host:port, as of now; this node's own may be among
	// them. An error does not keep those that come with it from being asked.
	Addrs func(ctx context.Context) ([]string, error)
}

// Discover brings this node, which was opened with Config.Discover, into a cluster: the one that is there, or one
// that it founds with others. A node with data looks once, and returns an error if it is alone with them beside another
// cluster. Else it goes on until ctx ends; joining ends as in
// Join, with its errors.
func (n *Node) Discover(ctx context.Context, password string) error {
	f := n.finder(ctx)
	f.Expect, f.Addrs = n.cfg.Discover.Expect, n.cfg.Discover.Addrs
	f.Join = func(members []peer.Identity) error { return n.joinFound(ctx, members, password) }
	if !n.members.search.On() {
		return n.checkFound(f.Look(ctx))
	}
	return f.Run(ctx, n.members.search)
}

// finder is what founding by a list and without one have in common.
func (n *Node) finder(ctx context.Context) *founding.Finder {
	return &founding.Finder{
		Self: n.members.identity, Who: n.peers.Who,
		Found: func(p peer.Promise) error { return n.found(ctx, p) },
		Say: func(why string, trouble map[string]string) {
			n.log.Warn("this node is in no cluster yet, and serves nobody: it waits "+why, "noAnswer", trouble)
		},
	}
}

// foundByList founds a cluster with the other nodes of the list, all of them.
func (n *Node) foundByList() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-n.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	f := n.finder(ctx)
	f.Expect, f.List = len(n.cfg.Members), slices.Sorted(maps.Keys(n.cfg.Members))
	f.Addrs = func(context.Context) ([]string, error) { return slices.Collect(maps.Values(n.cfg.Members)), nil }
	f.Meet = func(members []peer.Identity) { n.introduceTo(ctx, members) }
	if err := f.Run(ctx, n.members.search); err != nil && ctx.Err() == nil {
		n.fatal(err)
	}
}

// introduceTo lets members of a cluster judge this node: where it has lost its data, or is none of theirs, they say so,
// and it stops.
func (n *Node) introduceTo(ctx context.Context, members []peer.Identity) {
	ctx, cancel := context.WithTimeout(ctx, surveyMax)
	defer cancel()
	var asking sync.WaitGroup
	for _, who := range members {
		asking.Go(func() { _, _ = n.peers.Status(ctx, who.PeerAddr, 0) })
	}
	asking.Wait()
}

// checkFound compares the cluster of a node with data with those of the nodes that it finds. A single node gives way
// to them: the others of a name must not become two clusters. A member of a larger one leaves that to its majority.
func (n *Node) checkFound(heard []peer.Identity) error {
	mine := n.members.identity().Cluster
	for _, who := range heard {
		if who.Cluster == "" || mine == "" || who.Cluster == mine {
			continue
		}
		err := fmt.Errorf("this node has data of cluster %s, and node %s, which --discover has found at %s, is of cluster "+
			"%s: correct --discover, or, if the data of this node are not needed, start it with an empty data folder",
			mine, who.ID, who.PeerAddr, who.Cluster)
		if n.single {
			return err
		}
		n.log.Warn("nodes of two clusters answer at --discover", "why", err)
		break
	}
	return nil
}

// findMoved looks where the other members are, if none leads: nodes that have all come back at other addresses know only
// the old ones of each other. Once one leads, it has their new addresses agreed on (keeper.follow).
func (n *Node) findMoved() {
	if n.cfg.Discover == nil || n.members.search.On() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), surveyMax)
	defer cancel()
	f := n.finder(ctx)
	f.Addrs = n.cfg.Discover.Addrs
	n.members.recordMoved(f.Look(ctx))
}

// found founds the cluster that all of its members have promised.
func (n *Node) found(ctx context.Context, p peer.Promise) error {
	name := founding.ClusterOf(p)
	if n.dir != nil {
		n.state.mu.Lock()
		err := n.members.saveCluster(name)
		n.state.mu.Unlock()
		if err != nil {
			return err
		}
	}
	n.members.search.Founds(name)
	var first raft.Configuration
	for _, m := range p.Members {
		first.Servers = append(first.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.PeerAddr)})
	}
	// A node that has voted in a cluster that never reached it again has a term. The others bring it the log.
	if err := n.raft.Wait(ctx, n.raft.BootstrapCluster(first)); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("the cluster %s could not be founded: %w", name, err)
	}
	n.members.search.End()
	n.log.Info("this node has founded a cluster with others", "cluster", name, "members", founding.Founders(p))
	return nil
}

// joinFound joins the cluster that was found. Nothing is promised from then on until the process is started again.
func (n *Node) joinFound(ctx context.Context, members []peer.Identity, password string) error {
	n.members.search.End()
	addrs := joinAddrs(members, n.cfg.JoinTLS != nil)
	if len(addrs) == 0 {
		return fmt.Errorf("the cluster of %s has no address for clients that this node can use: its clients speak TLS, and "+
			"this node has no certificates", founding.Names(members))
	}
	n.log.Info("this node has found a cluster, and joins it", "cluster", members[0].Cluster, "through", addrs)
	return n.Join(ctx, addrs, password)
}

// joinAddrs are where clients reach some members, by TLS first where this node has certificates.
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
