package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Stake tells how often a rule was at stake in a run, and how often it must be.
type Stake struct {
	Rule         *Rule
	Times, Least int
}

// Stake counts that a rule was at stake n times.
func (v *Verdict) Stake(r *Rule, n int) {
	if v.AtStake == nil {
		v.AtStake = map[string]int{}
	}
	v.AtStake[r.ID] += n
}

// Count adds the counts of another verdict.
func (v *Verdict) Count(more map[string]int) {
	for _, r := range Rules {
		if n, counted := more[r.ID]; counted {
			v.Stake(r, n)
		}
	}
}

// isLate reports whether a kind of problem tells only that something took long, which may happen on a busy machine.
func isLate(kind string) bool {
	return slices.ContainsFunc(Rules, func(r *Rule) bool { return r.Late && slices.Contains(r.Kinds, kind) })
}

// safetyPart is the part of its bound that a rule needs in a run that is judged for safety: a busy machine does less.
const safetyPart = 10

// Weigh makes each rule undecided that was at stake fewer times than it must be. If a run is judged for safety only,
// rules about times are not judged. A rule that the run could not put at stake, as it had too few faults or too little
// time without one, is not judged; nor is a rule of a run for safety that was too short for it. Such a run must judge
// one rule of its workload.
func (v *Verdict) Weigh(h *history.History, workload string, safety bool) {
	var unable []string
	own := false
	for _, r := range Rules {
		n, counted := v.AtStake[r.ID]
		if len(r.Workloads) == 0 && len(r.Need.Faults) > 0 && !r.Counted {
			n = r.Need.seen(h)
		}
		if !r.of(workload) || r.Told && !counted || safety && r.Late || n == 0 && r.Need.asksForNone(h) {
			continue
		}
		least, enough := r.Need.least(h)
		if safety && least > 0 {
			least = max(1, least/safetyPart)
		}
		switch able := enough || r.Need.timed() && !safety; {
		case n < least && able:
			v.undecided("%s was at stake %d times, and %d are the least%s: %s", v.name(r), n, least, r.Need.lacks(h), r.Says)
		case n < least:
			unable = append(unable, r.ID+r.Need.lacks(h))
			continue
		case !able:
			least = 0
		}
		own = own || len(r.Workloads) > 0
		v.Stakes = append(v.Stakes, Stake{r, n, least})
	}
	if len(unable) > 0 {
		v.NotJudged = append(v.NotJudged, strings.Join(unable, ", "))
	}
	if !own {
		v.undecided("no rule of the workload was judged: it needs %s, and worked for %s", TimeFor(workload, safety),
			worked(h))
	}
	slices.SortStableFunc(v.Stakes, func(a, b Stake) int { return cmp.Compare(a.rank(), b.rank()) })
}

// name returns what a reader must know of a rule that was hardly at stake.
func (v *Verdict) name(r *Rule) string {
	if r == ruleEach && v.Rarest != "" {
		return fmt.Sprintf("%s (%q)", r.ID, v.Rarest)
	}
	return r.ID
}

// rank orders rules by how often they were at stake, compared with how often they must be. Last come rules that need
// not be at stake, and rules of all workloads, unless they were at stake too few times: they would hide the others.
func (s Stake) rank() float64 {
	share := float64(s.Times) / float64(max(s.Least, 1))
	if s.Least == 0 || len(s.Rule.Workloads) == 0 && s.Times >= s.Least {
		share += math.MaxInt32
	}
	return share
}

// String says how often a rule must be at stake.
func (n Need) String() string {
	s := strconv.Itoa(n.Times)
	switch {
	case len(n.Faults) > 0:
		s += fmt.Sprintf(" in %d faults (%s)", n.Of, strings.Join(n.Faults, ", "))
	case n.In > 0 && n.Once:
		s += fmt.Sprintf(" in all, from %s on", n.In)
	case n.In > 0:
		s += fmt.Sprintf(" in %s", n.In)
	}
	if n.Quiet {
		s += " without a fault"
	}
	if n.Alone {
		s += " without others near"
	}
	return s
}

