package founding

import (
	"encoding/json"
	"errors"
	"sync/atomic"

	"lockd/cluster/peer"
	"lockd/cluster/store"
)

// Search is what a node without data has promised on its way into a cluster. Its methods may be called concurrently,
// but for Begin and Keep, which one goroutine calls.
type Search struct {
	on     atomic.Bool                  // Raft does not get in: another node's log must not come beside a promise
	own    atomic.Pointer[peer.Promise] // on the disk before it is told
	name   atomic.Pointer[string]       // of the cluster that was founded
	waits  atomic.Pointer[string]       // for what
	called chan struct{}                // capacity 1: somebody of a cluster has called
	dir    *store.Folder                // nil in memory
}

// NewSearch is one that has not begun.
func NewSearch() *Search {
	s := &Search{called: make(chan struct{}, 1)}
	s.own.Store(&peer.Promise{})
	s.name.Store(new(string))
	s.waits.Store(new(string))
	return s
}

// Begin takes up what the node promised before it was started again. goesOn: it is to find its cluster by itself.
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

// Keep stores a promise, and tells it from then on.
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

// Refuses reports whether Raft's messages are too early for this node. It looks for a cluster again at once, as who
// sends them has one.
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

// WaitsFor is a sentence for who asks why the node is in no cluster; "": it is not on its way.
func (s *Search) WaitsFor() string {
	if what := *s.waits.Load(); s.on.Load() && what != "" {
		return "it waits " + what
	}
	return ""
}

// Promised is what the node has promised.
func (s *Search) Promised() peer.Promise { return *s.own.Load() }

// On reports whether the node is on its way.
func (s *Search) On() bool { return s.on.Load() }

// End lets Raft in: the node has founded a cluster, or has found one.
func (s *Search) End() { s.on.Store(false) }

// Founds notes the cluster that this node founds by its promise, which Founded tells from then on.
func (s *Search) Founds(cluster string) { s.name.Store(&cluster) }

// Founded is that cluster, or "".
func (s *Search) Founded() string { return *s.name.Load() }
