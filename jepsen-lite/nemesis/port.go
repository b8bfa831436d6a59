package nemesis

import (
	"fmt"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Times of a port that flaps: it refuses for flapShut and up to as much again, and then accepts for flapOpen. cutEvery
// is the least time between two cuts. Another connection is cut only when all of them are open again, so this fault
// alone never makes a majority take the node for dead.
const (
	flapShut = 20 * time.Millisecond
	flapOpen = 5 * time.Millisecond
	cutEvery = 300 * time.Millisecond
)

// rubbish are the texts of another process at the port of a node: words of other protocols, beginnings of a node's
// hello, and noise.
var rubbish = []string{
	"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "-ERR unknown command\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
	"\x00lockdN\n\xff\xff\xff\xff\xff\xff\xff\xff", "\x00lockdN\n", strings.Repeat("\x00\xff", 4<<10),
}

// port makes the peer port of a living node refuse, or the port of a dead node answer. No node may take a living one
// for dead because of it.
func port(f *field, fault Fault) (string, func()) {
	switch fault.Variant {
	case "apart":
		return portsApart(f, fault.Dice)
	case "silent":
		return takenPort(f, fault, "")
	case "rubbish":
		return takenPort(f, fault, rubbish[dice(fault.Dice).IntN(len(rubbish))])
	}
	how, which, _ := strings.Cut(fault.Variant, " ")
	node := f.pick(which, fault.Dice)[0]
	return fmt.Sprintf("port %s %s [%s]", how, which, node), flap(f, node, how == "cut", fault.Dice)
}

// flap makes the port of a node refuse again and again. Open connections stay, or (cut) one of the other nodes loses
// its connection now and then, in turn. That node misses the flapping one until it has connected again, so the links
// are marked as harmed: no majority can rely on them.
func flap(f *field, node string, cut bool, seed uint64) (undo func()) {
	others, throws, turn, last := f.others(node), dice(seed), 0, time.Now()
	if cut {
		f.links.markHarmed(node, others)
	}
	connected := func() (n int) {
		for _, o := range others {
			if f.Target.Net().Connected(o, node) {
				n++
			}
		}
		return n
	}
	look := func() { // another fault may break connections, too
		if connected()+1 <= len(f.Target.Nodes())/2 {
			f.Target.Net().MarkApart(node)
		}
	}
	stop := repeat(flapOpen, func() {
		refusePort(f, node, true)
		if cut && time.Since(last) > cutEvery && connected() == len(others) {
			f.Target.Net().Reset(others[turn%len(others)], node)
			turn++
			last = time.Now()
		}
		look()
		time.Sleep(flapShut + time.Duration(throws.Int64N(int64(flapShut))))
		look()
		refusePort(f, node, false)
	})
	return func() {
		stop()
		f.links.Clear()
	}
}

// refusePort makes the peer ports of a node refuse, or ends that.
func refusePort(f *field, node string, on bool) {
	for _, p := range f.Target.Ports(node) {
		p.Refuse(on)
	}
}

// portsApart makes the ports of the leader and of a follower refuse, as a firewall may, and breaks the connections
// between these two alone. Each of them finds that the process of the other one has ended, and no third node does.
func portsApart(f *field, seed uint64) (string, func()) {
	follower := f.victims("follower", seed)[0]
	leader := f.pick("leader", seed)[0]
	if leader == follower { // no node leads, or another one was harmed already
		leader = f.others(follower)[0]
	}
	pair := []string{leader, follower}
	for _, node := range pair {
		f.links.into(node, f.others(node), target.Shape{Refuse: true})
		refusePort(f, node, true)
	}
	f.Target.Net().Reset(leader, follower)
	return fmt.Sprintf("port apart %v", pair), func() {
		for _, node := range pair {
			refusePort(f, node, false)
		}
		f.links.Clear()
	}
}

// takenPort kills a node and has another process take its port until the node is started.
func takenPort(f *field, fault Fault, says string) (string, func()) {
	node := f.victims("any", fault.Dice)[0]
	f.Target.Kill(node)
	for _, p := range f.Target.Ports(node) {
		p.Take(says)
	}
	return fmt.Sprintf("port %s [%s] says %.20q", fault.Variant, node, says), func() {
		for _, p := range f.Target.Ports(node) {
			p.Free()
		}
		restartAll(f, []string{node})
	}
}
