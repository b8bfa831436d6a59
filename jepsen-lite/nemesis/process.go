package nemesis

import (
	"fmt"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
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
	absentAfter = 5 * time.Second // without faults, in which clients come to wait
	killedMin   = 2 * time.Second
	pausedMin   = time.Second
	absentMax   = 6 * time.Second
)

// absent breaks nothing for a while, and then kills or pauses one node alone: long enough for the other nodes to give
// away what its clients wait for, and often shorter than the clients keep their places in line. The rest of the step
// shows what follows.
func absent(f *field, fault Fault) (string, func()) {
	act, which, _ := strings.Cut(fault.Variant, " ")
	share := dice(fault.Dice).Float64()
	length := killedMin + time.Duration(share*float64(absentMax-killedMin))
	if act != "kill" {
		length = pausedMin + time.Duration(share*share*float64(absentMax-pausedMin)) // mostly short
	}
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

// Times of the fault gone.
const (
	goneLease = 10 * time.Second // of the session of a node's clients, by the log clock
	goneMore  = 3 * time.Second  // for an election, and for the entry that ends the session
	goneLook  = 100 * time.Millisecond
)

// gone kills one node for longer than its clients keep their places in line, and judges that a client which waits there
// leaves the line by then.
func gone(f *field, fault Fault) (string, func()) {
	what := "gone: kill " + fault.Variant
	if !settled(f) {
		return what + " (not settled)", nil
	}
	node := f.victims(fault.Variant, fault.Dice)[0]
	l := openLedger(f, fault.Dice)
	defer l.close()
	l.lock("held")
	c, err := f.Target.Dial(node, time.Second)
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	defer c.Close()
	_ = c.Send(ledgerWait, []string{"LOCK", l.name("held"), "first", "PX", lockPx, "WAIT", lockPx})
	via := f.others(node)[0]
	if !l.inLine(via, 1, backMax) {
		return what + ": nobody waits", nil
	}
	f.Target.Kill(node)
	began := time.Now()
	left := l.inLine(via, 0, goneLease+goneMore)
	took := time.Since(began)
	restartAll(f, []string{node})
	if left || !f.isOver() {
		f.found.stake("dead-leave-lines")
	}
	if !left && !f.isOver() {
		f.found.add("waiter of the dead", fmt.Sprintf("a client of %s waits for %s, %.1f s after the node was killed", node,
			l.name("held"), took.Seconds()))
	}
	return fmt.Sprintf("%s [%s] for %.1f s", what, node, took.Seconds()), nil
}

// inLine waits until a node tells that so many clients wait for the lock "held" of a ledger.
func (l *ledger) inLine(via string, want int64, within time.Duration) bool {
	for until := time.Now().Add(within); time.Now().Before(until); {
		r, err := l.Target.Do(via, ledgerWait, "LOCKS", "LIST", "MATCH", l.name("held"))
		if n, ok := waitersIn(r); err == nil && ok && n == want {
			return true
		}
		if !l.wait(goneLook) {
			return false
		}
	}
	return false
}

// waitersIn finds the number of those who wait in an answer of LOCKS LIST.
func waitersIn(r target.Reply) (n int64, ok bool) {
	for i, e := range r.Elems {
		if e.Str == "waiters" && i+1 < len(r.Elems) {
			return r.Elems[i+1].Int, true
		}
		if n, ok := waitersIn(e); ok {
			return n, true
		}
	}
	return 0, false
}
