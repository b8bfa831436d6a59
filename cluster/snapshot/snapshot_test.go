package snapshot

import (
	"testing"
	"time"

	"lockd/cluster/clock"
)

// A snapshot is due after a number of entries or bytes or an amount of work; of a large state, not before the log is
// worth its cost.
func TestSnapshotIsDue(t *testing.T) {
	const ms, mib = int64(time.Millisecond), 1 << 20
	for _, tt := range []struct {
		name                 string
		entries, bytes       uint64
		work, cost           int64
		last                 uint64 // bytes of the last one
		exposed, asked, want bool
	}{
		{name: "nothing"},
		{name: "entries", entries: 10, want: true},
		{name: "too few entries", entries: 9},
		{name: "entries without work, large state", entries: 1000, work: 49 * ms, cost: 100 * ms},
		{name: "entries with work, large state", entries: 10, work: 50 * ms, cost: 100 * ms, want: true},
		{name: "bytes", bytes: mib, want: true},
		{name: "bytes, large state", bytes: 3 * mib, last: 4 * mib},
		{name: "as many bytes as the state", bytes: 4 * mib, last: 4 * mib, cost: 1 << 40, want: true},
		{name: "work", work: 2000 * ms, want: true},
		{name: "work, large state", work: 3999 * ms, cost: 1000 * ms},
		{name: "much work, large state", work: 4000 * ms, cost: 1000 * ms, want: true},
		{name: "no spare", exposed: true, cost: 1 << 40, want: true},
		{name: "asked for", asked: true, last: 1 << 40, cost: 1 << 40, want: true},
	} {
		s := New(Config{EntriesMax: 10, BytesMax: mib, Clock: clock.NewSystem()})
		s.GrownEntries.Store(tt.entries)
		s.GrownBytes.Store(tt.bytes)
		s.grownWork.Store(tt.work)
		s.Cost.Store(tt.cost)
		s.size.Store(tt.last)
		if tt.exposed {
			s.Expose()
		}
		if tt.asked {
			s.Ask()
		}
		if got := s.wanted(); got != tt.want {
			t.Errorf("%s: due %v", tt.name, got)
		}
	}
}
