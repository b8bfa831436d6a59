package founding

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockd/cluster/peer"
)

// Bounds of the number of nodes that found a cluster together without a list. A single node would found one whenever it
// finds no other.
const (
	Min = 2
	Max = peer.FoundersMax
)

// step is the next step of an empty node. Exactly one field is set.
type step struct {
	promise peer.Promise    // to be stored, and told afterwards
	found   bool            // all members have made this node's promise: found the cluster
	join    []peer.Identity // members of a cluster that exists
	waits   string          // the reason to wait, for people: "for ..." or "as ..."
}

// nextStep decides the next step of an empty node: self is its own identity, heard what other nodes said of themselves,
// perhaps a while ago. The step is safe however outdated heard is.
func nextStep(self peer.Identity, expect int, list []string, heard []peer.Identity) step {
	all := newest(append(heard[:len(heard):len(heard)], self))
	own := self.Promise
	state, missing := stateOf(own, all)
	switch {
	case state == kept && isFounder(own, self):
		return step{found: true}
	case state == open:
		return step{waits: "for the promise of " + strings.Join(missing, ", ") + ", to found a cluster as this node has " +
			"promised, and no other. If one of them will not come back with its data folder: stop all nodes that are " +
			"waiting here, delete their data folders, in which there are no data yet, and start them again"}
	}
	founded := slices.DeleteFunc(slices.Clone(all), func(w peer.Identity) bool { return w.Cluster == "" })
	for _, w := range founded {
		if w.Cluster != founded[0].Cluster && list == nil {
			return step{waits: fmt.Sprintf("as nodes of two clusters answer: %s of %s, and %s of %s. Correct --discover",
				founded[0].ID, founded[0].Cluster, w.ID, w.Cluster)}
		}
	}
	switch {
	case len(founded) > 0:
		return step{join: founded}
	case state == kept:
		return step{waits: "until the others have founded the cluster that it will join"}
	}
	return nextPromise(own, expect, list, all)
}

// nextPromise returns the promise of a node that no earlier promise binds: its members are the first nodes by id of all
// known nodes that may be founders. The node repeats a promise that others have already made for these members; an
// this makes an earlier promise of another node void.
func nextPromise(own peer.Promise, expect int, ids []string, empty []peer.Identity) step {
	top := uint64(0)
	var list []peer.Founder
	for i, w := range empty {
		if i > 0 && w.ID == empty[i-1].ID {
			return step{waits: fmt.Sprintf("as two nodes have the id %s: give each its own --id", w.ID)}
		}
		if n := len(w.Promise.Members); n > 0 && n != expect {
			return step{waits: fmt.Sprintf("as node %s expects %d nodes, and this one %d: correct --expect or --cluster", w.ID,
				n, expect)}
		} else if n > 0 && ids != nil && !slices.Equal(idsOf(w.Promise), ids) {
			return step{waits: fmt.Sprintf("as node %s founds a cluster of other nodes: %s; correct --cluster, which is the same "+
				"on every node", w.ID, Founders(w.Promise))}
		}
		top = max(top, w.Promise.Round)
		if ids != nil && !slices.Contains(ids, w.ID) {
			continue
		}
		list = append(list, peer.Founder{ID: w.ID, Incarnation: w.Incarnation, PeerAddr: w.PeerAddr})
	}
	if len(list) < expect && ids != nil {
		return step{waits: fmt.Sprintf("for %s: a list founds a cluster once all of its nodes are there, and none of them has "+
			"data", strings.Join(missingOf(ids, list), ", "))}
	}
	if len(list) < expect {
		return step{waits: fmt.Sprintf("for more empty nodes: it has found %s, and a cluster is founded by %d (--expect)",
			Names(empty), expect)}
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

func idsOf(p peer.Promise) (ids []string) {
	for _, m := range p.Members {
		ids = append(ids, m.ID)
	}
	return ids
}

// missingOf lists the ids that none of the founders has.
func missingOf(ids []string, found []peer.Founder) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(found, func(f peer.Founder) bool { return f.ID == id })
	})
}

// promiseState is the state of a promise.
type promiseState int

const (
	void promiseState = iota // some member will never make it; or there is no promise
	open                     // not known
	kept                     // every member has made it at some time
)

// stateOf returns the state of a promise and, if that is open, the members of which nothing certain is known.
func stateOf(p peer.Promise, all []peer.Identity) (s promiseState, missing []string) {
	if p.Round == 0 {
		return void, nil
	}
	cluster := ClusterOf(p)
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

// newest returns the latest identity of each data folder, by id.
func newest(heard []peer.Identity) []peer.Identity {
	last := map[[2]string]peer.Identity{}
	for _, w := range heard {
		key := [2]string{w.ID, w.Incarnation}
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

// ClusterOf returns the id of the cluster that is founded when a promise is kept.
func ClusterOf(p peer.Promise) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n", p.Round)
	for _, m := range p.Members {
		fmt.Fprintf(sum, "%d %s %d %s %d %s\n", len(m.ID), m.ID, len(m.Incarnation), m.Incarnation,
			len(m.PeerAddr), m.PeerAddr)
	}
	return base32.StdEncoding.EncodeToString(sum.Sum(nil))[:len(rand.Text())]
}

// Names lists the ids of nodes, for people.
func Names(of []peer.Identity) string {
	var ids []string
	for _, w := range of {
		ids = append(ids, w.ID)
	}
	return strings.Join(ids, ", ")
}
