package value

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What each form of a set promises of itself holds after every change, whatever the limits are, and a
// copy stays as it was.
func TestSetKeepsItsForm(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s, model := NewSet(1), map[string]bool{}
		for i := range 500 {
			s.Limit(SetLimits{rng.Int64N(9), rng.Int64N(9), rng.Int64N(9)})
			member := strconv.Itoa(rng.IntN(12) - 6)
			if rng.IntN(3) == 0 {
				member = strings.Repeat("m", 1+rng.IntN(12))
			}
			was, before := s.copyFor(2), s.Members()
			switch rng.IntN(4) {
			case 0:
				if got := s.Delete(member); got != model[member] {
					t.Fatalf("seed %d step %d: %q was removed: %t", seed, i, member, got)
				}
				delete(model, member)
			case 1:
				s.Compact()
			default:
				s.Expect(member, int64(s.Len())+1)
				if got := s.Add(member); got == model[member] {
					t.Fatalf("seed %d step %d: %q is new: %t", seed, i, member, got)
				}
				model[member] = true
			}
			if !slices.Equal(was.Members(), before) {
				t.Fatalf("seed %d step %d: the copy of %q has become %q", seed, i, before, was.Members())
			}
			checkSet(t, s, model)
			if s.Len() == 0 {
				s = NewSet(1) // as one that is gone
			}
		}
	}
}

func checkSet(t *testing.T, s *Set, model map[string]bool) {
	t.Helper()
	members, bytes := s.Members(), int64(0)
	for i, member := range members {
		bytes += int64(len(member))
		if s.At(i) != member || !s.Has(member) || !model[member] {
			t.Fatalf("%q is not at its place %d", member, i)
		}
	}
	switch {
	case len(members) != len(model), s.Len() != len(model),
		s.shape == SetInts && (!slices.IsSorted(s.ints) || s.small != nil || s.large != nil || s.bytes != 0),
		s.shape == setSmall && (s.ints != nil || s.large != nil),
		s.shape == setLarge && (s.ints != nil || s.small != nil),
		s.shape != SetInts && s.bytes != bytes:
		t.Fatalf("damaged: %+v", s)
	}
}

// A member that is there changes no form, though the limits are lower now.
func TestSetKeepsFormForOldMembers(t *testing.T) {
	s := NewSet(1)
	s.Limit(SetLimits{Ints: 10, Entries: 10, ValueBytes: 10})
	for _, member := range []string{"1", "2", "3"} {
		s.Add(member)
	}
	s.Limit(SetLimits{Ints: 2, Entries: 2, ValueBytes: 10})
	if s.Add("2") || s.Form() != SetInts {
		t.Errorf("an old member made the form %d", s.Form())
	}
	if !s.Add("4") || !s.IsTree() {
		t.Errorf("a new member left the form %d", s.Form())
	}
}
