package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/history"
)

// The longest delays of the machine are returned in order, and short ones are not.
func TestPaceTellsOfTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		rec := history.Keep(began)
		p := &pace{began: began, rec: rec, stop: make(chan struct{})}
		p.done.Go(p.processor) // in virtual time nobody is late
		for i := range paceKept + 1 {
			p.note("late by %s", began.Add(time.Duration(20-i)*time.Second), paceSlow+time.Duration(i)*time.Millisecond)
		}
		p.note("late by %s", began, paceSlow-1)
		time.Sleep(time.Second)
		notes := p.end()
		h, err := rec.History()
		if err != nil || len(h.Stood) != paceKept+1 || h.Stood[1].End-h.Stood[1].Start != int64(paceSlow+time.Millisecond) {
			t.Errorf("%v: recorded %v", err, h.Stood)
		}
		want := "the machine, at 10.0 s: late by 210ms"
		if len(notes) != paceKept || notes[0] != want || !slices.IsSorted(notes) {
			t.Errorf("%d notes, the first %q, want %d and %q:\n%q", len(notes), notes[0], paceKept, want, notes)
		}
	})
}
