package command

import (
	"testing"

	"lockd/keyspace/history"
)

// LOCKS HISTORY stops looking once what it has found makes a reply that is too large, or a piece is full.
func TestHistoryStopsEarly(t *testing.T) {
	for _, tt := range []struct {
		o    locksOptions
		want int // events that are looked at
	}{
		{locksOptions{count: locksCountMax, toMs: maxInt}, eventsOfReplyMax + 1},
		{locksOptions{count: locksCountMax, toMs: maxInt, paged: true}, eventsOfReplyMax + 1},
		{locksOptions{count: 10, toMs: maxInt, paged: true}, 11},
		{locksOptions{count: 10, toMs: maxInt}, 2 * eventsOfReplyMax},
	} {
		f, n := foundEvents{o: &tt.o}, 0
		for more := true; more && n < 2*eventsOfReplyMax; n++ {
			more = f.add(&history.Event{Number: uint64(n)})
		}
		if n != tt.want || f.tooMany() != (tt.o.count == locksCountMax) {
			t.Errorf("%+v: %d events are looked at, want %d", tt.o, n, tt.want)
		}
	}
}
