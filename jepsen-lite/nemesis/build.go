package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// OtherBuild is the kind of fault that needs another build of the server.
const OtherBuild = "build"

// Times of nodes of two builds, and the words in which they refuse each other.
const (
	buildRefused = 10 * time.Second // until one of each build has said so
	buildServes  = 10 * time.Second // until a majority of one build takes writes
	buildAsk     = 2 * time.Second  // for a write that may not be done
	buildLook    = 50 * time.Millisecond
	otherVersion = "is another version of lockd than node "
)

// build starts nodes from a build that knows one command more. It would apply the same log
// to another end, so nodes of two builds must refuse each other: those of a majority serve,
// and the others may do nothing.
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

// rollBuild changes one node after the other to the other build, and then back, as a wise
// operator does: never the next one before a majority serves. It returns those that are still
// changed, as the time of the run is over.
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

// changeAll changes all at once, and back. It returns those that are still changed, likewise.
func (r rollout) together(nodes []string) (changed []string) {
	r.setBuild(target.OtherBuild, nodes...)
	if r.judgeSides(nodes, nil); r.isOver() {
		return nodes
	}
	r.setBuild(target.OwnBuild, nodes...)
	r.judgeSides(nodes, nil)
	return nil
}

// sides finds fault with nodes of two builds if those of a majority do not take writes, or
// the others are not refused.
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

// serves finds fault with nodes that can serve together, and of which one takes no write.
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

func (r rollout) takesWrite(node string) bool {
	reply, err := r.Target.Do(node, buildAsk, "SET", provokeKey, time.Now().String())
	return err == nil && !reply.IsErr()
}

// refusal finds fault with a node that is not refused by others, which are of another
// build, does not refuse, or does a write.
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
