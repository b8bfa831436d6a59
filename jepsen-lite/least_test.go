package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// containing fails while all of these things are there.
func containing(need ...int) func([]int) bool {
	return func(some []int) bool {
		return !slices.ContainsFunc(need, func(n int) bool { return !slices.Contains(some, n) })
	}
}

// The result fails, keeps its order, and no longer fails without any one thing. Nothing is tried twice.
func TestLeast(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		fails func([]int) bool
		want  string
		most  int // questions
	}{
		{"nothing is needed", 20, containing(), "[]", 1},
		{"of nothing", 0, containing(), "[]", 0},
		{"the only one", 1, containing(0), "[0]", 1},
		{"one of many", 64, containing(41), "[41]", 20},
		{"two far apart", 64, containing(3, 60), "[3 60]", 80},
		{"three in a row", 30, containing(7, 8, 9), "[7 8 9]", 60},
		{"all", 6, containing(0, 1, 2, 3, 4, 5), "[0 1 2 3 4 5]", 30},
		{"either of two", 10, func(some []int) bool { return containing(2)(some) || containing(9)(some) }, "[2]", 15},
		{"any four", 12, func(some []int) bool { return len(some) >= 4 }, "[2 3 4 5]", 40},
		{"one, and not with another", 8, func(some []int) bool { return len(some) == 8 || containing(5)(some) && !containing(4)(some) }, "[5]", 30},
	} {
		asked := map[string]bool{}
		got, err := least(upTo(c.n), func(some []int) (bool, error) {
			if name := fmt.Sprint(some); asked[name] {
				t.Errorf("%s: %s was asked twice", c.name, name)
			} else {
				asked[name] = true
			}
			if !slices.IsSorted(some) {
				t.Errorf("%s: %v has another order", c.name, some)
			}
			return c.fails(some), nil
		})
		if fmt.Sprint(got) != c.want || err != nil || len(asked) > c.most {
			t.Errorf("%s: %v after %d questions, want %s after %d; %v", c.name, got, len(asked), c.want, c.most, err)
		}
	}
}

// The result is exactly the things that are needed.
func TestLeastOfAny(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		n := 1 + rng.IntN(30)
		need := rng.Perm(n)[:rng.IntN(n+1)]
		slices.Sort(need)
		got, err := least(upTo(n), func(some []int) (bool, error) { return containing(need...)(some), nil })
		if !slices.Equal(got, need) || err != nil {
			t.Errorf("%d of %d: %v, want %v, %v", len(need), n, got, need, err)
		}
	}
}

// An error ends the search with the last failing set, whenever it occurs.
func TestLeastUntilAnError(t *testing.T) {
	stop := errors.New("stop")
	for after := range 20 {
		asked, last := 0, upTo(32)
		got, err := least(upTo(32), func(some []int) (bool, error) {
			if asked++; asked > after {
				return false, stop
			}
			failed := containing(3, 20)(some)
			if failed {
				last = some
			}
			return failed, nil
		})
		if err == nil && len(got) == 2 {
			return // it was done before
		}
		if !errors.Is(err, stop) || !slices.Equal(got, last) || asked != after+1 {
			t.Errorf("after %d questions: %v, want %v, %v", after, got, last, err)
		}
	}
}
