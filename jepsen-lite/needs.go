package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/nemesis"
)

const (
	// faultsFor is the least time with faults of a workload whose last part has none.
	faultsFor = 10 * time.Second
	// aloneFor is the time of a fault of a kind that rules of a workload need alone; the workload begins with two of
	// them, or one of each of absentFirst.
	aloneFor = 12 * time.Second
	// dealtFor is the time for a fault that is dealt out, beside that for others.
	dealtFor = 10 * time.Second
)

// absentFirst are the variants of the fault absent with which workloads begin that need it: clients of a paused node
// mostly keep their places in line, those of a killed one are passed over.
var absentFirst = []string{":pause-follower", ":kill-follower", ":kill-leader"}

// needs says how long workloads must run so that their rules are judged.
type needs struct {
	safety bool     // only rules about safety are judged
	drawn  bool     // faults are drawn, so they can be left out of the last part of a workload
	kinds  []string // of faults that are drawn
	mixed  bool     // there are several at once
	seed   uint64
}

func (s *session) needs() needs {
	n := needs{safety: s.cmd.Judge == judgeSafety, drawn: s.cmd.Schedule == "" && len(s.kinds) > 0}
	if n.drawn {
		n.kinds, n.mixed, n.seed = s.kinds, s.cmd.Mixed, s.cmd.Seed
	}
	return n
}

// of returns how long a workload must run.
func (n needs) of(workload string) time.Duration {
	need, alone := model.TimeFor(workload, n.safety), time.Duration(len(n.alone(workload)))*aloneFor
	if calm := model.QuietFor(workload); calm > 0 && !n.safety && n.drawn {
		return max(need, calm+max(faultsFor, alone))
	}
	return need + alone
}

// alone returns the faults with which a workload begins because its rules need them far from others.
func (n needs) alone(workload string) (kinds []string) {
	if n.safety {
		return nil
	}
	for _, kind := range model.Wants(workload) {
		i := slices.IndexFunc(n.kinds, func(k string) bool { return nemesis.Find(k).Name == kind })
		switch {
		case i < 0:
		case n.kinds[i] == nemesis.Absent:
			for _, variant := range absentFirst {
				kinds = append(kinds, nemesis.Absent+variant)
			}
		default:
			kinds = append(kinds, n.kinds[i], n.kinds[i])
		}
	}
	return kinds
}

// dealt returns the fault with which a workload of a mixed run begins, of those that have a step to themselves: they are
// rare beside others, so each kind is dealt out to one of the workloads that need none themselves.
func (n needs) dealt(workloads []string, turn int) (kinds []string) {
	lone, others := nemesis.Apart(n.kinds)
	lone = slices.DeleteFunc(lone, func(k string) bool { return nemesis.Find(k).Name == nemesis.Absent })
	if !n.mixed || len(workloads) == 1 || len(others) == 0 || len(n.alone(workloads[turn])) > 0 {
		return nil
	}
	before := 0
	for _, w := range workloads[:turn] {
		if len(n.alone(w)) == 0 {
			before++
		}
	}
	if before >= len(lone) {
		return nil
	}
	at := (n.seed + uint64(before)) % uint64(len(lone))
	return lone[at : at+1]
}

// first returns the faults with which a workload of a run begins.
func (n needs) first(workloads []string, turn int, run time.Duration) []string {
	if alone := n.alone(workloads[turn]); len(alone) > 0 || run < n.all(workloads) {
		return alone
	}
	return n.dealt(workloads, turn)
}

// calmTail returns how long the last part of a workload has no fault, so that its rules about quiet times are judged: 0
// if the workload has none, or is too short for both parts.
func (n needs) calmTail(workload string, length time.Duration) time.Duration {
	if n.safety || !n.drawn || length < n.of(workload) {
		return 0
	}
	return model.QuietFor(workload)
}

// least returns how long a run must be so that all rules of its workloads are judged.
func (n needs) least(workloads []string) (all time.Duration) {
	for _, w := range workloads {
		all += n.of(w)
	}
	return all
}

// all returns how long a run must be so that each kind of fault is dealt out, too.
func (n needs) all(workloads []string) time.Duration {
	all := n.least(workloads)
	for turn := range workloads {
		all += time.Duration(len(n.dealt(workloads, turn))) * dealtFor
	}
	return all
}

// parts divides a run: each workload has what it needs, and an equal part of the rest. In a run that is too short all
// have equal parts.
func (n needs) parts(workloads []string, run time.Duration) (parts []time.Duration) {
	count, least, all := time.Duration(len(workloads)), n.least(workloads), n.all(workloads)
	for turn, w := range workloads {
		switch {
		case run >= all:
			parts = append(parts, n.of(w)+time.Duration(len(n.dealt(workloads, turn)))*dealtFor+(run-all)/count)
		case run >= least:
			parts = append(parts, n.of(w)+(run-least)/count)
		default:
			parts = append(parts, run/count)
		}
	}
	return parts
}

// tooShort says which workloads a run is too short for, and how long it must be; "": it is long enough.
func (n needs) tooShort(workloads []string, run time.Duration) string {
	if run >= n.least(workloads) {
		return ""
	}
	var names []string
	length := run / time.Duration(len(workloads))
	for _, w := range workloads {
		if need := n.of(w); length < need {
			names = append(names, fmt.Sprintf("%s %s", w, need))
		}
	}
	then := "rules that were hardly at stake will be undecided"
	if n.safety {
		then = "rules that need more will not be judged"
	}
	return fmt.Sprintf("each workload has %s, and there are rules that need more (%s): %s; --time %s is enough",
		length.Round(time.Second/10), strings.Join(names, ", "), then, n.least(workloads))
}
