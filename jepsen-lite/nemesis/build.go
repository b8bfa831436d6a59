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
func build(f *Field, fault Fault) (string, func()) {
	what := "build " + fault.Variant
	change := map[string]func([]string) []string{"rolling": f.rollBuild, "together": f.changeAll}[fault.Variant]
	nodes := f.pick("all", fault.Dice)
	if change == nil {
		nodes = f.victims(fault.Variant, fault.Dice)[:1]
		change = func(nodes []string) []string {
			f.setBuild(target.OtherBuild, nodes...)
			f.refusal(nodes[0], f.others(nodes[0]))
			return nodes
		}
	}
	what += " " + strings.Join(nodes, " ")
	if err := f.Target.SetBuild(nodes[0], target.OtherBuild); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	changed := change(nodes)
	return what, func() { f.setBuild(target.OwnBuild, changed...) }
}

// setBuild ends nodes and starts them from a build.
func (f *Field) setBuild(build string, nodes ...string) {
	for _, n := range nodes {
		f.Target.Shutdown(n)
		_ = f.Target.SetBuild(n, build)
	}
	f.restartAll(nodes)
}

// rollBuild changes one node after the other to the other build, and then back, as a wise
// operator does: never the next one before a majority serves. It returns those that are still
// changed, as the time of the run is over.
func (f *Field) rollBuild(nodes []string) (changed []string) {
	for _, build := range []string{target.OtherBuild, target.OwnBuild} {
		for i, n := range nodes {
			if f.isOver() {
				if build == target.OtherBuild {
					return nodes[:i]
				}
				return nodes[i:]
			}
			f.setBuild(build, n)
			f.sides(nodes[:i+1], nodes[i+1:])
		}
	}
	return nil
}

// changeAll changes all at once, and back. It returns those that are still changed, likewise.
func (f *Field) changeAll(nodes []string) (changed []string) {
	f.setBuild(target.OtherBuild, nodes...)
	if f.sides(nodes, nil); f.isOver() {
		return nodes
	}
	f.setBuild(target.OwnBuild, nodes...)
	f.sides(nodes, nil)
	return nil
}

// sides finds fault with nodes of two builds if those of a majority do not take writes, or
// the others are not refused.
func (f *Field) sides(changed, rest []string) {
	most, few := changed, rest
	if len(rest) > len(changed) {
		most, few = rest, changed
	}
	if len(most) > len(f.Target.Nodes())/2 {
		f.serves("stuck between builds", most)
	}
	for _, n := range few {
		f.refusal(n, most)
	}
}

// serves finds fault with nodes that can serve together, and of which one takes no write.
func (f *Field) serves(fault string, nodes []string) {
	until := time.Now().Add(buildServes)
	for _, n := range nodes {
		for !f.writes(n) {
			if f.isOver() {
				return
			}
			if time.Now().After(until) {
				f.found.add(fault, fmt.Sprintf("%v can serve together, and within %s %s takes no write", nodes, buildServes, n))
				return
			}
			time.Sleep(buildLook)
		}
	}
}

func (f *Field) writes(node string) bool {
	r, err := f.Target.Do(node, buildAsk, "SET", provokeKey, time.Now().String())
	return err == nil && !r.IsErr()
}

// refusal finds fault with a node that is not refused by others, which are of another
// build, does not refuse, or does a write.
func (f *Field) refusal(node string, others []string) {
	says := func(n string) bool { return f.Target.Logged(n, otherVersion) && f.Target.Logged(n, target.OtherCommand) }
	told := func() bool { return says(node) && slices.ContainsFunc(others, says) }
	until := time.Now().Add(buildRefused)
	for !told() && time.Now().Before(until) && f.Target.Running(node) && f.wait(buildLook) {
	}
	if f.isOver() {
		return
	}
	if !told() {
		f.found.add(
			"not refused",
			fmt.Sprintf("%s and %v are of two builds, of which one knows %s, and within %s its log, and that of one of "+
				"them, do not say that it %s...",
				node, others, target.OtherCommand, buildRefused, otherVersion),
		)
	}
	if f.writes(node) {
		f.found.add("not refused", fmt.Sprintf("%s is of another build than %v, and does a write", node, others))
	}
}
