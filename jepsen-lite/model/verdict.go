package model

import (
	"fmt"
	"slices"

	"lockd/jepsen-lite/history"
)

// Problem is one thing that no correct server does.
type Problem struct {
	Kind string // short name, such as "two holders"
	Text string // what was seen, with the lines of the history
	Line int    // of the event that cannot be, 0 if it is not one event
}

// Verdict is what a checker found.
type Verdict struct {
	Problems  []Problem
	Undecided []string // what could not be decided in time
	Notes     []string // worth knowing, and not wrong
	// NotJudged are the problems with bounds on real time, and what was undecided, of a run that is
	// judged for safety alone.
	NotJudged []string
}

// timeKinds are the problems that say nothing but that something took long, as it may on
// a machine that has other work too.
var timeKinds = []string{
	"gone late", "remaining time too long", "told too long", "told late", "not told", "not woken", "woken late",
	"overslept", "overtaken", "free in spite of a line", "held by the dead", "refused although long free",
	"goroutines not back", "memory not back", "stopped late", "left alone", "stuck between builds",
	"lock never ends", "log clock lost time", "silence", "answered late", "refused without a fault",
	"unknown without a fault", "left to a ghost", "left to one who hung up", "place lost", "granted too late",
	"put back late",
}

// SafetyOnly no longer judges what depends on how fast the machine is.
func (v *Verdict) SafetyOnly() {
	var kept []Problem
	for _, p := range v.Problems {
		if slices.Contains(timeKinds, p.Kind) {
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

// Add notes a problem; o is the operation that cannot be, or nil.
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

func (v *Verdict) undecided(format string, args ...any) {
	v.Undecided = append(v.Undecided, fmt.Sprintf(format, args...))
}

// Note adds a remark.
func (v *Verdict) Note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// Checker judges a history.
type Checker func(h *history.History) *Verdict

// All joins checkers to one.
func All(checkers ...Checker) Checker {
	return func(h *history.History) *Verdict {
		all := &Verdict{}
		for _, check := range checkers {
			v := check(h)
			all.Problems = append(all.Problems, v.Problems...)
			all.Undecided = append(all.Undecided, v.Undecided...)
			all.Notes = append(all.Notes, v.Notes...)
		}
		return all
	}
}

// Errors is the checker that every workload has: no operation is refused with an
// error that nobody provoked. The prefix of an operation's error tells: the
// recorder writes "unexpected" before such a text.
func Errors(h *history.History) *Verdict {
	v := &Verdict{}
	for i := range h.Ops {
		if o := &h.Ops[i]; len(o.Error) > len(Unexpected) && o.Error[:len(Unexpected)] == Unexpected {
			v.Add("unexpected error", o, "nothing that was asked for can be answered so")
		}
	}
	return v
}

// Unexpected begins the error of an operation that was refused for no reason.
const Unexpected = "unexpected: "
