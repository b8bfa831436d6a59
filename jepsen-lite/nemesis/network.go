package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// network is the links between the nodes as one fault changes them, in a layer of its own.
type network struct {
	*target.Layer
	net   *target.Net
	nodes []string
}

// newNetwork returns the network of a cluster with a layer that changes nothing yet.
func newNetwork(c target.Cluster) network {
	return network{c.Net().Layer(), c.Net(), c.Nodes()}
}

// cut holds back what the nodes from send to the nodes to.
func (n network) cut(from, to []string) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				n.Set(a, b, target.Shape{Cut: true})
			}
		}
	}
}

// split cuts the links between two sets of nodes, both ways.
func (n network) split(a, b []string) {
	n.cut(a, b)
	n.cut(b, a)
}

// ring leaves each node as many neighbours as it needs for a majority. Three nodes cannot form a ring: one of their
// links is cut, as by a bridge.
func (n network) ring(nodes []string) {
	if len(nodes) == 3 {
		n.split(nodes[1:2], nodes[2:])
	}
	for i, a := range nodes {
		for j, b := range nodes {
			if !neighbours(len(nodes), i, j) {
				n.cut([]string{a}, []string{b})
			}
		}
	}
}

// heal takes back what the fault did to the links between nodes. Every other time it also breaks the connections, so
// that the bytes that were held back never arrive.
func (n network) heal(dice uint64) {
	if dice&1 == 0 {
		n.eachPair(n.net.Reset)
	}
	n.Clear()
}

// eachPair calls do with each ordered pair of nodes.
func (n network) eachPair(do func(from, to string)) {
	for _, a := range n.nodes {
		for _, b := range n.nodes {
			if a != b {
				do(a, b)
			}
		}
	}
}

// into gives the links from some nodes to a node a shape.
func (n network) into(node string, from []string, s target.Shape) {
	for _, o := range from {
		n.Set(o, node, s)
	}
}

// outOf gives the links from a node to some nodes a shape.
func (n network) outOf(node string, to []string, s target.Shape) {
	for _, o := range to {
		n.Set(node, o, s)
	}
}

// markHarmed has the history tell that messages between a node and others may be lost or late.
func (n network) markHarmed(node string, others []string) {
	n.into(node, others, target.Shape{Harmed: true})
	n.outOf(node, others, target.Shape{Harmed: true})
}

// reset breaks the connections between a node and others.
func (n network) reset(node string, others []string) {
	for _, o := range others {
		n.net.Reset(node, o)
	}
}

// parted names the nodes that a variant of partition separates from the rest; the default is the leader.
var parted = map[string]string{
	"follower alone": "follower",
	"minority":       "few",
	"halves":         "others",
	"bridge":         "others",
	"ring":           "follower",
}

// partition separates nodes from each other. Clients reach all of them.
func partition(f *field, fault Fault) (string, func()) {
	which := parted[fault.Variant]
	if which == "" {
		which = "leader"
	}
	lost := f.victims(which, fault.Dice)
	rest := slices.DeleteFunc(slices.Clone(f.Target.Nodes()), func(n string) bool { return slices.Contains(lost, n) })
	dice(fault.Dice).Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	if i := slices.Index(rest, f.Target.Leader()); i > 0 {
		rest[0], rest[i] = rest[i], rest[0] // the hub of a bridge
	}
	undo := func() { f.links.heal(fault.Dice >> 8) }
	switch fault.Variant {
	case "leader deaf":
		f.links.cut(rest, lost)
	case "leader mute":
		f.links.cut(lost, rest)
	case "bridge": // one node sees all others, which are two halves
		f.links.split(lost, rest[1:])
	case "ring": // each node sees a majority, and no two nodes the same one
		f.links.ring(slices.Concat(rest, lost))
	case "flapping":
		on := false
		stop := repeat(time.Duration(50+fault.Dice%450)*time.Millisecond, func() {
			if on = !on; on {
				f.links.split(lost, rest)
			} else {
				f.links.heal(fault.Dice >> 8)
			}
		})
		undo = func() {
			stop()
			f.links.heal(fault.Dice >> 8)
		}
	default:
		f.links.split(lost, rest)
	}
	return fmt.Sprintf("partition %s %v from %v", fault.Variant, lost, rest), undo
}

