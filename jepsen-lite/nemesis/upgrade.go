package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Upgrade is the kind of fault that needs the next release of the server.
const Upgrade = "upgrade"

// What the stand-in for the next release can do, and a key for its command.
const (
	standInLevel = 2
	nextKey      = "jepsen-lite-next"
)

// How a node refuses what comes with a later level: the next build says so, and the one before does not know it.
var refusals = []string{"comes with level", "unknown command", "Unknown option"}

// upgrade takes the nodes to the next release, one at a time: all but one, and back ("back"), and then all ("up"), when
// the level rises. After each step every node must serve.
func upgrade(f *Field, fault Fault) (string, func()) {
	nodes := f.pick("all", fault.Dice)
	what := "upgrade " + fault.Variant + " " + strings.Join(nodes, " ")
	if err := f.Target.SetBuild(nodes[0], target.NextBuild); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	_ = f.Target.SetBuild(nodes[0], target.OwnBuild)
	some := nodes[:len(nodes)-1] // never all, so the level stays
	next := some[:f.roll(target.NextBuild, some)]
	next = next[f.roll(target.OwnBuild, next):]
	if fault.Variant == "up" && !f.isOver() {
		next = f.up(nodes)
	}
	return what, func() { f.setBuild(target.OwnBuild, next...) } // or a later upgrade might make it all of them
}

// roll changes one node after the other, which does not change the level. It returns how many it has changed when
// the time of the run was over.
func (f *Field) roll(build string, nodes []string) int {
	for i, n := range nodes {
		level := f.level(n)
		if f.isOver() {
			return i
		}
		f.setBuild(build, n)
		f.serves("stuck in an upgrade", f.Target.Nodes())
		if now := f.level(n); level > 0 && now > 0 && now != level && !f.isOver() {
			f.found.add("wrong level", fmt.Sprintf("level %d became %d, and not every node is of the next build", level, now))
		}
		f.beyond(n, level)
	}
	return len(nodes)
}

// beyondCalls are what only the level of the stand-in has.
var beyondCalls = [][]string{{strings.ToUpper(target.NextCommand), nextKey}, {"CONFIG", "SET", target.NextSetting, "1"}}

// beyond finds fault with a node that does what only the next level has, or has it and does not. A setting that one
// does not know it may well log: the others must bear that.
func (f *Field) beyond(node string, level int) {
	if f.NextLevel > 0 {
		return
	}
	for _, call := range beyondCalls {
		r, err := f.Target.Do(node, buildAsk, call...)
		if err != nil || level == 0 || f.Target.NotDone(r.Text()) || f.Target.Unknown(r.Text()) {
			continue
		}
		said := func(words string) bool { return strings.Contains(r.Text(), words) }
		if refused := r.IsErr() && slices.ContainsFunc(refusals, said); refused != (level == 1) {
			f.found.add("wrong level", fmt.Sprintf("%s answers %q at level %d with %q", node, call, level, r.Text()))
		}
	}
}

// up changes all nodes, and waits until the level has risen. It returns those of the next build if it did not get as
// far as to change all.
func (f *Field) up(nodes []string) (next []string) {
	if next = nodes[1:][:f.roll(target.NextBuild, nodes[1:])]; f.isOver() {
		return next
	}
	f.setBuild(target.NextBuild, nodes[0])
	f.Target.Adopt(target.NextBuild) // there is no way back
	f.serves("stuck in an upgrade", nodes)
	most := f.NextLevel
	if most == 0 {
		most = standInLevel
	}
	for until := time.Now().Add(buildServes); f.level(nodes[0]) < most; {
		if !f.wait(buildLook) {
			return nil
		}
		if time.Now().After(until) {
			f.found.add("wrong level", fmt.Sprintf("all nodes are of the next build, and in %s the level has not risen to %d",
				buildServes, most))
			return nil
		}
	}
	for _, n := range nodes {
		f.beyond(n, most)
	}
	return nil
}

// level is the level in force as a node tells it; 0: it does not.
func (f *Field) level(node string) int {
	level := 0
	if r, err := f.Target.Do(node, buildAsk, "LOCKD", "LEVEL"); err == nil && len(r.Elems) > 1 {
		_, _ = fmt.Sscan(r.Elems[1].Text(), &level)
	}
	return level
}
