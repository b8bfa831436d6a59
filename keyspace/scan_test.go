package keyspace

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"lockd/keyspace/arg"
)

// A scan, however small its steps, returns every key or member that is there from its beginning to its end, exactly
// once, whatever is written between the steps, and though the machine is replaced by its restored image.
func TestScanIsStable(t *testing.T) {
	for _, tt := range []struct{ scan, add, drop string }{
		{"SCAN %s", "SET %s v", "DEL %s"},
		{"SSCAN c %s", "SADD c %s", "SREM c %s"},
		{"HSCAN c %s", "HSET c %s v", "HDEL c %s"},
		{"ZSCAN c %s", "ZADD c 1 %s", "ZREM c %s"},
	} {
		for _, count := range []int{1, 7, 100, 5000} {
			m := New(nil)
			line := func(form, name string, i int) { do(m, 1, fmt.Sprintf(form, name+strconv.Itoa(i))) }
			for i := range 300 {
				line(tt.add, "stay", i)
				line(tt.add, "go", i)
			}
			seen, cursor, steps := map[string]int{}, "0", 0
			for {
				r, _ := apply(m, at(1), fmt.Sprintf(tt.scan+" COUNT %d", cursor, count))
				for _, item := range r.Elems[1].Elems {
					seen[item.Str]++
				}
				if cursor = r.Elems[0].Str; cursor == "0" {
					break
				}
				line(tt.drop, "go", steps%300)
				line(tt.add, "new", steps)
				if steps++; steps%100 == 50 {
					m = restored(t, image(t, m))
				}
			}
			for i := range 300 {
				if n := seen[fmt.Sprintf("stay%d", i)]; n != 1 {
					t.Fatalf("%s, count %d: stay%d was returned %d times", tt.scan, count, i, n)
				}
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
