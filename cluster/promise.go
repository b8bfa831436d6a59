package cluster

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"lockd/cluster/peer"
	"lockd/cluster/store"
)

// Nodes without a list of members found a cluster by promises: DESIGN.md, "Founding without a list".

// How many nodes can found a cluster together without a list. A node alone would found one whenever it finds nobody.
const (
	FoundersMin = 2
	FoundersMax = peer.FoundersMax
)

// step is what an empty node does next: one of these.
type step struct {
	promise peer.Promise    // to be stored, and then told
	found   bool            // all have promised what this node has: it founds
	join    []peer.Identity // members of the cluster that is there
	waits   string          // for what
}

// nextStep judges what an empty node has heard of others, as it may have been a while ago: self is what it says of
// itself. The step is safe however much of it is out of date.
func nextStep(self peer.Identity, expect int, heard []peer.Identity) step {
	all := newest(append(heard[:len(heard):len(heard)], self))
	own := self.Promise
	fate, missing := fateOf(own, all)
	switch {
	case fate == kept && isFounder(own, self):
		return step{found: true}
	case fate == open:
		return step{waits: "for the promise of " + strings.Join(missing, ", ") + ", to found a cluster as this node has " +
			"promised, and no other. If one of them will not come back with its data folder: stop all nodes that are " +
			"waiting here, delete their data folders, in which there are no data yet, and start them again"}
	}
	founded := slices.DeleteFunc(slices.Clone(all), func(w peer.Identity) bool { return w.Cluster == "" })
	for _, w := range founded {
		if w.Cluster != founded[0].Cluster {
			return step{waits: fmt.Sprintf("as nodes of two clusters answer: %s of %s, and %s of %s. Correct --discover",
				founded[0].ID, founded[0].Cluster, w.ID, w.Cluster)}
		}
	}
	switch {
	case len(founded) > 0:
		return step{join: founded}
	case fate == kept:
		return step{waits: "until the others have founded the cluster that it will join"}
	}
	return nextPromise(own, expect, all)
}

// nextPromise is what a node promises that is bound by nothing (any more): the first nodes by id, of all that it has
// heard of, are the members. Others promise so as well, which shows that they will not promise what others wait for.
func nextPromise(own peer.Promise, expect int, empty []peer.Identity) step {
	top := uint64(0)
	var list []peer.Founder
	for i, w := range empty {
		if i > 0 && w.ID == empty[i-1].ID {
			return step{waits: fmt.Sprintf("as two nodes have the id %s: give each its own --id", w.ID)}
		}
		if n := len(w.Promise.Members); n > 0 && n != expect {
			return step{waits: fmt.Sprintf("as node %s expects %d nodes, and this one %d: correct --expect", w.ID, n, expect)}
		}
		top = max(top, w.Promise.Round)
		list = append(list, peer.Founder{ID: w.ID, Incarnation: w.Incarnation, PeerAddr: w.PeerAddr})
	}
	if len(list) < expect {
		return step{waits: fmt.Sprintf("for more empty nodes: it has found %s, and a cluster is founded by %d (--expect)",
			names(empty), expect)}
	}
	next := peer.Promise{Round: top + 1, Members: list[:expect]}
	if joins := (peer.Promise{Round: top, Members: next.Members}); top > own.Round && slices.ContainsFunc(empty,
		func(w peer.Identity) bool { return samePromise(w.Promise, joins) }) {
		next = joins
	}
	if err := (peer.Identity{ID: list[0].ID, Promise: next}).Check(); err != nil {
		return step{waits: "as its promise is beyond a limit: " + err.Error()}
	}
	return step{promise: next}
}

// fate is what is certain about a promise.
type fate int

const (
	void fate = iota // not all of its members will ever have promised it; or there is none
	open             // that is not known
	kept             // all have, some time
)

// fateOf finds out what has become of a promise, and of which members that is not known.
func fateOf(p peer.Promise, all []peer.Identity) (f fate, missing []string) {
	if p.Round == 0 {
		return void, nil
	}
	cluster := clusterOf(p)
	if slices.ContainsFunc(all, func(w peer.Identity) bool { return w.Cluster == cluster }) {
		return kept, nil
	}
	for _, m := range p.Members {
		i := slices.IndexFunc(all, func(w peer.Identity) bool { return w.ID == m.ID && w.Incarnation == m.Incarnation })
		switch {
		case i >= 0 && samePromise(all[i].Promise, p):
		case i >= 0 && (all[i].Cluster != "" || all[i].Promise.Round >= p.Round):
			return void, nil // it has promised something else in this round or later, or is in another cluster
		default:
			missing = append(missing, m.ID+" ("+m.PeerAddr+")")
		}
	}
	if len(missing) > 0 {
		return open, missing
	}
	return kept, nil
}

