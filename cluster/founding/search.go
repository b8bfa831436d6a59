package founding

import (
	"encoding/json"
	"errors"
	"sync/atomic"

	"lockd/cluster/peer"
	"lockd/cluster/store"
)

// Search holds the progress of a node without data on its way into a cluster. Its methods may be called concurrently,
// except Begin and Keep, which one goroutine calls.
type Search struct {
	on     atomic.Bool                  // refuses Raft's messages: another node's log must not come beside a promise
	own    atomic.Pointer[peer.Promise] // the promise; on the disk before other nodes are told
	name   atomic.Pointer[string]       // id of the cluster that this node founds, or ""
	waits  atomic.Pointer[string]       // the reason to wait
	called chan struct{}                // capacity 1: a member of a cluster has called
	dir    *store.Folder                // nil in memory
}

// NewSearch returns a search that has not begun.
func NewSearch() *Search {
	s := &Search{called: make(chan struct{}, 1)}
	s.own.Store(&peer.Promise{})
	s.name.Store(new(string))
	s.waits.Store(new(string))
	return s
}

// Begin restores the promise from before a restart. goesOn: the node has to find its cluster without help.
func (s *Search) Begin(dir *store.Folder, empty, goesOn bool) error {
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
		return errors.New("this node has promised others to found a cluster with them: start it as before (--cluster, or " +
			"--expect and --discover), or delete its data folder, in which there are no data yet, and theirs")
	case line != nil && json.Unmarshal(line, &p) != nil:
		return errors.New("the promise in the data folder cannot be read")
	case goesOn && noted != "" && noted != ClusterOf(p):
		return errors.New("this node was about to found another cluster: start it as before, or delete its data folder, in " +
			"which there are no data yet")
	}
	s.own.Store(&p)
	return nil
}

// Keep stores a promise, which other nodes are told from then on.
func (s *Search) Keep(p peer.Promise) error {
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

// Refuses reports whether Raft's messages come too early for this node. It also wakes the search, since the sender of
// such a message has a cluster.
func (s *Search) Refuses() bool {
	if !s.on.Load() {
		return false
	}
	select {
	case s.called <- struct{}{}:
	default:
	}
	return true
}

// WaitsFor returns the reason why the node is in no cluster yet, as a sentence; "": it is not searching.
func (s *Search) WaitsFor() string {
	if what := *s.waits.Load(); s.on.Load() && what != "" {
		return "it waits " + what
	}
	return ""
}

// Promised returns the node's promise, with Round 0 if there is none.
func (s *Search) Promised() peer.Promise { return *s.own.Load() }

// On reports whether the node is searching.
func (s *Search) On() bool { return s.on.Load() }

// End ends the search and lets Raft's messages in: the node has a cluster.
func (s *Search) End() { s.on.Store(false) }

// Founds records the id of the cluster that this node founds by its promise.
func (s *Search) Founds(cluster string) { s.name.Store(&cluster) }

// Founded returns the id that Founds recorded, or "".
func (s *Search) Founded() string { return *s.name.Load() }
