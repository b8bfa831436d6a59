package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
)

// Discovery is how nodes found a cluster without a list of members, and find one that has been founded.
type Discovery struct {
	// Expect is how many nodes found the cluster, FoundersMin to FoundersMax; the same on every node. Of 2*Expect empty
	// nodes or more two halves that do not find each other would found a cluster each.
	Expect int
	// Addrs are the peer addresses at which other nodes may be, host:port, as of now; this node's own may be among
	// them. An error does not keep those that come with it from being asked.
	Addrs func(ctx context.Context) ([]string, error)
}

// Times and limits of a node that looks for others.
const (
	lookPauseMin = 200 * time.Millisecond // between two looks where something has changed; it doubles up to lookPauseMax
	lookPauseMax = 2 * time.Second
	lookSayEvery = 10 * time.Second // how often it says what it waits for
	addrsMax     = 256              // addresses that are asked at a look
)

// Discover brings this node, which was opened with Config.Discover, into a cluster: the one that is there, or one
// that it founds with others. It returns at once if the node has data. It goes on until ctx ends; joining ends as in
// Join, with its errors.
func (n *Node) Discover(ctx context.Context, password string) error {
	if !n.members.search.on.Load() {
		return nil
	}
	f := &finder{
		expect: n.cfg.Discover.Expect, addrs: n.cfg.Discover.Addrs,
		self: n.members.identity, who: n.peers.Who, keep: n.members.search.keep,
		found:  func(p peer.Promise) error { return n.found(ctx, p) },
		join:   func(members []peer.Identity) error { return n.joinFound(ctx, members, password) },
		called: n.members.search.called,
		say: func(why string, trouble map[string]string) {
			n.log.Warn("this node is in no cluster yet, and serves nobody: it waits "+why, "noAnswer", trouble)
		},
		waits: func(why string) { n.members.search.waits.Store(&why) },
	}
	return f.run(ctx)
}

// found founds the cluster that all of its members have promised.
func (n *Node) found(ctx context.Context, p peer.Promise) error {
	name := clusterOf(p)
	if n.dir != nil {
		n.state.mu.Lock()
		err := n.members.noteCluster(name)
		n.state.mu.Unlock()
		if err != nil {
			return err
		}
	}
	n.members.search.name.Store(&name)
	var first raft.Configuration
	for _, m := range p.Members {
		first.Servers = append(first.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.PeerAddr)})
	}
	// A node that has voted in a cluster that never reached it again has a term. The others bring it the log.
	if err := n.raft.wait(ctx, n.raft.BootstrapCluster(first)); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("the cluster %s could not be founded: %w", name, err)
	}
	n.members.search.on.Store(false)
	n.log.Info("this node has founded a cluster with others", "cluster", name, "members", saysFounders(p))
	return nil
}

// joinFound joins the cluster that was found. Nothing is promised from then on until the process is started again.
func (n *Node) joinFound(ctx context.Context, members []peer.Identity, password string) error {
	n.members.search.on.Store(false)
	addrs := joinAddrs(members, n.cfg.JoinTLS != nil)
	if len(addrs) == 0 {
		return fmt.Errorf("the cluster of %s has no address for clients that this node can use: its clients speak TLS, and "+
			"this node has no certificates", names(members))
	}
	n.log.Info("this node has found a cluster, and joins it", "cluster", members[0].Cluster, "through", addrs)
	return n.Join(ctx, addrs, password)
}

// joinAddrs are where clients reach some members, by TLS first where this node has certificates.
func joinAddrs(members []peer.Identity, certificates bool) (addrs []string) {
	for _, who := range members {
		m := memberFrom(who)
		if at := m.tlsAddr(); at != "" && certificates {
			addrs = append(addrs, tlsScheme+at)
		}
		if at := m.clientAddr(); at != "" && at != m.tlsAddr() {
			addrs = append(addrs, at)
		}
	}
	return addrs
}

// finder looks for other nodes until this one is in a cluster. It knows no node, so that tests can give it any world.
type finder struct {
	expect int
	addrs  func(context.Context) ([]string, error)
	self   func() peer.Identity
	who    func(addr string) (peer.Identity, error)
	keep   func(peer.Promise) error // stores it, then tells it
	found  func(peer.Promise) error
	join   func(members []peer.Identity) error
	called <-chan struct{}
	say    func(why string, trouble map[string]string)
	waits  func(why string)
}

// run looks, and does what follows, until the node has founded a cluster or has joined one.
func (f *finder) run(ctx context.Context) error {
	say := time.NewTicker(lookSayEvery)
	defer say.Stop()
	var heard []peer.Identity
	var trouble map[string]string
	for pause, before := lookPauseMin, ""; ; pause = min(2*pause, lookPauseMax) {
		heard, trouble = f.look(ctx, heard)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		next := nextStep(f.self(), f.expect, heard)
		switch {
		case next.found:
			return f.found(f.self().Promise)
		case len(next.join) > 0:
			return f.join(next.join)
		case next.promise.Round > 0:
			if err := f.keep(next.promise); err != nil {
				return err
			}
			next.waits = "for the others to promise the same members: " + saysFounders(next.promise)
		}
		f.waits(next.waits)
		if next.waits != before {
			pause, before = lookPauseMin, next.waits
		}
		select {
		case <-time.After(pause):
		case <-f.called:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-say.C:
			f.say(next.waits, trouble)
		default:
		}
	}
}

// look asks who is at the addresses, and at those that others have promised. It returns who answers, without this
// node, and who does not.
func (f *finder) look(ctx context.Context, heard []peer.Identity) ([]peer.Identity, map[string]string) {
	trouble := map[string]string{}
	addrs, err := f.addrs(ctx)
	if err != nil {
		trouble["--discover"] = err.Error()
	}
	self := f.self()
	for _, w := range append(heard, self) {
		for _, m := range w.Promise.Members {
			addrs = append(addrs, m.PeerAddr)
		}
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	heard = nil
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, addr := range addrs[:min(len(addrs), addrsMax)] {
		asking.Go(func() {
			who, err := f.who(addr)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				trouble[addr] = err.Error()
			case who.ID != self.ID || who.Incarnation != self.Incarnation:
				heard = append(heard, who)
			}
		})
	}
	asking.Wait()
	return heard, trouble
}

// saysFounders are the members of a promise for people to read.
func saysFounders(p peer.Promise) string {
	var list []string
	for _, m := range p.Members {
		list = append(list, m.ID+" ("+m.PeerAddr+")")
	}
	return strings.Join(list, ", ")
}
