package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Upgrade is the kind of fault that needs target.NextBuild.
const Upgrade = "upgrade"

// The highest level of the stand-in for the next release, and a key for its command.
const (
	standInLevel = 2
	nextKey      = "jepsen-lite-next"
)

// refusals are parts of the error replies to commands of a later level: the next build names the level, and the build
// before does not know the command.
var refusals = []string{"comes with level", "unknown command", "Unknown option"}

// upgrade takes the nodes to the next release, one at a time: all but one and back ("back"), then all ("up"), which
// raises the level. After each step every node must serve.
func upgrade(f *field, fault Fault) (string, func()) {
	r := rollout{f}
	nodes := r.pick("all", fault.Dice)
	what := "upgrade " + fault.Variant + " " + strings.Join(nodes, " ")
	if err := r.Target.SetBuild(nodes[0], target.NextBuild); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	_ = r.Target.SetBuild(nodes[0], target.OwnBuild)
	some := nodes[:len(nodes)-1] // not all, so the level stays
	next := some[:r.roll(target.NextBuild, some)]
	next = next[r.roll(target.OwnBuild, next):]
	if fault.Variant == "up" && !r.isOver() {
		next = r.up(nodes)
	}
	return what, func() { r.setBuild(target.OwnBuild, next...) } // or a later upgrade could complete them to all
}

// roll changes one node after the other, without raising the level. It returns how many nodes it has changed, which are
// fewer if the time of the run ends.
func (r rollout) roll(build string, nodes []string) int {
	for i, n := range nodes {
		level := r.level(n)
		if r.isOver() {
			return i
		}
		r.setBuild(build, n)
		r.judgeServing("stuck in an upgrade", r.Target.Nodes())
		if now := r.level(n); level > 0 && now > 0 && now != level && !r.isOver() {
			r.found.add("wrong level", fmt.Sprintf("level %d became %d, and not every node is of the next build", level, now))
		}
		r.judgeNextOnly(n, level)
	}
	return len(nodes)
}

// beyondCalls are commands that only the level of the stand-in has.
var beyondCalls = [][]string{{strings.ToUpper(target.NextCommand), nextKey}, {"CONFIG", "SET", target.NextSetting, "1"}}

// judgeNextOnly reports a node that accepts a command of the next level too early, or refuses it at that level. A node
// that does not know the level may log a setting all the same; the others must tolerate that.
func (r rollout) judgeNextOnly(node string, level int) {
	if r.nextLevel > 0 {
		return
	}
	for _, call := range beyondCalls {
		reply, err := r.Target.Do(node, buildAsk, call...)
		if err != nil || level == 0 || r.Target.NotDone(reply.Text()) || r.Target.Unknown(reply.Text()) {
			continue
		}
		said := func(words string) bool { return strings.Contains(reply.Text(), words) }
		if refused := reply.IsErr() && slices.ContainsFunc(refusals, said); refused != (level == 1) {
			r.found.add("wrong level", fmt.Sprintf("%s answers %q at level %d with %q", node, call, level, reply.Text()))
		}
	}
}

// up changes all nodes and waits until the level has risen. When the time of the run ends before all are changed, it
// returns the nodes of the next build.
func (r rollout) up(nodes []string) (next []string) {
	if next = nodes[1:][:r.roll(target.NextBuild, nodes[1:])]; r.isOver() {
		return next
	}
	r.setBuild(target.NextBuild, nodes[0])
	r.Target.Adopt(target.NextBuild) // the level cannot fall again
	r.judgeServing("stuck in an upgrade", nodes)
	most := r.nextLevel
	if most == 0 {
		most = standInLevel
	}
	for until := time.Now().Add(buildServes); r.level(nodes[0]) < most; {
		if !r.wait(buildLook) {
			return nil
		}
		if time.Now().After(until) {
			r.found.add("wrong level", fmt.Sprintf("all nodes are of the next build, and in %s the level has not risen to %d",
				buildServes, most))
			return nil
		}
	}
	for _, n := range nodes {
		r.judgeNextOnly(n, most)
	}
	return nil
}

// level returns the level in force as a node tells it, or 0 if it does not answer.
func (r rollout) level(node string) int {
	level := 0
	if reply, err := r.Target.Do(node, buildAsk, "LOCKD", "LEVEL"); err == nil && len(reply.Elems) > 1 {
		_, _ = fmt.Sscan(reply.Elems[1].Text(), &level)
	}
	return level
}
