package witness

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"lockd/resp/sight"
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
	totals map[total]sight.Sighting
	others []sight.Sighting // the newest
	at     int
}

// total is the key by which observations are counted together.
type total struct {
	kind     sight.Kind
	db       int
	template string
}

// NewNode returns an empty Node that begins at a wall time.
func NewNode(sinceMs int64) *Node { return &Node{sinceMs: sinceMs, totals: map[total]sight.Sighting{}} }

// Fold keeps the observations of an ended session.
func (n *Node) Fold(list []sight.Sighting) {
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
func isTotal(k sight.Kind) bool {
	return k <= sight.LeaseDropped && k != sight.StillTaken || k == sight.GetThenSet
}

// sum adds an observation to its total, and keeps the newest as the example.
func sum(totals map[total]sight.Sighting, s sight.Sighting) {
	t := total{s.Kind, s.DB, sight.Template(s.Key)}
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
func (n *Node) Report(name string, sessions []sight.Sighting) string {
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
	slices.SortFunc(others, func(a, b sight.Sighting) int { return cmp.Compare(b.AtMs, a.AtMs) })
	r := sight.Report{Node: name, SinceMs: n.sinceMs, Sightings: others[:min(len(others), othersMax)]}
	r.Sightings = slices.AppendSeq(r.Sightings, maps.Values(totals))
	return r.String()
}
