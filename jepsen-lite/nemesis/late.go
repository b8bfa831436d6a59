package nemesis

import (
	"slices"
	"time"

	"lockd/jepsen-lite/target"
)

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
func late(f *Field, fault Fault) (string, func()) {
	dice := fault.Dice
	once := f.lateWhenStopped
	if fault.Variant == "hand-over" {
		once = f.lateInHandOver
	}
	return "late answers " + fault.Variant, repeat(lateSettle, func() {
		dice = dice*6364136223846793005 + 1442695040888963407
		leader := f.pick("leader", dice)[0]
		f.toll.briefly(leader, func() { once(leader, dice>>32) })
	})
}

// lateInHandOver has a leader hand over while all that the others say to it is on its way for long: it takes itself
// for the leader for as long after the other has begun to lead.
func (f *Field) lateInHandOver(leader string, dice uint64) {
	others := f.others(leader)
	f.answers(leader, others, target.Shape{Delay: lateBy})
	to := others[dice%uint64(len(others))]
	// It may have been refused: nobody knows who leads at every moment.
	_, _ = f.Target.Do(leader, 2*time.Second, "LOCKD", "TRANSFER", f.Target.ID(to))
	f.answers(leader, others, target.Shape{})
}

// lateWhenStopped holds up what the others answer to the leader, then stops it until another
// one has been elected. Just before it goes on, answers of so many as make a majority
// with it come, so that it takes itself for the leader still; and those of the rest
// just after, when it has asked whether it is. What was sent since it stopped, by the
// new leader too, comes later.
func (f *Field) lateWhenStopped(leader string, dice uint64) {
	others := f.others(leader)
	first, rest := others[:len(others)/2], others[len(others)/2:]
	f.answers(leader, others, target.Shape{Cut: true})
	time.Sleep(lateHold)
	f.answers(leader, others, target.Shape{Cut: true, Delay: lateNever})
	f.Target.Pause(leader)
	until := time.Now().Add(latePause)
	for time.Now().Before(until) && slices.Contains([]string{"", leader}, f.Target.Leader()) {
		time.Sleep(lateLook)
	}
	time.Sleep(lateWrites)
	f.answers(leader, first, target.Shape{Delay: lateNever})
	time.Sleep(lateFirst)
	f.Target.Resume(leader)
	time.Sleep(time.Duration(dice%10_000) * time.Microsecond)
	f.answers(leader, rest, target.Shape{Delay: lateNever})
	time.Sleep(lateReads)
	for _, o := range others {
		f.Target.Net().Reset(leader, o) // what is under way would hold up what comes after it
	}
	f.answers(leader, others, target.Shape{})
}

// answers shapes what the others send to a node from now on.
func (f *Field) answers(node string, others []string, s target.Shape) {
	for _, o := range others {
		f.links.Set(o, node, s)
	}
}
