// Package hold keeps a lock of lockd while a program runs: it acquires the lock, renews its lease, reports its loss,
// and releases it. A Command is the program with all processes that it starts.
package hold

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Server is the cluster as a Holder sees it: LOCK, RENEW and UNLOCK for one key and token. Calls end
// soon after their context does. Several may be on their way at a time.
type Server interface {
	// Lock waits in line for up to wait, or goes on waiting there, and returns the fence.
	Lock(ctx context.Context, wait time.Duration) (fence int64, err error)
	// Renew renews the lease.
	Renew(ctx context.Context) error
	// Unlock releases the lock, or leaves its line.
	Unlock(ctx context.Context) error
}

// ErrNotHeld is a server's word that the token does not hold the lock: after Lock, that it was not its
// turn in time.
var ErrNotHeld = errors.New("the lock is not held")

var errNoAnswer = errors.New("no server answers")

// RefusedError is an answer that another try would get as well, such as WRONGTYPE.
type RefusedError struct{ Answer string }

func (e RefusedError) Error() string { return e.Answer }

// LostError reports that the lock can no longer be relied on. The lock may still exist for a moment.
type LostError struct{ Why error }

func (e LostError) Error() string { return "the lock is lost: " + e.Why.Error() }

// Unwrap returns why.
func (e LostError) Unwrap() error { return e.Why }

const (
	// askAgainEvery is the interval at which a waiter asks again, at another server. The first server may hang, and
	// its clients lose their place after ten seconds; asking again keeps the place.
	askAgainEvery = 5 * time.Second
	// retryPause is the pause before a request without an answer is repeated.
	retryPause = 200 * time.Millisecond
	// answerMax bounds the delay of an answer after the end of its wait.
	answerMax = 5 * time.Second
	// renewals is the number of renewals per lease.
	renewals = 3
	// marginPart and marginMax bound Margin: a part of the lease, and no more than that.
	marginPart = 10
	marginMax  = time.Second
)

// Margin returns how long before the end of a lease that cannot be renewed its program is killed: a process dies a
// moment after its SIGKILL, and the timer for that is late on a busy machine.
func Margin(lease time.Duration) time.Duration { return min(lease/marginPart, marginMax) }

// Holder is one holder of one lock. Its methods must not be called concurrently.
type Holder struct {
	server Server
	lease  time.Duration
	until  time.Time // the lock is held until then at least, by this machine's clock
}

// New returns a holder without a lock; lease is the lease that the server's LOCK and RENEW set.
func New(server Server, lease time.Duration) *Holder { return &Holder{server: server, lease: lease} }

// attempt is an answer to LOCK.
type attempt struct {
	number int
	sent   time.Time
	fence  int64
	err    error
}

// Acquire takes the lock within wait and returns its fence. If it cannot, the error is ErrNotHeld, a
// RefusedError, the context's, or what went wrong at the last. Release
// is to be called in any case: a try may have come through whose answer has not.
func (h *Holder) Acquire(ctx context.Context, wait time.Duration) (fence int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end, answers, newest := time.Now().Add(wait), make(chan attempt), 0
	older, newer := func() {}, func() {} // end the tries on their way, which are two at the most
	ask := func() {
		older()
		var try context.Context
		older = newer
		try, newer = context.WithCancel(ctx)
		newest++
		go h.ask(try, newest, max(0, time.Until(end)), answers)
	}
	again, silence := time.NewTicker(askAgainEvery), time.After(wait+answerMax)
	defer again.Stop()
	ask()
	for retry := (<-chan time.Time)(nil); ; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-silence:
			return 0, errNoAnswer
		case <-retry:
			retry = nil
			ask()
		case <-again.C:
			ask()
		case a := <-answers:
			switch over := !time.Now().Before(end); {
			case a.err == nil && time.Since(a.sent) < h.lease/renewals:
				h.until = a.sent.Add(h.lease)
				return a.fence, nil
			case a.err == nil: // the start of the lease is unknown: LOCK by the holder renews it
				ask()
			case errors.As(a.err, &RefusedError{}):
				return 0, a.err
			case a.number < newest: // another has taken its place over
			case errors.Is(a.err, ErrNotHeld) || over:
				return 0, a.err
			default:
				retry = time.After(retryPause)
			}
		}
	}
}

// ask sends one LOCK.
func (h *Holder) ask(ctx context.Context, number int, wait time.Duration, answers chan<- attempt) {
	a := attempt{number: number, sent: time.Now()}
	a.fence, a.err = h.server.Lock(ctx, wait)
	select {
	case answers <- a:
	case <-ctx.Done():
	}
}

// Keep renews the lease until ctx ends, and then returns nil. It returns a LostError when the lock is lost, and also
// if the lease cannot be renewed and only reserve of it is left before its Margin: the caller has that time to end the
// work that the lock protects.
func (h *Holder) Keep(ctx context.Context, reserve time.Duration) error {
	reserve += Margin(h.lease)
	last := h.until.Add(-reserve)
	for pause := time.Until(h.until) - h.lease + h.lease/renewals; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		sent := time.Now()
		try, cancel := context.WithDeadline(ctx, earlier(last, sent.Add(h.lease/(2*renewals))))
		err := h.server.Renew(try)
		cancel()
		switch {
		case err == nil:
			h.until = sent.Add(h.lease)
			last, pause = h.until.Add(-reserve), h.lease/renewals
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrNotHeld) || errors.As(err, &RefusedError{}):
			return LostError{err}
		case !time.Now().Add(retryPause).Before(last):
			return LostError{fmt.Errorf("it could not be renewed for %s: %w", h.since().Round(time.Second), err)}
		default:
			pause = retryPause
		}
	}
}

// patience returns how long a program may still take to end when Keep has returned lost: grace, and where the lease
// lasts on as far as is known, no longer than until its Margin begins.
func (h *Holder) patience(lost error, grace time.Duration) time.Duration {
	if errors.Is(lost, ErrNotHeld) || errors.As(lost, &RefusedError{}) {
		return grace
	}
	return min(grace, time.Until(h.until)-Margin(h.lease))
}

// since is for how long the lock was not renewed.
func (h *Holder) since() time.Duration { return time.Since(h.until.Add(-h.lease)) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Release releases the lock, or leaves its line. It retries until a server answers or ctx ends. ErrNotHeld means that
// the lock was no longer held; it is not returned for a retry, because the first try may have succeeded.
func (h *Holder) Release(ctx context.Context) error {
	for first := true; ; first = false {
		err := h.server.Unlock(ctx)
		switch {
		case errors.Is(err, ErrNotHeld) && !first:
			return nil
		case err == nil || errors.Is(err, ErrNotHeld) || errors.As(err, &RefusedError{}):
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}
