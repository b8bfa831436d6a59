package keyspace

import (
	"strings"
	"testing"

	"lockd/resp"
)

// What one machine does otherwise than another shows in its digest with the same entry, and
// for ever; what only serves reads, or is refused, does not.
func TestDigest(t *testing.T) {
	at := resp.Stamp{Tick: 1000, Wall: 1_700_000_000_000_000}
	long := strings.Repeat("v", 5000)
	start := func() *Machine {
		m := New(fakeScripts{})
		at.Index = 1
		mustApply(t, m, at, 0, "SET a 1", "RPUSH list x y", "CONFIG SET notify-keyspace-events KEA")
		return m
	}
	apply := func(m *Machine, lines ...string) uint64 {
		at.Index++
		m.Apply(at, []resp.Request{request(0, lines...)})
		return m.Digest()
	}
	for _, tc := range []struct{ one, other string }{
		{"SET a 2", "SET a 3"}, {"SET a 2 PX 100", "SET a 2 PX 101"}, {"SET a " + long + "x", "SET a " + long + "y"},
		{"SET a x" + long, "SET a y" + long}, {"DEL a", "DEL b"}, {"RPUSH list z", "RPUSH list z z"},
		{"LPOP list", "RPOP list"}, {"INCR a", "DECR a"}, {"PUBLISH c m", "PUBLISH c n"}, {"PERSIST a", "PEXPIRE a 1"},
		{"SCRIPT LOAD 'return 1'", "SCRIPT LOAD 'return 2'"}, {"CONFIG SET maxmemory 1gb", "CONFIG SET maxmemory 2gb"},
		{"LOCK l a PX 10 SHARED", "LOCK l b PX 10 SHARED"}, {"LOCK l a PX 10 SHARED", "LOCK l a PX 11 SHARED"}, {"LOCK l a PX 10 SHARED", "LOCK l a PX 10 LIMIT 2"},
		{"LOCK l a PX 10 OWNER x", "LOCK l a PX 10 OWNER y"}, {"LOCK l a PX 10 NOTE x", "LOCK l a PX 10 OWNER x"},
	} {
		m, other := start(), start()
		from := at
		one := apply(m, tc.one)
		at = from
		if apply(other, tc.other) == one {
			t.Errorf("%.40s and %.40s have the same digest", tc.one, tc.other)
		}
		from = at
		one = apply(m, "SET a 9")
		at = from
		if apply(other, "SET a 9") == one {
			t.Errorf("after %.40s and %.40s the difference is forgotten", tc.one, tc.other)
		}
	}
	tick, recall := start(), start()
	tick.Apply(at, nil)
	results, messages := recall.Apply(at, make([]resp.Request, 2))
	if len(results) != 2 || len(results[0].Replies)+len(results[1].Replies)+len(messages) > 0 || tick.Digest() != recall.Digest() {
		t.Error("requests without commands do something")
	}
	m := start()
	before := m.Digest()
	m.View(at, request(0, "GET a", "RANDOMKEY"))
	m.DryRun(at, request(0, "SET a 2 NX"))
	m.DryRun(at, request(0, "SET free 2 NX"))
	if m.Digest() != before {
		t.Error("a read has changed the digest")
	}
}
