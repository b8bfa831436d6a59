package history

import (
	"maps"
	"slices"
)

// Operations of Nemesis, of type Info, that mark which nodes serve and which links between them hold. In contrast to
// Up and Down they err on the other side: a node or link that they mark as present was certainly present.
const (
	// Serves is written when a node has answered as a member with a vote. The history begins with one for each node.
	Serves = "serves"
	// Leaves is written before a node is killed, told to end or paused, and when it has ended by itself, or lacks
	// entries that others may have trimmed from their logs.
	Leaves = "leaves"
	// Link marks the state of the link that carries bytes from Node to Key from now on: Value is LinkWhole, LinkSlow
	// or LinkCut. A change for the worse is written before it is made, one for the better after it. Links begin
	// whole.
	Link = "link"
)

// States of a link.
const (
	LinkWhole = "whole"
	LinkSlow  = "slow" // it delays, drips, loses its connections, or its messages
	LinkCut   = "cut"  // nothing passes
)

// Quorum is a time in which the same majority of the nodes served, and each two of them reached each other in both
// directions. A node counts from its first answer on, even if it does not know the leader yet.
type Quorum struct {
	Start, End int64
	Nodes      []string
	Slow       bool // at least one of the links between them was slow
}

// quorums tracks whether there is a quorum.
type quorums struct {
	serving map[string]bool
	links   map[[2]string]string
	found   []Quorum
	members []string // of the last of found; nil: that has ended
}

func newQuorums() quorums {
	return quorums{serving: map[string]bool{}, links: map[[2]string]string{}}
}

// add processes an event, and reports whether it was a mark.
func (q *quorums) add(e Event) bool {
	if e.Process != Nemesis || e.Type != Info {
		return false
	}
	switch {
	case e.Op == Serves || e.Op == Leaves:
		q.serving[e.Node] = e.Op == Serves
	case e.Op == Link && len(e.Value) == 1:
		q.links[[2]string{e.Node, e.Key}] = e.Value[0]
	default:
		return false
	}
	q.follow(e.Time)
	return true
}

// follow ends the present quorum if it has changed, and begins the next one.
func (q *quorums) follow(now int64) {
	members, slow := q.next()
	if slices.Equal(members, q.members) && (members == nil || q.found[len(q.found)-1].Slow == slow) {
		return
	}
	if q.members != nil {
		q.found[len(q.found)-1].End = now
	}
	if members != nil {
		q.found = append(q.found, Quorum{Start: now, Nodes: members, Slow: slow})
	}
	q.members = members
}

// next returns the quorum from now on: one without slow links if there is one, and preferably the present one while it
// holds.
func (q *quorums) next() (members []string, slow bool) {
	for _, slow := range []bool{false, true} {
		if q.enough(q.members) && q.linked(q.members, slow) {
			return q.members, slow
		}
		if members := q.majority(slow); members != nil {
			return members, slow
		}
	}
	return nil, false
}

// majority finds nodes of which each two reach each other, enough for a majority.
func (q *quorums) majority(slow bool) []string {
	return q.extend(nil, slices.Sorted(maps.Keys(q.serving)), slow)
}

func (q *quorums) extend(chosen, rest []string, slow bool) []string {
	if q.enough(chosen) {
		return chosen
	}
	for i, node := range rest {
		more := append(slices.Clone(chosen), node)
		if !q.linked(more, slow) {
			continue
		}
		if found := q.extend(more, rest[i+1:], slow); found != nil {
			return found
		}
	}
	return nil
}

func (q *quorums) enough(nodes []string) bool { return len(nodes) > len(q.serving)/2 }

// linked reports whether nodes serve, and reach each other; by slow links, too, if slow.
func (q *quorums) linked(nodes []string, slow bool) bool {
	for i, a := range nodes {
		if !q.serving[a] {
			return false
		}
		for _, b := range nodes[:i] {
			if !q.joined(a, b, slow) || !q.joined(b, a, slow) {
				return false
			}
		}
	}
	return true
}

func (q *quorums) joined(from, to string, slow bool) bool {
	state := q.links[[2]string{from, to}]
	return state == "" || state == LinkWhole || slow && state == LinkSlow
}

// finish ends the last quorum.
func (q *quorums) finish(now int64) []Quorum {
	if q.members != nil {
		q.found[len(q.found)-1].End = now
	}
	return q.found
}

// QuorumTime returns how much of the time from a to b lies in a quorum.
func (h *History) QuorumTime(a, b int64) int64 {
	sum := int64(0)
	for _, q := range h.Quorums {
		sum += max(0, min(q.End, b)-max(q.Start, a))
	}
	return sum
}

// Broken is the time from the beginning of the first fault to the end of the last one;
// nothing, if there was none.
func (h *History) Broken() (start, end int64) {
	for i, w := range h.Faults {
		if i == 0 {
			start = w.Start
		}
		end = max(end, w.End)
	}
	return start, end
}