// neighbours reports whether two of n nodes see each other in a ring: each sees half a majority on either side.
func neighbours(n, i, j int) bool {
	d := (i - j + n) % n
	return min(d, n-d) <= (n/2+1)/2
}

// breakOneIn is the mean number of pieces that pass a tearing link before one is cut short. A message of Raft or an
// answer is mostly one piece.
const breakOneIn = 30

// A dripping link passes dripBytes a second: messages arrive late, and one of clogBytes never in time.
const (
	dripBytes = 20_000
	clogBytes = 300 << 10
)

// slow disturbs the links between nodes.
func slow(f *field, fault Fault) (string, func()) {
	undo := f.links.Clear
	shape := target.Shape{Delay: time.Duration(5+fault.Dice%100) * time.Millisecond}
	switch fault.Variant {
	case "reset":
		return "slow reset", repeat(150*time.Millisecond, func() { f.links.eachPair(f.Target.Net().Reset) })
	case "drip", "clogged": // the leader is heard, but no large entry of a clogged one arrives
		one := f.victims("leader", fault.Dice)[0]
		others := f.others(one)
		f.links.outOf(one, others, target.Shape{BytesPerSecond: dripBytes})
		if fault.Variant == "drip" {
			return "slow drip from " + one, undo
		}
		value := strings.Repeat("x", clogBytes)
		stop := repeat(time.Second, func() { _, _ = f.Target.Do(others[0], time.Second, "SET", provokeKey, value) })
		return "slow clogged from " + one, func() {
			stop()
			undo()
		}
	case "half-open": // a node receives what the leader sends, and no answer reaches the leader
		one := f.victims("leader", fault.Dice)[0]
		for _, b := range f.others(one)[:1] {
			f.links.Set(b, one, target.Shape{Cut: true})
			one += " from " + b
		}
		return "slow half-open to " + one, undo
	case "no dials": // one link is lost at once, the others when their connections break
		one := f.victims("any", fault.Dice)[0]
		others := f.others(one)
		f.links.outOf(one, others, target.Shape{Refuse: true})
		f.links.into(one, others, target.Shape{Refuse: true})
		f.links.reset(one, others[:1])
		return "slow no dials of " + one, undo
	case "torn":
		f.links.eachPair(func(a, b string) { f.links.Set(a, b, target.Shape{BreakOneIn: breakOneIn}) })
		return "slow torn", undo
	case "jitter":
		shape.Jitter = 2 * shape.Delay
	}
	f.links.eachPair(func(a, b string) { f.links.Set(a, b, shape) })
	return fmt.Sprintf("slow %s %s", fault.Variant, shape.Delay), undo
}

// clients disturbs the links between clients and nodes.
func clients(f *field, fault Fault) (string, func()) {
	nodes := f.pick("all", fault.Dice)
	undo := f.links.Clear
	switch fault.Variant {
	case "reset":
		return "clients reset", repeat(200*time.Millisecond, func() {
			for _, n := range nodes {
				f.Target.Net().Reset(target.Clients, n)
			}
		})
	case "cut answers": // commands are done, and the clients do not learn it
		f.links.Set(nodes[0], target.Clients, target.Shape{Cut: true})
	case "half-open": // connections are accepted, and never answered
		f.links.Set(target.Clients, nodes[0], target.Shape{Cut: true})
		f.links.Set(nodes[0], target.Clients, target.Shape{Cut: true})
	case "torn":
		for _, n := range nodes {
			f.links.Set(n, target.Clients, target.Shape{BreakOneIn: breakOneIn})
		}
	case "drip":
		f.links.Set(nodes[0], target.Clients, target.Shape{BytesPerSecond: 2_000})
	default:
		for _, n := range nodes {
			f.links.Set(n, target.Clients, target.Shape{Delay: 10 * time.Millisecond, Jitter: 100 * time.Millisecond})
		}
	}
	return "clients " + fault.Variant + " " + nodes[0], undo
}
