package observer

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"lockd/resp/lockuse"
)

// Bounds of the observations kept of ended sessions, and reported at once.
const (
	totalsMax = 256
	othersMax = 256
)

// Node keeps the observations of ended sessions. Its methods are safe for concurrent use.
type Node struct {
	sinceMs int64

	mu     sync.Mutex
	totals map[total]lockuse.Observation
	others []lockuse.Observation // the newest
	at     int
}

// total is the key by which observations are counted together.
type total struct {
	kind     lockuse.Kind
	db       int
	template string
}

// NewNode returns an empty Node that begins at a wall time.
func NewNode(sinceMs int64) *Node {
	return &Node{sinceMs: sinceMs, totals: map[total]lockuse.Observation{}}
}

// Fold keeps the observations of an ended session.
func (n *Node) Fold(list []lockuse.Observation) {
	if len(list) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range list {
		switch {
		case isTotal(s.Kind):
			sum(n.totals, s)
		case len(n.others) < othersMax:
			n.others = append(n.others, s)
		default:
			n.others[n.at] = s
			n.at = (n.at + 1) % othersMax
		}
	}
}

// isTotal reports whether observations of a kind are counted together.
func isTotal(k lockuse.Kind) bool {
	return k <= lockuse.LeaseDropped && k != lockuse.StillTaken || k == lockuse.GetThenSet
}

// sum adds an observation to its total, and keeps the newest as the example.
func sum(totals map[total]lockuse.Observation, s lockuse.Observation) {
	t := total{s.Kind, s.DB, lockuse.Template(s.Key)}
	was, known := totals[t]
	if !known && len(totals) >= totalsMax {
		return
	}
	if was.AtMs > s.AtMs {
		s, was = was, s
	}
	s.Count += was.Count
	totals[t] = s
}

// Report returns the node's report in binary form: the observations of its sessions, and those kept of ended ones.
func (n *Node) Report(name string, sessions []lockuse.Observation) string {
	n.mu.Lock()
	totals, others := maps.Clone(n.totals), slices.Clone(n.others)
	n.mu.Unlock()
	for _, s := range sessions {
		if isTotal(s.Kind) {
			sum(totals, s)
		} else {
			others = append(others, s)
		}
	}
	slices.SortFunc(others, func(a, b lockuse.Observation) int { return cmp.Compare(b.AtMs, a.AtMs) })
	r := lockuse.Report{Node: name, SinceMs: n.sinceMs, Observations: others[:min(len(others), othersMax)]}
	r.Observations = slices.AppendSeq(r.Observations, maps.Values(totals))
	return r.String()
}