// timed reports whether any long enough run puts the rule at stake.
func (n Need) timed() bool { return len(n.Faults) == 0 && !n.Quiet }

// nearFaults is the time before and after a fault in which another one keeps the successions of that time from being
// judged.
const nearFaults = int64(3 * time.Second)

// asksForNone reports whether the rule needs faults, and the history has none of them.
func (n Need) asksForNone(h *history.History) bool { return len(n.Faults) > 0 && n.seen(h) == 0 }

// seen returns how many faults of a history put the rule at stake.
func (n Need) seen(h *history.History) (faults int) {
	for _, f := range h.Faults {
		if n.isOf(&f) && (!n.Alone || only(h, f.Start-nearFaults, f.End+nearFaults)) {
			faults++
		}
	}
	return faults
}

// isOf reports whether a fault is of the kinds, or variants, that put the rule at stake.
func (n Need) isOf(f *history.Window) bool {
	return slices.ContainsFunc(n.Faults, func(of string) bool {
		return of == f.Kind || of == anyFault || strings.Contains(of, " ") && strings.HasPrefix(f.What, of+" ")
	})
}

// least returns how often the rule must be at stake in a history; enough is false if that is too short, or has too few
// faults, for the rule to be at stake so often.
func (n Need) least(h *history.History) (least int, enough bool) {
	rounds := 1
	switch {
	case len(n.Faults) > 0:
		rounds = n.seen(h) / n.Of
	case n.In > 0:
		rounds = int(n.had(h) / n.In)
	}
	if n.Once {
		rounds = min(rounds, 1)
	}
	return n.Times * max(rounds, 1), rounds > 0
}

// had returns the time in which a history could put the rule at stake.
func (n Need) had(h *history.History) time.Duration {
	if n.Quiet {
		return worked(h) - time.Duration(h.Disturbed(0, h.Asked, settleTime))
	}
	return worked(h)
}

// worked returns how long the clients worked. When their time is over they wait for nothing, though a fault may last
// longer.
func worked(h *history.History) time.Duration { return time.Duration(h.Asked) }

// lacks says why a history may have put the rule at stake too few times.
func (n Need) lacks(h *history.History) string {
	switch _, enough := n.least(h); {
	case len(n.Faults) > 0:
		return fmt.Sprintf(" with %d faults (%s)", n.seen(h), strings.Join(n.Faults, ", "))
	case enough:
		return ""
	case n.Quiet:
		return fmt.Sprintf(" (it needs %s without a fault, and had %s)", n.In, n.had(h).Round(time.Second/10))
	}
	return fmt.Sprintf(" (it needs %s, and had %s)", n.In, n.had(h).Round(time.Second/10))
}

// TimeFor returns how long a workload must run so that its rules are judged.
func TimeFor(workload string, safety bool) (need time.Duration) {
	for _, r := range Rules {
		if r.of(workload) && r.Need.timed() && !(safety && r.Late) {
			need = max(need, r.Need.In)
		}
	}
	return need
}

// Wants returns the kinds of faults that rules of a workload need alone, far from others.
func Wants(workload string) (kinds []string) {
	for _, r := range Rules {
		if len(r.Workloads) == 0 || !r.of(workload) || !r.Need.Alone || len(r.Need.Faults) != 1 {
			continue
		}
		if kind, _, _ := strings.Cut(r.Need.Faults[0], ":"); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// lastFault is the time in which most faults end that began before a quiet time was to begin.
const lastFault = 5 * time.Second

// QuietFor returns how long a workload must run without faults so that its own rules are judged; 0: they need none.
func QuietFor(workload string) (need time.Duration) {
	for _, r := range Rules {
		if len(r.Workloads) > 0 && r.of(workload) && r.Need.Quiet {
			need = max(need, r.Need.In+time.Duration(settleTime)+lastFault)
		}
	}
	return need
}
