package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The longest delays of the machine are returned in order, and short ones are not.
func TestPaceTellsOfTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &pace{began: began, stop: make(chan struct{})}
		p.done.Go(p.processor) // in virtual time nobody is late
		for i := range paceKept + 1 {
			p.note("late by %s", began.Add(time.Duration(20-i)*time.Second), paceSlow+time.Duration(i)*time.Millisecond)
		}
		p.note("late by %s", began, paceSlow-1)
		time.Sleep(time.Second)
		notes := p.end()
		want := "the machine, at 10.0 s: late by 210ms"
		if len(notes) != paceKept || notes[0] != want || !slices.IsSorted(notes) {
			t.Errorf("%d notes, the first %q, want %d and %q:\n%q", len(notes), notes[0], paceKept, want, notes)
		}
	})
}
