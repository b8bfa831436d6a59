package main

import (
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// A node may keep what a role, a cache and the data need, and nothing more.
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

// statTarget answers the questions of askLevel.
type statTarget struct {
	target.Target
	info string
}

func (s statTarget) Fault(string, string) (string, error) { return "goroutines 25 heap 20000000", nil }

func (s statTarget) Do(string, time.Duration, ...string) (target.Reply, error) {
	return target.Reply{Kind: '$', Str: s.info}, nil
}

// Memory that a node counts for its data is no leak. Without the count the level is unknown.
func TestLevelIsBesideTheData(t *testing.T) {
	l, err := askLevel(statTarget{info: "# Memory\r\nused_memory:17000000\r\nused_memory_human:16M\r\n"}, "n1")
	if want := (level{goroutines: 25, heap: 3000000}); l != want || err != nil {
		t.Errorf("%+v, %v, want %+v", l, err, want)
	}
	if _, err := askLevel(statTarget{info: "-LOADING"}, "n1"); err == nil {
		t.Error("no error without the count")
	}
}
