package value

import (
	"strings"
	"testing"
)

// Nodes are cut by bytes as well as by entries, as a Redis 7.0 has cut the same stream.
func TestWholeNodes(t *testing.T) {
	s := NewStream(1)
	for i := range uint64(121) {
		s.Add(NewItem(StreamID{i + 1, 1}, []string{"event", "waiting", "jobId", strings.Repeat("j", 60)}))
	}
	redis := NodeLimits{Entries: 100, Bytes: 4096}
	all := func(int64) bool { return true }
	for _, c := range []struct {
		n    int
		lim  NodeLimits
		want int
	}{
		{21, redis, 0}, {61, redis, 51}, {76, redis, 51}, {116, redis, 102}, {120, redis, 102},
		{121, redis, 121},
		{120, NodeLimits{Entries: 100}, 100},
		{120, NodeLimits{}, 0},
		{120, NodeLimits{Entries: 7, Bytes: 1}, 120},
		{120, NodeLimits{Entries: 7}, 119},
	} {
		if got, ok := s.WholeNodes(c.n, c.lim, nil, all); got != c.want || !ok {
			t.Errorf("of %d with %+v: %d, %v, want %d", c.n, c.lim, got, ok, c.want)
		}
	}
	more := NewItem(StreamID{500, 0}, []string{"x", strings.Repeat("y", 5000)})
	if got, _ := s.WholeNodes(121, redis, &more, all); got != 121 {
		t.Errorf("before an entry that begins a node: %d", got)
	}
	asked := 0
	if _, ok := s.WholeNodes(100, redis, nil, func(int64) bool { asked++; return asked < 10 }); ok || asked != 10 {
		t.Errorf("it went on after %d entries", asked)
	}
}
