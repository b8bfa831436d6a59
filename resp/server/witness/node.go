package witness

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"lockd/resp/sight"
)

// How much a node keeps of sessions that have ended, and reports at once.
const (
	totalsMax = 256
	othersMax = 256
)

// Node is what is kept of sessions that have ended. Its methods may be called concurrently.
type Node struct {
	sinceMs int64

	mu     sync.Mutex
	totals map[total]sight.Sighting
	others []sight.Sighting // the newest
	at     int
}

// total is what is counted together.
type total struct {
	kind     sight.Kind
	db       int
	template string
}

// NewNode begins at a wall time.
func NewNode(sinceMs int64) *Node { return &Node{sinceMs: sinceMs, totals: map[total]sight.Sighting{}} }

// Fold keeps what a session has seen that has ended.
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

// isTotal reports whether sightings of a kind are counted together.
func isTotal(k sight.Kind) bool {
	return k <= sight.LeaseDropped && k != sight.StillTaken || k == sight.GetThenSet
}

// sum counts a sighting beside those that are alike, and keeps the newest as the example.
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

// Report is what the node has seen: what its sessions see now, and what is kept of others.
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
