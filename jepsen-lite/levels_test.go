package main

import (
	"strings"
	"testing"

	"lockd/jepsen-lite/model"
)

// A node may keep what a role, a cache and the data need, and nothing beyond.
func TestLevels(t *testing.T) {
	before := level{goroutines: 25, heap: 3 << 20}
	most := before.allowed(2, 1000)
	for _, c := range []struct {
		now  level
		want string
	}{
		{before, ""},
		{most, ""},
		{level{most.goroutines + 1, most.heap}, "goroutines not back"},
		{level{most.goroutines, most.heap + 1}, "memory not back"},
	} {
		var v model.Verdict
		well := c.now.judge(&v, "n1", most)
		var kinds []string
		for _, p := range v.Problems {
			kinds = append(kinds, p.Kind)
		}
		if got := strings.Join(kinds, ","); got != c.want || well != (c.want == "") {
			t.Errorf("%+v: %q, want %q", c.now, got, c.want)
		}
	}
	if more := before.allowed(2, 2000).heap - most.heap; more != 1000*heapPerOperation {
		t.Errorf("1000 operations may leave %d bytes more", more)
	}
}
