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
		// refused when the cluster is broken
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
	lateHold   = 140 * time.Millisecond // longer than between two heartbeats
	lateNever  = 5 * time.Second        // beyond the end of it
	latePause  = 4 * time.Second        // for another leader at the longest
	lateLook   = 10 * time.Millisecond
	lateWrites = 400 * time.Millisecond // until the new leader has acknowledged writes
	lateFirst  = 2 * time.Millisecond
	lateReads  = 300 * time.Millisecond // until the old one has answered reads
	lateSettle = time.Second            // until all know the new leader
	lateBy     = 200 * time.Millisecond // two of them, and a heartbeat, are within a leader's lease
)

// late has the last answers to a leader arrive when another one has been elected,
// again and again: it may trust none that was sent before it asked.
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

// lateInHandOver has a leader hand over while all that the others say to it is on its way for long: it takes itself
// for the leader for as long after the other has begun to lead.
func lateInHandOver(f *field, leader string, dice uint64) {
	others := f.others(leader)
	f.links.into(leader, others, target.Shape{Delay: lateBy})
	to := others[dice%uint64(len(others))]
	// It may have been refused: nobody knows who leads at every moment.
	_, _ = f.Target.Do(leader, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
	f.links.into(leader, others, target.Shape{})
}

// lateWhenStopped holds up what the others answer to the leader, then stops it until another
// one has been elected. Just before it goes on, answers of so many as make a majority
// with it come, so that it takes itself for the leader still; and those of the rest
// just after, when it has asked whether it is. What was sent since it stopped, by the
// new leader too, comes later.
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
