package founding

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lockd/cluster/peer"
)

// Times and limits of a node that looks for others.
const (
	lookPauseMin = 50 * time.Millisecond // between two looks where something has changed; it doubles up to lookPauseMax
	lookPauseMax = 2 * time.Second
	lookSayEvery = 10 * time.Second // how often it says what it waits for
	addrsMax     = 256              // addresses that are asked at a look
)

// Finder looks for other nodes until this one is in a cluster. Tests give it any world.
type Finder struct {
	Expect int      // how many nodes found a cluster
	List   []string // their ids, sorted; nil: they may be any
	Addrs  func(context.Context) ([]string, error)
	Self   func() peer.Identity // with what has been promised
	Who    func(addr string) (peer.Identity, error)
	Found  func(peer.Promise) error
	Join   func(members []peer.Identity) error         // of a cluster that is there; not called with a List
	Meet   func(members []peer.Identity)               // likewise, with a List: they say whether the node may wait
	Say    func(why string, trouble map[string]string) // now and then

	keep   func(peer.Promise) error // stores it, then tells it
	called <-chan struct{}
	waits  func(why string)
}

// Run looks, and does what follows, until the node has founded a cluster or has joined one, or ctx ends.
func (f *Finder) Run(ctx context.Context, s *Search) error {
	f.keep, f.called, f.waits = s.Keep, s.called, func(why string) { s.waits.Store(&why) }
	return f.run(ctx)
}

// Look looks once, and returns who answers besides this node.
func (f *Finder) Look(ctx context.Context) []peer.Identity {
	heard, _ := f.probe(ctx, nil)
	return heard
}

func (f *Finder) run(ctx context.Context) error {
	say := time.NewTicker(lookSayEvery)
	defer say.Stop()
	var heard []peer.Identity
	var trouble map[string]string
	for pause, before := lookPauseMin, ""; ; pause = min(2*pause, lookPauseMax) {
		heard, trouble = f.probe(ctx, heard)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		next := nextStep(f.Self(), f.Expect, f.List, heard)
		switch {
		case next.found:
			return f.Found(f.Self().Promise)
		case len(next.join) > 0 && f.List != nil:
			f.Meet(next.join)
			next.waits = stands(next.join[0])
		case len(next.join) > 0:
			return f.Join(next.join)
		case next.promise.Round > 0:
			if err := f.keep(next.promise); err != nil {
				return err
			}
			next.waits = "for the others to promise the same members: " + Founders(next.promise)
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
			f.Say(next.waits, trouble)
		default:
		}
	}
}

// stands says why a list founds no cluster beside a node with data.
func stands(who peer.Identity) string {
	return fmt.Sprintf("as %s (%s) has data of cluster %s: this list was founded before, and is not founded again while one "+
		"of its nodes has data. An empty node joins that cluster: LOCKD REMOVE the id that it had, and start it with a new "+
		"--id and --join. If most nodes have lost their data: lockd recover, on a folder that is left",
		who.ID, who.PeerAddr, who.Cluster)
}

// probe asks who is at the addresses, and at those that others have promised. It returns who answers, without this
// node, and who does not.
func (f *Finder) probe(ctx context.Context, heard []peer.Identity) ([]peer.Identity, map[string]string) {
	trouble := map[string]string{}
	addrs, err := f.Addrs(ctx)
	if err != nil {
		trouble["--discover"] = err.Error()
	}
	addrs, self := slices.Clone(addrs), f.Self()
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
			who, err := f.Who(addr)
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

// Founders are the members of a promise for people to read.
func Founders(p peer.Promise) string {
	var list []string
	for _, m := range p.Members {
		list = append(list, m.ID+" ("+m.PeerAddr+")")
	}
	return strings.Join(list, ", ")
}
