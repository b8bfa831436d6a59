// Package wake lets goroutines wait for each other: for a signal, for the next change, for a condition.
package wake

import (
	"context"
	"sync"
	"time"
)

// PollEvery is the interval of Poll.
const PollEvery = 2 * time.Millisecond

// Pauses between two attempts at a request, unless a new leader shows up before. They double from RetryMin to RetryMax.
const (
	RetryMin = 2 * time.Millisecond
	RetryMax = 50 * time.Millisecond
)

// Poll waits until done returns true, and returns false if ctx ends first.
func Poll(ctx context.Context, done func() bool) bool {
	tick := time.NewTicker(PollEvery)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Sleep waits for d, until changed is closed, or until ctx ends.
func Sleep(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-changed:
	case <-ctx.Done():
	}
}

// Pause waits for d; it returns false if stop is closed first.
func Pause(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}

// Signal wakes the one goroutine that waits on a channel of capacity 1. A goroutine that is busy finds the signal
// when it waits next; signals do not add up.
func Signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Broadcast wakes any number of goroutines at each change. A goroutine takes the channel of Next, checks its condition,
// and then waits on the channel: so it misses no change. The zero value is ready to use; all methods may be called
// concurrently.
type Broadcast struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next change; nil: no goroutine waits
}

// Next returns a channel that Notify closes.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

// Notify wakes all goroutines that wait on a channel of Next.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
