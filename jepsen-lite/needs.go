package main

import (
	"fmt"
	"strings"
	"time"

	"lockd/jepsen-lite/model"
)

// faultsFor is the least time with faults of a workload whose last part has none.
const faultsFor = 10 * time.Second

// calmTail returns how long the last part of a workload has no fault, so that its rules about quiet times are judged: 0
// if the workload has none, or is too short for both parts.
func (s *session) calmTail(workload string, length time.Duration) time.Duration {
	calm := model.QuietFor(workload)
	if s.cmd.Judge == judgeSafety || s.cmd.Schedule != "" || len(s.kinds) == 0 || length < s.needs(workload) {
		return 0
	}
	return calm
}

// needs returns how long a workload must run so that its rules are judged.
func (s *session) needs(workload string) time.Duration {
	safety := s.cmd.Judge == judgeSafety
	need := model.TimeFor(workload, safety)
	if calm := model.QuietFor(workload); calm > 0 && !safety && s.cmd.Schedule == "" && len(s.kinds) > 0 {
		need = max(need, calm+faultsFor)
	}
	return need
}

// needed returns how long the run must be so that all its rules are judged: its workloads have equal parts of it.
func (s *session) needed() (all time.Duration) {
	for _, w := range s.workloads {
		all = max(all, s.needs(w))
	}
	return all * time.Duration(len(s.workloads))
}

// tooShort says which workloads the run is too short for, and how long it must be; "": it is long enough.
func (s *session) tooShort() string {
	var names []string
	length := s.cmd.Time / time.Duration(len(s.workloads))
	for _, w := range s.workloads {
		if need := s.needs(w); length < need {
			names = append(names, fmt.Sprintf("%s %s", w, need))
		}
	}
	if len(names) == 0 {
		return ""
	}
	then := "rules that were hardly at stake will be undecided"
	if s.cmd.Judge == judgeSafety {
		then = "rules that need more will not be judged"
	}
	return fmt.Sprintf("each workload has %s, and there are rules that need more (%s): %s; --time %s is enough",
		length.Round(time.Second/10), strings.Join(names, ", "), then, s.needed())
}
