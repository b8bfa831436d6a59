package keyspace

import (
	"fmt"
	"strings"
	"testing"

	"lockd/keyspace/arg"
)

// Buckets are in images: they can never change.
func TestBucketsNeverChange(t *testing.T) {
	if a, b := bucket(0, "lock"), bucket(3, "lock"); a != 620 || b != 595 {
		t.Errorf("buckets %d and %d", a, b)
	}
}

// A scan, however small its steps, returns every key that is there from its
// beginning to its end, exactly once, whatever is written between the steps, and
// though the machine is replaced by its restored image.
func TestScanIsStable(t *testing.T) {
	for _, count := range []int{1, 7, 100, 5000} {
		m := New(nil)
		for i := range 1000 {
			do(m, 1, fmt.Sprintf("SET stay%d v", i))
			do(m, 1, fmt.Sprintf("SET go%d v", i))
		}
		seen, cursor, steps := map[string]int{}, "0", 0
		for {
			r, _ := apply(m, at(1), fmt.Sprintf("SCAN %s COUNT %d", cursor, count))
			for _, key := range r.Elems[1].Elems {
				seen[key.Str]++
			}
			if cursor = r.Elems[0].Str; cursor == "0" {
				break
			}
			do(m, 1, fmt.Sprintf("DEL go%d", steps%1000))
			do(m, 1, fmt.Sprintf("SET new%d v", steps))
			if steps++; steps%100 == 50 {
				m = restored(t, image(t, m))
			}
		}
		for i := range 1000 {
			if n := seen[fmt.Sprintf("stay%d", i)]; n != 1 {
				t.Fatalf("count %d: stay%d was returned %d times", count, i, n)
			}
		}
	}
}

// What exceeds the bound of one command is an error, not an answer.
func TestGlobIsBounded(t *testing.T) {
	m := New(nil)
	do(m, 1, "SET "+strings.Repeat("a", 100_000)+" v")
	pattern := "*" + strings.Repeat("a", 30_000) + "b"
	if got := do(m, 1, "KEYS "+pattern); got != arg.ErrGlob {
		t.Error(got)
	}
	if got := do(m, 1, "SCAN 0 MATCH "+pattern); got != arg.ErrGlob {
		t.Error(got)
	}
}
