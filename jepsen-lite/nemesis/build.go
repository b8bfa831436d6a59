package nemesis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// OtherBuild is the kind of fault that needs target.OtherBuild.
const OtherBuild = "build"

// Times of nodes of two builds, and the words in which these refuse each other.
const (
	buildRefused = 10 * time.Second // for a node of each build to log the refusal
	buildServes  = 10 * time.Second // for a majority of one build to take writes
	buildAsk     = 2 * time.Second  // for a write that may not be done
	buildLook    = 50 * time.Millisecond
	otherVersion = "is another version of lockd than node "
)

// build starts nodes from a build that has one command more. Such a node would apply the same log differently, so nodes
// of two builds must refuse each other: a majority of one build serves, and the rest do nothing.
func build(f *field, fault Fault) (string, func()) {
	r := rollout{f}
	what := "build " + fault.Variant
	change := map[string]func([]string) []string{"rolling": r.rolling, "together": r.together}[fault.Variant]
	nodes := r.pick("all", fault.Dice)
	if change == nil {
		nodes = r.victims(fault.Variant, fault.Dice)[:1]
		change = func(nodes []string) []string {
			r.setBuild(target.OtherBuild, nodes...)
			r.judgeRefusal(nodes[0], r.others(nodes[0]))
			return nodes
		}
	}
	what += " " + strings.Join(nodes, " ")
	if err := r.Target.SetBuild(nodes[0], target.OtherBuild); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	changed := change(nodes)
	return what, func() { r.setBuild(target.OwnBuild, changed...) }
}

// rollout changes the builds of nodes, and judges what the cluster does meanwhile.
type rollout struct{ *field }

// setBuild ends nodes and starts them from a build.
func (r rollout) setBuild(build string, nodes ...string) {
	for _, n := range nodes {
		r.Target.Shutdown(n)
		_ = r.Target.SetBuild(n, build)
	}
	restartAll(r.field, nodes)
}

// rolling changes one node after the other to the other build, and then back. Like a careful operator it changes the
// next node only when a majority serves. When the time of the run ends, it returns the nodes that are still changed.
func (r rollout) rolling(nodes []string) (changed []string) {
	for _, build := range []string{target.OtherBuild, target.OwnBuild} {
		for i, n := range nodes {
			if r.isOver() {
				if build == target.OtherBuild {
					return nodes[:i]
				}
				return nodes[i:]
			}
			r.setBuild(build, n)
			r.judgeSides(nodes[:i+1], nodes[i+1:])
		}
	}
	return nil
}

// together changes all nodes at once, and back. When the time of the run ends, it returns the nodes that are still
// changed.
func (r rollout) together(nodes []string) (changed []string) {
	r.setBuild(target.OtherBuild, nodes...)
	if r.judgeSides(nodes, nil); r.isOver() {
		return nodes
	}
	r.setBuild(target.OwnBuild, nodes...)
	r.judgeSides(nodes, nil)
	return nil
}

// judgeSides reports nodes of two builds if a majority of one build does not take writes, or does not refuse the rest.
func (r rollout) judgeSides(changed, rest []string) {
	most, few := changed, rest
	if len(rest) > len(changed) {
		most, few = rest, changed
	}
	if len(most) > len(r.Target.Nodes())/2 {
		r.judgeServing("stuck between builds", most)
	}
	for _, n := range few {
		r.judgeRefusal(n, most)
	}
}

// judgeServing reports one of several nodes that can serve together, if it takes no write.
func (r rollout) judgeServing(fault string, nodes []string) {
	until := time.Now().Add(buildServes)
	for _, n := range nodes {
		for !r.takesWrite(n) {
			if r.isOver() {
				return
			}
			if time.Now().After(until) {
				r.found.add(fault, fmt.Sprintf("%v can serve together, and within %s %s takes no write", nodes, buildServes, n))
				return
			}
			time.Sleep(buildLook)
		}
	}
}

// takesWrite reports whether a node takes a write.
func (r rollout) takesWrite(node string) bool {
	reply, err := r.Target.Do(node, buildAsk, "SET", provokeKey, time.Now().String())
	return err == nil && !reply.IsErr()
}

