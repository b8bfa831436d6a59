package cluster

import (
	"testing"
	"time"
)

// The next entry waits for the clients of the last one, but not for long, not for
// nobody, and not again soon after they did not come.
func TestGathering(t *testing.T) {
	const took = time.Millisecond
	now := time.Hour
	g := gatherEntry
	if left := g.left(1, now); left != 0 {
		t.Errorf("before the first entry: it waits %s", left)
	}
	g.settled(30, 20, took, now)
	for waiting, want := range map[int]time.Duration{0: 0, 1: gatherEntry.most, 45: gatherEntry.most, 46: 0, 50: 0} {
		if left := g.left(waiting, now); left != want {
			t.Errorf("%d of 50 are back: it waits %s, want %s", waiting, left, want)
		}
	}
	g.settled(1, 0, took, now)
	if left := g.left(1, now); left != 0 {
		t.Errorf("a client alone: it waits %s", left)
	}
	g.settled(50, 0, 100*time.Microsecond, now)
	if left := g.left(1, now); left != 50*time.Microsecond {
		t.Errorf("after a quick entry: it waits %s", left)
	}
	if left := g.left(1, now+gatherEntry.most); left > 0 {
		t.Errorf("the time is up: it waits %s", left)
	}
	for i := range gatherSkipAfter {
		g.settled(50, 0, took, now)
		if left := g.left(1, now); left != 0 {
			t.Errorf("entry %d after a wait in vain: it waits %s", i+1, left)
		}
	}
	g.settled(50, 0, took, now)
	if left := g.left(1, now); left != gatherEntry.most {
		t.Errorf("after some entries: it waits %s, want %s", left, gatherEntry.most)
	}
}