// newest has each data folder once, as it was last heard of, by id.
func newest(heard []peer.Identity) []peer.Identity {
	last := map[string]peer.Identity{}
	for _, w := range heard {
		key := folderKey(w.ID, w.Incarnation)
		if old, ok := last[key]; !ok || w.Cluster != "" || old.Cluster == "" && w.Promise.Round > old.Promise.Round {
			last[key] = w
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b peer.Identity) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
}

func samePromise(a, b peer.Promise) bool {
	return a.Round == b.Round && slices.Equal(a.Members, b.Members)
}

func isFounder(p peer.Promise, who peer.Identity) bool {
	return slices.ContainsFunc(p.Members, func(m peer.Founder) bool {
		return m.ID == who.ID && m.Incarnation == who.Incarnation
	})
}

// clusterOf is the id of the cluster that is founded when a promise is kept.
func clusterOf(p peer.Promise) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n", p.Round)
	for _, m := range p.Members {
		fmt.Fprintf(sum, "%d %s %d %s %d %s\n", len(m.ID), m.ID, len(m.Incarnation), m.Incarnation,
			len(m.PeerAddr), m.PeerAddr)
	}
	return clusterName(sum)
}

// clusterName makes the id of a cluster of a sum over its founders.
func clusterName(sum hash.Hash) string {
	return base32.StdEncoding.EncodeToString(sum.Sum(nil))[:len(rand.Text())]
}

// names are the ids of nodes.
func names(of []peer.Identity) string {
	var ids []string
	for _, w := range of {
		ids = append(ids, w.ID)
	}
	return strings.Join(ids, ", ")
}

// search is what a node without data has promised on its way into a cluster. Its methods may be called concurrently,
// but for begin, and keep and found, which one goroutine calls.
type search struct {
	on     atomic.Bool                  // Raft does not get in: another node's log must not come beside a promise
	own    atomic.Pointer[peer.Promise] // on the disk before it is told
	name   atomic.Pointer[string]       // of the cluster that was founded
	waits  atomic.Pointer[string]       // for what
	called chan struct{}                // capacity 1: somebody of a cluster has called
	dir    *store.Folder                // nil in memory
}

func newSearch() *search {
	s := &search{called: make(chan struct{}, 1)}
	s.own.Store(&peer.Promise{})
	s.name.Store(new(string))
	s.waits.Store(new(string))
	return s
}

// begin takes up what the node promised before it was started again. goesOn: it is to find its cluster by itself.
func (s *search) begin(dir *store.Folder, empty, goesOn bool) error {
	s.dir = dir
	switch {
	case dir == nil:
		s.on.Store(empty && goesOn)
		return nil
	case !empty:
		return dir.RemovePromise() // a node with data never makes one again
	}
	s.on.Store(goesOn)
	line, err := dir.Promise()
	if err != nil {
		return err
	}
	var p peer.Promise
	noted := dir.Meta().Cluster
	switch {
	case line != nil && !goesOn:
		return errors.New("this node has promised others to found a cluster with them: start it with --expect and " +
			"--discover as before, or delete its data folder, in which there are no data yet, and theirs")
	case line != nil && json.Unmarshal(line, &p) != nil:
		return errors.New("the promise in the data folder cannot be read")
	case goesOn && noted != "" && noted != clusterOf(p):
		return errors.New("this node was about to found another cluster: start it as before, or delete its data folder, in " +
			"which there are no data yet")
	}
	s.own.Store(&p)
	return nil
}

// keep stores a promise, and tells it from then on.
func (s *search) keep(p peer.Promise) error {
	if s.dir != nil {
		line, err := json.Marshal(p)
		if err == nil {
			err = s.dir.SavePromise(line)
		}
		if err != nil {
			return err
		}
	}
	s.own.Store(&p)
	return nil
}

// refuses reports whether Raft's messages are too early for this node. It looks for a cluster again at once, as who
// sends them has one.
func (s *search) refuses() bool {
	if !s.on.Load() {
		return false
	}
	signal(s.called)
	return true
}

// waitsFor is a sentence for who asks why the node is in no cluster; "": it is not on its way.
func (s *search) waitsFor() string {
	if what := *s.waits.Load(); s.on.Load() && what != "" {
		return "it waits " + what
	}
	return ""
}

// promised is what the node has promised.
func (s *search) promised() peer.Promise { return *s.own.Load() }

// founded is the cluster that this node has founded by its promise, or "".
func (s *search) founded() string { return *s.name.Load() }
