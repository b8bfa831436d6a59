package nemesis

import (
	"fmt"
	"strings"
	"time"
)

// kill ends nodes with SIGKILL, and starts them again as comeBack says.
func kill(f *field, fault Fault) (string, func()) {
	if fault.Variant == "storm" {
		return "kill storm", killStorm(f, fault.Dice)
	}
	nodes := f.victims(fault.Variant, fault.Dice)
	for _, n := range nodes {
		f.Target.Kill(n)
	}
	return fmt.Sprintf("kill %s %v", fault.Variant, nodes), comeBack(f, fault.Dice, nodes)
}

// killStorm kills one node after the other, and starts each again at once.
func killStorm(f *field, dice uint64) func() {
	turn := int(dice % 97)
	return repeat(700*time.Millisecond, func() {
		nodes := f.Target.Nodes()
		n := nodes[turn%len(nodes)]
		turn++
		f.limit.briefly(n, func() {
			f.Target.Kill(n)
			bringBack(f, n)
		})
	})
}

// backMax bounds the wait for a started node to serve.
const backMax = 5 * time.Second

// bringBack starts a node. If the step spares a majority, it waits until the node serves.
func bringBack(f *field, node string) {
	_ = f.Target.Restart(node) // the health check finds a node that cannot start
	for until := time.Now().Add(backMax); f.limit != nil && time.Now().Before(until) && !f.Target.Serving(node); {
		if !f.wait(50 * time.Millisecond) {
			return
		}
	}
}

// awayMax bounds how long nodes stay down.
const awayMax = 10 * time.Second

// comeBack chooses when nodes that have ended are started again: at once, when the fault stops, or then but no sooner
// than awayMax after now, while the run lasts.
func comeBack(f *field, dice uint64, nodes []string) (undo func()) {
	began := time.Now()
	end := func() { restartAll(f, nodes) }
	switch dice >> 32 % 8 {
	case 0, 1:
		return comeBackAtOnce(f, nodes)
	case 2:
		return func() {
			f.wait(time.Until(began.Add(awayMax)))
			end()
		}
	}
	return end
}

// comeBackAtOnce starts nodes as soon as they have ended, until undo is called.
func comeBackAtOnce(f *field, nodes []string) (undo func()) {
	stop := repeat(20*time.Millisecond, func() {
		for _, n := range nodes {
			if !f.Target.Running(n) {
				_ = f.Target.Restart(n)
			}
		}
	})
	return func() {
		stop()
		restartAll(f, nodes)
	}
}

// restartAll starts the nodes that do not run.
func restartAll(f *field, nodes []string) {
	for _, n := range nodes {
		_ = f.Target.Restart(n) // the health check finds a node that cannot start
	}
}

// pause stops nodes with SIGSTOP, and continues them when the fault stops.
func pause(f *field, fault Fault) (string, func()) {
	if fault.Variant == "flutter" {
		return "pause flutter", flutter(f, fault.Dice)
	}
	nodes := f.victims(fault.Variant, fault.Dice)
	for _, n := range nodes {
		f.Target.Pause(n)
	}
	return fmt.Sprintf("pause %s %v", fault.Variant, nodes), func() {
		for _, n := range nodes {
			f.Target.Resume(n)
		}
	}
}

// flutter pauses the leader again and again, for half an election timeout to several of them. When it continues, reads
// are on their way to a leader that does not know that it was replaced.
func flutter(f *field, dice uint64) func() {
	return repeat(300*time.Millisecond, func() {
		leader := f.pick("leader", dice)[0]
		f.limit.briefly(leader, func() {
			f.Target.Pause(leader)
			time.Sleep(time.Duration(250+dice%2500) * time.Millisecond)
			f.Target.Resume(leader)
		})
		dice = dice*6364136223846793005 + 1442695040888963407
	})
}

// Absent is the kind of fault that harms one node alone, long enough for locks to become free for which clients wait at
// the node.
const Absent = "absent"

// Times of the fault absent.
const (
	absentAfter = 3 * time.Second // without faults, in which clients come to wait
	absentMin   = time.Second
	absentMax   = 6 * time.Second
)

// absent breaks nothing for a while, and then kills or pauses one node alone: long enough for the other nodes to give
// away what its clients wait for, and often shorter than the clients keep their places in line. The rest of the step
// shows what follows.
func absent(f *field, fault Fault) (string, func()) {
	act, which, _ := strings.Cut(fault.Variant, " ")
	share := dice(fault.Dice).Float64()
	length := absentMin + time.Duration(share*share*float64(absentMax-absentMin)) // mostly short
	f.wait(absentAfter)
	node := f.victims(which, fault.Dice)[0]
	if act == "kill" {
		f.Target.Kill(node)
	} else {
		f.Target.Pause(node)
	}
	f.wait(length)
	f.Target.Resume(node)
	restartAll(f, []string{node})
	return fmt.Sprintf("absent: %s %s [%s] for %.1f s", act, which, node, length.Seconds()), nil
}
