package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/history"
)

// weighed is what Weigh says about one rule: "3 of 2", "undecided", "not judged", or "" if it is not mentioned.
func weighed(v *Verdict, r *Rule) string {
	has := func(texts []string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, r.ID) })
	}
	i := slices.IndexFunc(v.Stakes, func(s Stake) bool { return s.Rule == r })
	switch {
	case has(v.Undecided):
		return "undecided"
	case has(v.NotJudged):
		return "not judged"
	case i < 0:
		return ""
	}
	return fmt.Sprintf("%d of %d", v.Stakes[i].Times, v.Stakes[i].Least)
}

// long is a history of some seconds, with faults of a kind at its beginning.
func long(seconds int64, kind string, faults int) *history.History {
	h := &history.History{Worked: seconds * 1e9, Asked: seconds * 1e9, End: seconds * 1e9}
	for range faults {
		h.Faults = append(h.Faults, history.Window{Kind: kind, Start: 0, End: 1e9})
	}
	return h
}

// killed is long with faults that kill a node alone.
func killed(seconds int64, faults int) *history.History {
	h := long(seconds, absentKind, faults)
	for i := range h.Faults {
		h.Faults[i].What = "absent: kill leader [n1] for 2.0 s"
	}
	return h
}

// A rule that was at stake too few times for the length of the run is undecided, if the run was to judge it.
func TestWeigh(t *testing.T) {
	for _, c := range []struct {
		rule         *Rule // its need is in the comment
		workload     string
		h            *history.History
		times        int
		want, safety string
	}{
		{ruleRegister, "register", long(5, "", 0), 10, "10 of 10", "10 of 1"}, // 10 in 5 s
		{ruleRegister, "register", long(5, "", 0), 9, "undecided", "9 of 1"},
		{ruleRegister, "register", long(5, "", 0), 0, "undecided", "undecided"},
		{ruleRegister, "register", long(50, "", 0), 99, "undecided", "99 of 10"},
		{ruleRegister, "register", long(50, "", 0), 9, "undecided", "undecided"},
		{ruleRegister, "register", long(3, "", 0), 10, "10 of 10", "10 of 0"}, // too short, and long enough all the same
		{ruleRegister, "register", long(3, "", 0), 9, "undecided", "9 of 0"},
		{ruleRegister, "register", long(3, "", 0), 0, "undecided", "not judged"},
		{ruleMembers, "lock", long(50, "", 0), 0, "", ""},
		{ruleGone, "expiry", long(50, "", 0), 0, "undecided", ""}, // about times
		{ruleTurn, "line", long(50, "", 0), 0, "undecided", ""},   // once in 10 s without a fault
		{ruleTurn, "line", long(15, "kill", 1), 0, "not judged", ""},
		{ruleTurn, "line", long(15, "kill", 1), 1, "1 of 0", ""},
		{ruleTurn, "line", long(16, "kill", 1), 0, "undecided", ""},
		{ruleFenceOver, "lock", long(50, "kill", 0), 0, "", ""}, // twice in 8 faults
		{ruleFenceOver, "lock", long(50, "kill", 7), 1, "not judged", "1 of 0"},
		{ruleFenceOver, "lock", long(50, "kill", 8), 1, "undecided", "1 of 1"},
		{ruleFenceOver, "lock", long(50, "kill", 8), 0, "undecided", "undecided"},
		{ruleFenceOver, "lock", long(50, "kill", 16), 4, "4 of 4", "4 of 1"},
		{ruleGhost, "line", killed(50, 3), 0, "undecided", ""}, // once in 3 lone faults
		{ruleGhost, "line", killed(50, 2), 0, "not judged", ""},
		{ruleGhost, "line", long(50, "absent", 3), 0, "", ""}, // none of them kills
		{ruleGhost, "line", long(50, "kill", 3), 0, "", ""},
		{ruleEach, "set", long(9, "", 0), 0, "undecided", "not judged"}, // once in a run of 10 s
		{ruleEach, "set", long(500, "", 0), 0, "undecided", "undecided"},
		{ruleEach, "set", long(500, "", 0), 1, "1 of 1", "1 of 1"},
		{ruleMomentEnds, "moments", long(500, "", 0), 0, "0 of 0", ""},
		{ruleAnswered, "set", long(1, "", 0), 0, "undecided", "undecided"}, // 10 times in any run
		{ruleAnswered, "set", long(1, "", 0), 9, "undecided", "9 of 1"},
	} {
		for _, safety := range []bool{false, true} {
			want, v := c.want, &Verdict{}
			if safety {
				want = c.safety
			}
			v.Stake(c.rule, c.times)
			v.Weigh(c.h, c.workload, safety)
			if got := weighed(v, c.rule); got != want {
				t.Errorf("%s %d times in %d s with %d faults, safety %v: %q, want %q", c.rule.ID, c.times, c.h.Worked/1e9,
					len(c.h.Faults), safety, got, want)
			}
		}
	}
}