// judgeRefusal reports a node that is of another build than others, unless they refuse each other and it does no write.
func (r rollout) judgeRefusal(node string, others []string) {
	says := func(n string) bool {
		return r.Target.Logged(n, otherVersion) && r.Target.Logged(n, target.OtherCommand)
	}
	told := func() bool { return says(node) && slices.ContainsFunc(others, says) }
	until := time.Now().Add(buildRefused)
	for !told() && time.Now().Before(until) && r.Target.Running(node) && r.wait(buildLook) {
	}
	if r.isOver() {
		return
	}
	if !told() {
		r.found.add(
			"not refused",
			fmt.Sprintf("%s and %v are of two builds, of which one knows %s, and within %s its log, and that of one of "+
				"them, do not say that it %s...",
				node, others, target.OtherCommand, buildRefused, otherVersion),
		)
	}
	if r.takesWrite(node) {
		r.found.add("not refused", fmt.Sprintf("%s is of another build than %v, and does a write", node, others))
	}
}

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
	most := r.nextLevel
	if most == 0 {
		most = standInLevel
	}
	r.judgeAsked(most, nodes[0])
	r.setBuild(target.NextBuild, nodes[0])
	r.Target.Adopt(target.NextBuild) // the level cannot fall again
	r.judgeServing("stuck in an upgrade", nodes)
	r.judgeAsked(most, "")
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
	if reply, err := r.Target.Do(nodes[0], buildAsk, "LOCKD", "LEVEL", strconv.Itoa(most-1)); err == nil && most > 1 &&
		!reply.IsErr() {
		r.found.add("wrong level", fmt.Sprintf("%s answers LOCKD LEVEL %d with %q at level %d", nodes[0], most-1,
			reply.Text(), most))
	}
	r.judgeOlder(nodes[0], most)
	for _, n := range nodes {
		if now := r.level(n); now > 0 && now < most {
			r.found.add("wrong level", fmt.Sprintf("level %d became %d at %s", most, now, n))
		}
	}
	return nil
}

// judgeAsked asks the leader for the next level. behind is a node that cannot do it; "": all can.
func (r rollout) judgeAsked(level int, behind string) {
	leader := r.Target.Leader()
	if leader == "" || r.isOver() || r.level(leader)+1 != level {
		return
	}
	reply, err := r.Target.Do(leader, buildAsk, "LOCKD", "LEVEL", strconv.Itoa(level))
	now := r.level(leader)
	if err != nil || now == 0 || r.Target.NotDone(reply.Text()) || r.Target.Unknown(reply.Text()) {
		return
	}
	r.found.stake("level-asked-for")
	says := func(words string) bool { return strings.Contains(reply.Text(), words) }
	kept := behind == "" && now >= level
	if reply.IsErr() {
		// A node may be away for a moment; of the last one it may not be known yet what it can do.
		kept = says("does not answer") || behind == "" && says("node ") || behind != "" && says("node "+r.Target.ID(behind)+" ")
	}
	if !kept {
		r.found.add("level not as asked for", fmt.Sprintf("%s answers LOCKD LEVEL %d with %q, and level %d is in force; "+
			"behind: %q", leader, level, reply.Text(), now, behind))
	}
}

// olderStops bounds the time in which a node ends that cannot do the level in force.
const olderStops = 10 * time.Second

// tooOld begins the log line of a node that cannot do the level in force.
const tooOld = "level %d is in force in this cluster, and this lockd can do "

// judgeOlder has a node take a snapshot, and starts it from the release before. That must end, and leave the data as they
// are: the node serves when it is started from its own release again.
func (r rollout) judgeOlder(node string, level int) {
	if r.isOver() || r.Target.SetBuild(node, target.FormerBuild) != nil {
		return
	}
	_, _ = r.Target.Do(node, olderStops, "LOCKD", "SNAPSHOT")
	r.setBuild(target.FormerBuild, node)
	for until := time.Now().Add(olderStops); r.Target.Running(node) && time.Now().Before(until); {
		time.Sleep(buildLook)
	}
	r.found.stake("older-stops")
	switch {
	case r.Target.Running(node):
		r.found.add("older release goes on", fmt.Sprintf("%s, of the release before, runs for %s, and level %d is in force",
			node, olderStops, level))
	case !r.Target.Logged(node, fmt.Sprintf(tooOld, level)):
		r.found.add("older release says nothing", fmt.Sprintf("%s, of the release before, ends and does not say that level %d "+
			"is in force", node, level))
	}
	r.setBuild(target.OwnBuild, node)
	r.judgeServing("stuck in an upgrade", []string{node})
}

// level returns the level in force as a node tells it, or 0 if it does not answer.
func (r rollout) level(node string) int {
	level := 0
	if reply, err := r.Target.Do(node, buildAsk, "LOCKD", "LEVEL"); err == nil && len(reply.Elems) > 1 {
		_, _ = fmt.Sscan(reply.Elems[1].Text(), &level)
	}
	return level
}
