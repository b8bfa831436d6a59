package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
)

// Result is the result of one workload.
type Result struct {
	Workload string
	History  *history.History
	Verdict  *model.Verdict
	Reigns   []Reign // for the picture
	Skipped  string  // why it was not run, or ""
}

// NotRun makes the result of a workload that was not run: nothing is decided.
func NotRun(name, why string) Result {
	return Result{
		Workload: name, History: &history.History{}, Skipped: why,
		Verdict: &model.Verdict{Undecided: []string{"not run: " + why}},
	}
}

// Passed reports whether all workloads passed.
func Passed(results []Result) bool {
	return !slices.ContainsFunc(results, func(r Result) bool { return !r.Verdict.OK() })
}

// Figures are the numbers of a history.
type Figures struct {
	OK, Fail, Info, Faults int
	Kinds                  map[string]int
	Gap                    time.Duration // longest time without a successful operation, as long as clients worked
}

// Count counts a history.
func Count(h *history.History) Figures {
	f := Figures{Kinds: map[string]int{}, Faults: len(h.Faults)}
	var ends []int64
	for _, o := range h.Ops {
		switch o.Outcome {
		case history.OK:
			f.OK++
			ends = append(ends, o.End)
		case history.Fail:
			f.Fail++
		default:
			f.Info++
		}
	}
	if slices.Sort(ends); len(ends) > 0 {
		f.Gap = gap(ends[1:], ends[0], h.Worked)
	}
	for _, w := range h.Faults {
		f.Kinds[w.Kind]++
	}
	return f
}

// Table writes the table at the end of a run, and every problem.
func Table(w io.Writer, results []Result) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "workload\tok\tfailed\tunknown\tfaults\tlongest silence\tleast at stake\tverdict")
	var sum Figures
	for _, r := range results {
		if r.Skipped != "" {
			fmt.Fprintf(tw, "%s\t-\t-\t-\t-\t-\t-\t%s\n", r.Workload, Word(r.Verdict))
			continue
		}
		f := Count(r.History)
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Workload, f.OK, f.Fail, f.Info, f.Faults,
			f.Gap.Round(time.Millisecond), leastAtStake(r.Verdict), Word(r.Verdict))
		sum.OK, sum.Fail, sum.Info = sum.OK+f.OK, sum.Fail+f.Fail, sum.Info+f.Info
		sum.Faults, sum.Gap = sum.Faults+f.Faults, max(sum.Gap, f.Gap)
	}
	fmt.Fprintf(tw, "all\t%d\t%d\t%d\t%d\t%s\t\t\n",
		sum.OK, sum.Fail, sum.Info, sum.Faults, sum.Gap.Round(time.Millisecond))
	_ = tw.Flush()
	sums(w, results)
	for _, r := range results {
		if r.Skipped == "" {
			Problems(w, r)
		}
	}
	skipped(w, results)
}

// sums writes what concerns all workloads: outages for each kind of fault, majorities, ends of processes.
func sums(w io.Writer, results []Result) {
	outages(w, results)
	quorums(w, results)
	ends(w, results)
}

// leastAtStake names the rule that came nearest to the least number of times that it must be at stake, with both
// numbers.
func leastAtStake(v *model.Verdict) string {
	if len(v.Stakes) == 0 {
		return "-"
	}
	s := v.Stakes[0]
	return fmt.Sprintf("%s %d of %d", s.Rule.ID, s.Times, s.Least)
}

// skipped writes once why workloads were not run.
func skipped(w io.Writer, results []Result) {
	var names []string
	why := ""
	for _, r := range results {
		if r.Skipped != "" {
			names, why = append(names, r.Workload), r.Skipped
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "%s: not run, and so undecided: %s\n", why, strings.Join(names, ", "))
	}
}

// Word returns a verdict in one word.
func Word(v *model.Verdict) string {
	switch {
	case len(v.Problems) > 0:
		return "FAILED: " + v.Problems[0].Kind
	case len(v.Undecided) > 0:
		return "UNDECIDED"
	}
	return "ok"
}

// Problems writes the problems of one workload.
func Problems(w io.Writer, r Result) {
	for _, p := range r.Verdict.Problems {
		fmt.Fprintf(w, "%s: %s: %s\n", r.Workload, p.Kind, p.Text)
	}
	for _, u := range r.Verdict.Undecided {
		fmt.Fprintf(w, "%s: undecided: %s\n", r.Workload, u)
	}
	for _, n := range r.Verdict.NotJudged {
		fmt.Fprintf(w, "%s: not judged: %s\n", r.Workload, n)
	}
}
