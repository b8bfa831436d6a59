package main

import (
	"fmt"
	"strings"
	"time"

	"lockd/jepsen-lite/model"
)

// faultsFor is the least time with faults of a workload whose last part has none.
const faultsFor = 10 * time.Second

// needs says how long workloads must run so that their rules are judged.
type needs struct {
	safety bool // only rules about safety are judged
	drawn  bool // faults are drawn, so they can be left out of the last part of a workload
}

func (s *session) needs() needs {
	return needs{safety: s.cmd.Judge == judgeSafety, drawn: s.cmd.Schedule == "" && len(s.kinds) > 0}
}

// of returns how long a workload must run.
func (n needs) of(workload string) time.Duration {
	need := model.TimeFor(workload, n.safety)
	if calm := model.QuietFor(workload); calm > 0 && !n.safety && n.drawn {
		need = max(need, calm+faultsFor)
	}
	return need
}

// calmTail returns how long the last part of a workload has no fault, so that its rules about quiet times are judged: 0
// if the workload has none, or is too short for both parts.
func (n needs) calmTail(workload string, length time.Duration) time.Duration {
	if n.safety || !n.drawn || length < n.of(workload) {
		return 0
	}
	return model.QuietFor(workload)
}

// all returns how long a run must be: its workloads have equal parts of it.
func (n needs) all(workloads []string) (all time.Duration) {
	for _, w := range workloads {
		all = max(all, n.of(w))
	}
	return all * time.Duration(len(workloads))
}

// tooShort says which workloads a run is too short for, and how long it must be; "": it is long enough.
func (n needs) tooShort(workloads []string, run time.Duration) string {
	var names []string
	length := run / time.Duration(len(workloads))
	for _, w := range workloads {
		if need := n.of(w); length < need {
			names = append(names, fmt.Sprintf("%s %s", w, need))
		}
	}
	if len(names) == 0 {
		return ""
	}
	then := "rules that were hardly at stake will be undecided"
	if n.safety {
		then = "rules that need more will not be judged"
	}
	return fmt.Sprintf("each workload has %s, and there are rules that need more (%s): %s; --time %s is enough",
		length.Round(time.Second/10), strings.Join(names, ", "), then, n.all(workloads))
}
