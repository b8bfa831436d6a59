package nemesis

import (
	"fmt"
	"math/rand/v2"
	"time"

	"lockd/jepsen-lite/target"
)

// Times of the fault frame.
const (
	frameEvery   = 250 * time.Millisecond // between two caught messages
	frameHoldMax = 700 * time.Millisecond
	frameSkips   = 4 // the most messages that pass before a caught one
	framePause   = time.Second
)

// frameKinds are the kinds of messages that are caught.
var frameKinds = []string{
	target.MsgForward, target.MsgAnswer, target.MsgAsk, target.MsgStatus, target.MsgPing, target.MsgPong, target.MsgBye,
	target.MsgAppend, target.MsgHeartbeat, target.MsgVote, target.MsgPreVote, target.MsgInstall, target.MsgTimeoutNow,
}

// frame catches single messages of one kind between a node and the others, again and again. It loses the message or its
// answer, with or without the connection, holds it, or doubles it.
func frame(f *field, fault Fault) (string, func()) {
	which := "any"
	if f.limit != nil {
		which = "follower" // the others are a majority without it
	}
	node := f.victims(which, fault.Dice)[0]
	f.links.markHarmed(node, f.others(node))
	stop := catchMany(f, fault.Variant, node, dice(fault.Dice))
	return fmt.Sprintf("frame %s of %s", fault.Variant, node), func() {
		stop()
		f.links.Clear()
	}
}

// catchMany catches one message of a kind after the other, and causes such messages. stop returns how many were caught.
func catchMany(f *field, kind, node string, d *rand.Rand) (stop func() (struck int)) {
	var caught *target.Caught
	struck := 0
	cancel := func() {
		if caught != nil && caught.Cancel() {
			struck++
		}
	}
	catching := repeat(frameEvery, func() {
		cancel()
		caught = f.Target.Net().Catch(catchOf(kind, node, d))
	})
	leading := func() {}
	if lead := frameLeads[kind]; lead != nil {
		leading = lead(f, node)
	}
	return func() int {
		leading()
		catching()
		cancel()
		return struck
	}
}

// catchOf draws the next catch of a kind.
func catchOf(kind, node string, d *rand.Rand) target.Catch {
	c := target.Catch{
		Node:   node,
		Kind:   kind,
		Skip:   d.IntN(frameSkips + 1),
		Answer: d.IntN(2) == 0,
		Break:  d.IntN(2) == 0,
	}
	if _, rare := frameLeads[kind]; rare {
		c.Skip = 0
	}
	c.Act = []target.CatchAct{target.Swallow, target.Hold, target.Double}[d.IntN(3)]
	switch c.Act {
	case target.Hold:
		c.Hold = time.Duration(d.Int64N(int64(frameHoldMax)))
	case target.Double:
		c.Answer = false
	}
	return c
}

// frameLeads cause messages to or from a node that are rare otherwise, by kind.
var frameLeads = map[string]func(f *field, node string) (stop func()){
	target.MsgTimeoutNow: func(f *field, node string) func() {
		return repeat(500*time.Millisecond, func() { handTo(f, node) })
	},
	target.MsgVote: func(f *field, node string) func() {
		return repeat(500*time.Millisecond, func() {
			leader := f.Target.Leader()
			for _, o := range f.others(node) {
				if o != leader {
					handTo(f, o)
					return
				}
			}
		})
	},
	target.MsgPreVote: func(f *field, _ string) func() {
		return repeat(3*framePause, func() {
			leader := f.pick("leader", 0)[0]
			f.Target.Pause(leader)
			time.Sleep(framePause)
			f.Target.Resume(leader)
		})
	},
	target.MsgInstall: func(f *field, node string) func() {
		return repeat(time.Second, func() {
			own := f.withOwnLinks()
			outrun(own, node)
			own.links.Clear()
		})
	},
	target.MsgBye: func(f *field, node string) func() {
		return repeat(time.Second, func() {
			stopNode(f, node)
			bringBack(f, node)
		})
	},
}
