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

// Times and limits of the search.
const (
	lookPauseMin = 50 * time.Millisecond // between two probes after a change; it doubles up to lookPauseMax
	lookPauseMax = 2 * time.Second
	lookSayEvery = 10 * time.Second // interval at which the log says what the node waits for
	addrsMax     = 256              // addresses of one probe
)

// Finder looks for other nodes until this one has a cluster. Its fields are the world that it sees, so that tests can
// replace it.
type Finder struct {
	Expect   int      // number of nodes that found a cluster
	List     []string // ids of the founders, sorted; nil: any nodes
	Addrs    func(context.Context) ([]string, error)
	Self     func() peer.Identity // with the present promise
	Identify func(addr string) (peer.Identity, error)
	Found    func(peer.Promise) error
	Join     func(members []peer.Identity) error         // joins an existing cluster; not called with a List
	Meet     func(members []peer.Identity)               // hears of an existing cluster, instead of Join, with a List
	Say      func(why string, trouble map[string]string) // logs, from time to time, why the node waits

	keep   func(peer.Promise) error // stores a promise before other nodes are told
	called <-chan struct{}
	waits  func(why string)
}

// Run probes, and takes the next step, until the node has founded or joined a cluster, or ctx ends.
func (f *Finder) Run(ctx context.Context, s *Search) error {
	f.keep, f.called, f.waits = s.Keep, s.called, func(why string) { s.waits.Store(&why) }
	return f.run(ctx)
}

// Look probes once, and returns the nodes that answer, without this one.
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

// stands explains why a list founds no cluster beside a node with data.
func stands(who peer.Identity) string {
	return fmt.Sprintf("as %s (%s) has data of cluster %s: this list was founded before, and is not founded again while one "+
		"of its nodes has data. An empty node joins that cluster: LOCKD REMOVE the id that it had, and start it with a new "+
		"--id and --join. If most nodes have lost their data: lockd recover, on a folder that is left",
		who.ID, who.PeerAddr, who.Cluster)
}

// probe asks all addresses, and those in the promises of other nodes, for their nodes. It returns the nodes that
// answer, without this one, and the errors of the other addresses.
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
			who, err := f.Identify(addr)
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

// Founders lists the members of a promise, for people.
func Founders(p peer.Promise) string {
	var list []string
	for _, m := range p.Members {
		list = append(list, m.ID+" ("+m.PeerAddr+")")
	}
	return strings.Join(list, ", ")
}
