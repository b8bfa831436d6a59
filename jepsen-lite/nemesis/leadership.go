package nemesis

import (
	"slices"
	"time"

	"lockd/jepsen-lite/target"
)

// transfer hands leadership to another node.
func transfer(f *field, fault Fault) (string, func()) {
	once := func() {
		to := f.pick("follower", fault.Dice+uint64(time.Now().UnixNano()))[0]
		// it is refused while the cluster is broken
		_, _ = f.Target.Do(to, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
	}
	if fault.Variant == "often" {
		return "transfer often", repeat(400*time.Millisecond, once)
	}
	once()
	return "transfer once", nil
}

// handTo hands leadership to a node.
func handTo(f *field, node string) {
	_, _ = f.Target.Do(node, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(node)) // it may lead already, or be away
}

// Times of the fault late.
const (
	lateHold   = 140 * time.Millisecond // longer than the time between two heartbeats
	lateNever  = 5 * time.Second        // longer than the rest of the fault
	latePause  = 4 * time.Second        // bounds the wait for another leader
	lateLook   = 10 * time.Millisecond
	lateWrites = 400 * time.Millisecond // for the new leader to acknowledge writes
	lateFirst  = 2 * time.Millisecond
	lateReads  = 300 * time.Millisecond // for the old leader to answer reads
	lateSettle = time.Second            // for all nodes to learn the new leader
	lateBy     = 200 * time.Millisecond // two of them and a heartbeat take less than a leader's lease
)

// late delays the last answers to a leader until another leader is elected, again and again. A leader must trust no
// answer that was sent before it asked.
func late(f *field, fault Fault) (string, func()) {
	dice := fault.Dice
	once := lateWhenStopped
	if fault.Variant == "hand-over" {
		once = lateInHandOver
	}
	return "late answers " + fault.Variant, repeat(lateSettle, func() {
		dice = dice*6364136223846793005 + 1442695040888963407
		leader := f.pick("leader", dice)[0]
		f.limit.briefly(leader, func() { once(f, leader, dice>>32) })
	})
}

// lateInHandOver has a leader hand over while the answers to it are on their way for long: it takes itself for the
// leader for as long after the other one has begun to lead.
func lateInHandOver(f *field, leader string, dice uint64) {
	others := f.others(leader)
	f.links.into(leader, others, target.Shape{Delay: lateBy})
	to := others[dice%uint64(len(others))]
	// It may be refused: the leader may have changed since pick.
	_, _ = f.Target.Do(leader, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
	f.links.into(leader, others, target.Shape{})
}

// lateWhenStopped holds back the answers to the leader, and pauses it until another one is elected. Just before the
// leader continues, the answers of enough nodes for a majority arrive, so it still takes itself for the leader. Just
// after, when it has asked whether it leads, the answers of the rest arrive. Anything that was sent after the pause
// began, also by the new leader, arrives later.
func lateWhenStopped(f *field, leader string, dice uint64) {
	others := f.others(leader)
	first, rest := others[:len(others)/2], others[len(others)/2:]
	f.links.into(leader, others, target.Shape{Cut: true})
	time.Sleep(lateHold)
	f.links.into(leader, others, target.Shape{Cut: true, Delay: lateNever})
	f.Target.Pause(leader)
	until := time.Now().Add(latePause)
	for time.Now().Before(until) && slices.Contains([]string{"", leader}, f.Target.Leader()) {
		time.Sleep(lateLook)
	}
	time.Sleep(lateWrites)
	f.links.into(leader, first, target.Shape{Delay: lateNever})
	time.Sleep(lateFirst)
	f.Target.Resume(leader)
	time.Sleep(time.Duration(dice%10_000) * time.Microsecond)
	f.links.into(leader, rest, target.Shape{Delay: lateNever})
	time.Sleep(lateReads)
	f.links.reset(leader, others) // or the bytes that are on their way would hold up those after them
	f.links.into(leader, others, target.Shape{})
}
