package algebra

import (
	"fmt"
	"slices"
	"testing"

	"lockd/keyspace/value"
)

var limits = value.SetLimits{Ints: 512, Entries: 128, ValueBytes: 64}

func setOf(members ...string) *value.Set {
	s := value.NewSet(0)
	s.Limit(limits)
	for _, m := range members {
		s.Add(m)
	}
	return s
}

// Both ways to compute a difference give the same, in the order of the first set,
// and the cheaper one is taken.
func TestDiffHasTwoWays(t *testing.T) {
	first, other, few := setOf(), setOf(), setOf("m1", "m2", "x")
	for i := range 300 {
		first.Add(fmt.Sprint("m", i))
		other.Add(fmt.Sprint("m", i*2))
		other.Add(fmt.Sprint("x", i))
	}
	for _, tt := range []struct {
		first      *value.Set
		others     []*value.Set
		fromOthers bool
	}{
		{first, []*value.Set{other}, false},
		{first, []*value.Set{few, few, nil, few}, true},
		{first, []*value.Set{few, other, few}, false},
		{few, []*value.Set{first, other}, false},
	} {
		var want []string
		tt.first.Each(func(member string) bool {
			if !slices.ContainsFunc(tt.others, func(s *value.Set) bool { return s.Has(member) }) {
				want = append(want, member)
			}
			return true
		})
		op := NewSets(0, limits, func(int64) error { return nil }, SetRoom{Of: (*value.Set).Size, Max: 1 << 20})
		op.Diff(append([]*value.Set{tt.first}, tt.others...))
		if got := op.Result.Members(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%d members, want %d", len(got), len(want))
		}
		if common := op.common(tt.first, tt.others); tt.first.Len()-common.Len() != len(want) {
			t.Errorf("%d members in common, %d in the difference", common.Len(), len(want))
		}
		if got := cheaperFromOthers(tt.first, tt.others); got != tt.fromOthers {
			t.Errorf("from the others: %t", got)
		}
	}
}
