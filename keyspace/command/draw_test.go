package command

import (
	"slices"
	"testing"

	"lockd/resp"
)

// choose draws different numbers, each of them about as often as another, and all
// of them in their order where as many are asked for.
func TestChoose(t *testing.T) {
	s := NewState(nil, LevelLowest)
	const n, rounds = 10, 2000
	times := make([]int, n)
	for seed := range uint64(rounds) {
		c := Ctx{s: &s, at: resp.Stamp{Seed: seed * 0x9e3779b97f4a7c15}}
		s.Draws = 0
		chosen := choose(&c, n, 3)
		for _, i := range chosen {
			times[i]++
		}
		slices.Sort(chosen)
		if len(slices.Compact(chosen)) != 3 {
			t.Fatalf("seed %d: %v", seed, chosen)
		}
	}
	for i, got := range times {
		if want := rounds * 3 / n; got < want*8/10 || got > want*12/10 {
			t.Errorf("%d was drawn %d times, want about %d", i, got, want)
		}
	}
	c := Ctx{s: &s}
	for count, want := range map[int64]int{0: 0, 10: 10, 11: 10, maxInt: 10, -1: 1, -30: 30} {
		if got := choose(&c, n, count); len(got) != want || want == n && !slices.IsSorted(got) {
			t.Errorf("choose(%d, %d): %v", n, count, got)
		}
	}
}
