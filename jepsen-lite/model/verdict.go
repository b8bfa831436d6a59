package model

import (
	"cmp"
	"fmt"

	"lockd/jepsen-lite/history"
)

// Problem is something that no correct server does.
type Problem struct {
	Kind string // short name, such as "two holders"
	Text string // what was seen, with lines of the history
	Line int    // of the event that is wrong; 0 if it is not one event
}

// Verdict is the result of a checker.
type Verdict struct {
	Problems  []Problem
	Undecided []string // what could not be decided in time
	Notes     []string // information for readers
	// NotJudged are the problems about real time, and the undecided parts, of a run that is judged for safety only.
	NotJudged []string
	// AtStake counts how often each rule was at stake, by ID.
	AtStake map[string]int `json:",omitempty"`
	// GaveUp counts the searches that found no answer in time; each is in Undecided, too.
	GaveUp int `json:",omitempty"`
	// Rarest is the kind of request, or of answer, that was seen the fewest times: see Least.
	Rarest string `json:"-"`
	// Stakes are the rules that were to be judged; that which came nearest to its bound is the first one: see Weigh.
	Stakes []Stake `json:"-"`
}

// SafetyOnly moves everything that depends on the speed of the machine to NotJudged.
func (v *Verdict) SafetyOnly() {
	var kept []Problem
	for _, p := range v.Problems {
		if isLate(p.Kind) {
			v.NotJudged = append(v.NotJudged, p.Kind+": "+p.Text)
		} else {
			kept = append(kept, p)
		}
	}
	for _, u := range v.Undecided {
		v.NotJudged = append(v.NotJudged, "undecided: "+u)
	}
	v.Problems, v.Undecided = kept, nil
}

// OK reports whether everything was decided and nothing is wrong.
func (v *Verdict) OK() bool { return len(v.Problems) == 0 && len(v.Undecided) == 0 }

// problemsMax bounds how many problems of one kind a verdict lists.
const problemsMax = 10

// Add adds a problem; o is the operation that is wrong, or nil.
func (v *Verdict) Add(kind string, o *history.Op, format string, args ...any) {
	count := 0
	for _, p := range v.Problems {
		if p.Kind == kind {
			count++
		}
	}
	if count >= problemsMax {
		return
	}
	p := Problem{Kind: kind, Text: fmt.Sprintf(format, args...)}
	if o != nil {
		p.Line = o.Line
		p.Text = o.String() + ": " + p.Text
	}
	v.Problems = append(v.Problems, p)
}

// undecided adds something that could not be decided.
func (v *Verdict) undecided(format string, args ...any) {
	v.Undecided = append(v.Undecided, fmt.Sprintf(format, args...))
}

// Note adds information for readers.
func (v *Verdict) Note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// Checker judges a history.
type Checker func(h *history.History) *Verdict

// All joins checkers into one.
func All(checkers ...Checker) Checker {
	return func(h *history.History) *Verdict {
		all := &Verdict{}
		for _, check := range checkers {
			v := check(h)
			all.Problems = append(all.Problems, v.Problems...)
			all.Undecided = append(all.Undecided, v.Undecided...)
			all.Notes = append(all.Notes, v.Notes...)
			all.GaveUp += v.GaveUp
			all.Count(v.AtStake)
			all.Rarest = cmp.Or(all.Rarest, v.Rarest)
		}
		return all
	}
}

// Errors is the checker of every workload: no operation is refused without a reason. The recorder marks such an
// operation by the prefix Unexpected of its error.
func Errors(h *history.History) *Verdict {
	v := &Verdict{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.OK() && o.Node != "" {
			v.Stake(ruleAnswered, 1)
		}
		if len(o.Error) > len(Unexpected) && o.Error[:len(Unexpected)] == Unexpected {
			v.Add("unexpected error", o, "no request of this workload can have this answer")
		}
	}
	return v
}

// Unexpected begins the error of an operation that was refused without a reason.
const Unexpected = "unexpected: "
