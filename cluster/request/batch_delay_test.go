package request

import (
	"testing"
	"time"
)

// The next entry waits for the clients of the last one, but not for long, not for
// nobody, and not again soon after they did not come.
func TestBatchDelay(t *testing.T) {
	const took = time.Millisecond
	now := time.Hour
	d := entryDelay
	if left := d.left(1, now); left != 0 {
		t.Errorf("before the first entry: it waits %s", left)
	}
	d.batchDone(30, 20, took, now)
	for waiting, want := range map[int]time.Duration{0: 0, 1: entryDelay.most, 45: entryDelay.most, 46: 0, 50: 0} {
		if left := d.left(waiting, now); left != want {
			t.Errorf("%d of 50 are back: it waits %s, want %s", waiting, left, want)
		}
	}
	d.batchDone(1, 0, took, now)
	if left := d.left(1, now); left != 0 {
		t.Errorf("a client alone: it waits %s", left)
	}
	d.batchDone(50, 0, 100*time.Microsecond, now)
	if left := d.left(1, now); left != 50*time.Microsecond {
		t.Errorf("after a quick entry: it waits %s", left)
	}
	if left := d.left(1, now+entryDelay.most); left > 0 {
		t.Errorf("the time is up: it waits %s", left)
	}
	for i := range delaySkips {
		d.batchDone(50, 0, took, now)
		if left := d.left(1, now); left != 0 {
			t.Errorf("entry %d after a wait in vain: it waits %s", i+1, left)
		}
	}
	d.batchDone(50, 0, took, now)
	if left := d.left(1, now); left != entryDelay.most {
		t.Errorf("after some entries: it waits %s, want %s", left, entryDelay.most)
	}
}
