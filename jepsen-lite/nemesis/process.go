package nemesis

import (
	"fmt"
	"strings"
	"time"
)

// kill ends nodes with SIGKILL and starts them again at the end.
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

// storm kills one node after the other, and starts each again at once.
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

// backMax is how long is waited for a node that was started, where a majority is spared.
const backMax = 5 * time.Second

// bringBack starts a node, and waits until it serves if the step spares a majority.
func bringBack(f *field, node string) {
	_ = f.Target.Restart(node) // what cannot start is found by the health check
	for until := time.Now().Add(backMax); f.limit != nil && time.Now().Before(until) && !f.Target.Serving(node); {
		if !f.wait(50 * time.Millisecond) {
			return
		}
	}
}

// awayMax is how long nodes stay away at the longest.
const awayMax = 10 * time.Second

// comeBack has nodes started again when they have ended: at once, or at the end of
// the fault, or ten seconds after its beginning if that is later and the run is not over.
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

func restartAll(f *field, nodes []string) {
	for _, n := range nodes {
		_ = f.Target.Restart(n) // what cannot start is found by the health check
	}
}

// pause stops nodes with SIGSTOP and lets them go on at the end.
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

// flutter stops the leader for half an election timeout to several of them, again
// and again: when it goes on, reads are in flight to a leader that does not know yet
// that it was replaced.
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

// Absent is the kind of fault that harms one node alone, long enough for what its clients wait for to be free meanwhile.
const Absent = "absent"

// Times of the fault absent.
const (
	absentAfter = 3 * time.Second // with nothing broken, in which clients come to wait
	absentMin   = time.Second
	absentMax   = 6 * time.Second
)

// absent has nothing broken for a while, and then one node alone be dead or stopped: long enough for others to let go
// of what its clients wait for, and often shorter than these keep their places. The rest of the fault is for what
// follows.
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
