package nemesis

import (
	"fmt"
	"slices"
	"time"

	"lockd/jepsen-lite/target"
)

// OtherBuild is the kind of fault that needs another build of the server.
const OtherBuild = "build"

// Times of a node of another build, and the words in which nodes refuse each other.
const (
	buildRefused = 10 * time.Second // until it, and one of the others, have said so
	buildAsk     = 2 * time.Second  // for a write that it may not do
	otherVersion = "is another version of lockd than node "
)

// build starts a node from a build that knows one command more. It would apply the same log
// to another end, so it and the others must refuse each other, and it may do nothing.
func build(f *Field, fault Fault) (string, func()) {
	node := f.victims(fault.Variant, fault.Dice)[0]
	what := fmt.Sprintf("build %s %s", fault.Variant, node)
	if err := f.Target.SetBuild(node, true); err != nil {
		return fmt.Sprintf("%s (%v)", what, err), nil
	}
	f.Target.Shutdown(node)
	_ = f.Target.Restart(node)
	f.refusal(node)
	return what, func() {
		f.Target.Shutdown(node)
		_ = f.Target.SetBuild(node, false) // to its own it always goes
		_ = f.Target.Restart(node)
	}
}

// refusal finds fault with a node of another build that is not refused, does not refuse, or
// does a write.
func (f *Field) refusal(node string) {
	others := f.others(node)
	told := func() bool {
		return f.Target.Said(node, otherVersion) && f.Target.Said(node, target.OtherCommand) &&
			slices.ContainsFunc(
				others,
				func(n string) bool { return f.Target.Said(n, otherVersion) && f.Target.Said(n, target.OtherCommand) },
			)
	}
	until := time.Now().Add(buildRefused)
	for !told() && time.Now().Before(until) && f.Target.Running(node) {
		time.Sleep(50 * time.Millisecond)
	}
	if !told() {
		f.found.add(
			"not refused",
			fmt.Sprintf("%s runs a build that knows %s, and within %s its log, and that of one of %v, do not say "+
				"that it %s...",
				node, target.OtherCommand, buildRefused, others, otherVersion),
		)
	}
	if r, err := f.Target.Do(node, buildAsk, "SET", provokeKey, "other"); err == nil && !r.IsErr() {
		f.found.add(
			"not refused",
			fmt.Sprintf("%s runs a build that knows %s, and answers a write with %q",
				node, target.OtherCommand, r.Text()),
		)
	}
}
