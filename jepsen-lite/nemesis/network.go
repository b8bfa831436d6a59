package nemesis

import (
	"fmt"
	"time"

	"lockd/jepsen-lite/target"
)

// cut holds back what from sends to to.
func (f *Field) cut(from, to []string) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				f.Target.Net().Set(a, b, target.Shape{Cut: true})
			}
		}
	}
}

// healPeers makes the links between nodes healthy. Every other time, connections
// that were cut are broken, too: what was held back on them never arrives.
func (f *Field) healPeers(dice uint64) {
	nodes := f.Target.Nodes()
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				if dice&1 == 0 {
					f.Target.Net().Reset(a, b)
				}
				f.Target.Net().Set(a, b, target.Shape{})
			}
		}
	}
}

// partition separates nodes from each other; clients reach them all.
func partition(f *Field, fault Fault) (string, func()) {
	nodes := f.Target.Nodes()
	which := "leader"
	if fault.Variant == "follower alone" {
		which = "follower"
	}
	one := f.victims(which, fault.Dice)
	rest := f.others(one[0])
	undo := func() { f.healPeers(fault.Dice >> 8) }
	switch fault.Variant {
	case "leader deaf":
		f.cut(rest, one)
	case "leader mute":
		f.cut(one, rest)
	case "bridge": // one node sees all, the others are two halves
		f.cut(rest[:len(rest)/2], rest[len(rest)/2:])
		f.cut(rest[len(rest)/2:], rest[:len(rest)/2])
	case "halves":
		half := len(nodes) / 2
		f.cut(nodes[:half], nodes[half:])
		f.cut(nodes[half:], nodes[:half])
	case "flapping":
		on := false
		stop := repeat(time.Duration(50+fault.Dice%450)*time.Millisecond, func() {
			if on = !on; on {
				f.cut(one, rest)
				f.cut(rest, one)
			} else {
				f.healPeers(fault.Dice >> 8)
			}
		})
		undo = func() {
			stop()
			f.healPeers(fault.Dice >> 8)
		}
	default:
		f.cut(one, rest)
		f.cut(rest, one)
	}
	return fmt.Sprintf("partition %s %v", fault.Variant, one), undo
}

// slow disturbs the links between nodes.
func slow(f *Field, fault Fault) (string, func()) {
	nodes := f.Target.Nodes()
	each := func(do func(a, b string)) {
		for _, a := range nodes {
			for _, b := range nodes {
				if a != b {
					do(a, b)
				}
			}
		}
	}
	undo := func() { each(func(a, b string) { f.Target.Net().Set(a, b, target.Shape{}) }) }
	switch fault.Variant {
	case "reset":
		return "slow reset", repeat(150*time.Millisecond, func() { each(f.Target.Net().Reset) })
	case "drip":
		one := f.victims("leader", fault.Dice)[0]
		for _, b := range f.others(one) {
			f.Target.Net().Set(one, b, target.Shape{BytesPerSecond: 20_000})
		}
		return "slow drip from " + one, undo
	}
	shape := target.Shape{Delay: time.Duration(5+fault.Dice%100) * time.Millisecond}
	if fault.Variant == "jitter" {
		shape.Jitter = 2 * shape.Delay
	}
	each(func(a, b string) { f.Target.Net().Set(a, b, shape) })
	return fmt.Sprintf("slow %s %s", fault.Variant, shape.Delay), undo
}

// clients disturbs the links between clients and nodes.
func clients(f *Field, fault Fault) (string, func()) {
	net := f.Target.Net()
	nodes := f.victims("all", fault.Dice)
	undo := func() {
		for _, n := range nodes {
			net.Set(target.Clients, n, target.Shape{})
			net.Set(n, target.Clients, target.Shape{})
		}
	}
	switch fault.Variant {
	case "reset":
		return "clients reset", repeat(200*time.Millisecond, func() {
			for _, n := range nodes {
				net.Reset(target.Clients, n)
			}
		})
	case "cut answers":
		net.Set(nodes[0], target.Clients, target.Shape{Cut: true})
	case "drip":
		net.Set(nodes[0], target.Clients, target.Shape{BytesPerSecond: 2_000})
	default:
		for _, n := range nodes {
			net.Set(n, target.Clients, target.Shape{Delay: 10 * time.Millisecond, Jitter: 100 * time.Millisecond})
		}
	}
	return "clients " + fault.Variant + " " + nodes[0], undo
}