// A lone fault is one near which no other fault spoils what it does to clients in line.
func TestWeighLoneFaults(t *testing.T) {
	h := killed(100, 3)
	for range 2 {
		h.Faults[2].Start, h.Faults[2].End = 50e9, 51e9
		v := &Verdict{}
		if v.Weigh(h, "line", false); weighed(v, ruleGhost) != "undecided" {
			t.Errorf("%q", weighed(v, ruleGhost))
		}
		h.Faults = append(h.Faults, history.Window{Kind: "kill", Start: 49e9, End: 52e9})
	}
	h.Faults = append(h.Faults, history.Window{Kind: "slow", Start: 47e9, End: 48e9})
	v := &Verdict{}
	if v.Weigh(h, "line", false); weighed(v, ruleGhost) != "not judged" {
		t.Errorf("beside another fault: %q", weighed(v, ruleGhost))
	}
}

// A run in which nothing happened is never ok, and the rule that came nearest to its bound comes first.
func TestWeighNothing(t *testing.T) {
	for _, safety := range []bool{false, true} {
		for _, seconds := range []int64{0, 3, 300} {
			v := &Verdict{}
			if v.Weigh(long(seconds, "", 0), "set", safety); v.OK() {
				t.Errorf("%d s, safety %v: %+v", seconds, safety, v)
			}
		}
	}
	v := &Verdict{}
	v.Stake(ruleAnswered, 15)
	v.Stake(ruleMembers, 6)
	v.Stake(ruleMembersOnce, 40)
	v.Stake(ruleEach, 30)
	v.Weigh(long(6, "", 0), "set", false)
	if !v.OK() || len(v.Stakes) != 4 || v.Stakes[0].Rule != ruleMembers || v.Stakes[2].Rule != ruleAnswered {
		t.Errorf("%+v", v)
	}
	v = &Verdict{}
	v.Stake(ruleAnswered, 3)
	v.Stake(ruleMembers, 4)
	if v.Weigh(long(6, "", 0), "set", false); v.Stakes[0].Rule != ruleEach && v.Stakes[0].Rule != ruleAnswered {
		t.Errorf("below its bound a rule of all workloads comes first, too: %+v", v.Stakes)
	}
}

// What all checkers have counted, and the run has, adds up.
func TestStakesAddUp(t *testing.T) {
	one := func(*history.History) *Verdict {
		v := &Verdict{}
		v.Stake(ruleAnswered, 3)
		return v
	}
	v := All(one, one)(&history.History{})
	v.Count(map[string]int{RuleStates.ID: 1, "unknown": 7})
	if v.AtStake[ruleAnswered.ID] != 6 || v.AtStake[RuleStates.ID] != 1 || len(v.AtStake) != 2 {
		t.Errorf("%v", v.AtStake)
	}
}

// How long a workload must run follows from its rules.
func TestTimeFor(t *testing.T) {
	for _, c := range []struct {
		workload            string
		time, safely, quiet time.Duration
	}{
		{"set", 10 * time.Second, 10 * time.Second, 0},
		{"lock", 20 * time.Second, 20 * time.Second, 0},
		{"line", 20 * time.Second, 10 * time.Second, 30 * time.Second},
	} {
		if n, s, q := TimeFor(c.workload, false), TimeFor(c.workload, true), QuietFor(c.workload); n != c.time || s != c.safely || q != c.quiet {
			t.Errorf("%s: %s, %s, %s", c.workload, n, s, q)
		}
	}
}

// Faults count by their kind, or by the first words of what they were.
func TestFaultsOfVariants(t *testing.T) {
	h := &history.History{Faults: []history.Window{
		{Kind: "backup", What: "backup any from n1"}, {Kind: "backup", What: "backup apart from n1"},
		{Kind: "backup", What: "backup anyhow"}, {Kind: "run", What: "run one killed [n2]"}, {Kind: "recover", What: "recover a copy of n2"},
	}}
	for _, c := range []struct {
		kinds []string
		want  int
	}{
		{[]string{"backup"}, 3}, {[]string{"backup any"}, 1}, {[]string{"run one"}, 1}, {[]string{"recover", "backup any"}, 2},
		{[]string{anyFault}, 5}, {[]string{"back"}, 0},
	} {
		if got := faulty(1, 1, c.kinds...).seen(h); got != c.want {
			t.Errorf("%q: %d faults, want %d", c.kinds, got, c.want)
		}
	}
}
