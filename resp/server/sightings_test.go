package server

import (
	"testing"

	"lockd/resp"
	"lockd/resp/sight"
)

// What a session adds to a command is for the machine only: neither MONITOR nor SLOWLOG shows it, and what a
// client has sent in its place, they do.
func TestSightingsAreHidden(t *testing.T) {
	of := &command{spec: &resp.Spec{Name: "locks|doctor", Flags: resp.ReadOnly | resp.TakesSightings}}
	srv := New(Config{Backend: newFake()})
	s := &session{srv: srv}
	args := s.withSightings(of, resp.Args{"LOCKS", "DOCTOR", "more"})
	if len(args) != 4 || !sight.Is(args[2]) || args[3] != "more" {
		t.Fatalf("%q", args)
	}
	for i, want := range []bool{false, false, true, false} {
		if of.hides(args, i) != want {
			t.Errorf("argument %d: hidden %v", i, !want)
		}
	}
	if plain := (resp.Args{"LOCKS", "ADVICE", "order:*"}); of.hides(plain, 2) {
		t.Error("a pattern is hidden")
	}
	other := &command{spec: &resp.Spec{Name: "get"}}
	if args := s.withSightings(other, resp.Args{"GET", "k"}); len(args) != 2 {
		t.Errorf("%q", args)
	}
}
