package server

import (
	"strings"
	"testing"
)

// The picture of three samples, as redis-server 7.0.15 drew it.
func TestLatencyGraph(t *testing.T) {
	e := latencyEvent{samples: []latencySample{{1790, 33}, {1791, 66}, {1792, 30}}, maxMs: 66}
	want := `command - high 66 ms, low 30 ms (all time high 66 ms)
--------------------------------------------------------------------------------
 #.
 |.
 |.
o|_
...
210
sss
`
	want = strings.ReplaceAll(want, ".", " ")
	if got := e.graph("command", 1792); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// One sample, old ones in their units, and more than fit a line.
func TestLatencyGraphForms(t *testing.T) {
	one := latencyEvent{samples: []latencySample{{0, 5}}, maxMs: 9}
	if got := one.graph("command", 60); !strings.HasSuffix(got, "-\n \n \n \n_\n \n1\nm\n") {
		t.Errorf("%q", got)
	}
	for seconds, want := range map[int64]string{-1: "0s", 59: "59s", 3599: "59m", 3600: "1h", 86399: "23h", 10 * 86400: "10d"} {
		if got := shortAge(seconds); got != want {
			t.Errorf("%d: %q, want %q", seconds, got, want)
		}
	}
	many := latencyEvent{}
	for i := range graphWidth + 1 {
		many.samples = append(many.samples, latencySample{int64(i), int64(i)})
	}
	lines := strings.Split(many.graph("command", 100), "\n")
	if len(lines[2]) != graphWidth || len(lines[len(lines)-2]) != 1 {
		t.Errorf("%q", lines)
	}
}
