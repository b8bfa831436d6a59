package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const lease = 30 * time.Second

// fakeServer answers by a script: each call takes the next answer. An answer is held back for its time,
// or until the call's context ends.
type fakeServer struct {
	start time.Time

	mu    sync.Mutex
	plan  []answer
	calls []string // "0s LOCK 1m0s"
	open  int      // calls that wait
}

type answer struct {
	after time.Duration
	fence int64
	err   error
}

// never is an answer that does not come.
const never = 1000 * time.Hour

func (f *fakeServer) call(ctx context.Context, what string) (int64, error) {
	f.mu.Lock()
	f.calls = append(f.calls, fmt.Sprintf("%s %s", time.Since(f.start), what))
	a := answer{err: errors.New("the plan is over")}
	if len(f.plan) > 0 {
		a, f.plan = f.plan[0], f.plan[1:]
	}
	f.open++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	}()
	select {
	case <-time.After(a.after):
		return a.fence, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (f *fakeServer) Lock(ctx context.Context, wait time.Duration) (int64, error) {
	return f.call(ctx, "LOCK "+wait.String())
}

func (f *fakeServer) Renew(ctx context.Context) error {
	_, err := f.call(ctx, "RENEW")
	return err
}

func (f *fakeServer) Unlock(ctx context.Context) error {
	_, err := f.call(ctx, "UNLOCK")
	return err
}

// story plays a plan in virtual time.
func story(t *testing.T, plan []answer, play func(h *Holder) error, calls []string, err string) *fakeServer {
	t.Helper()
	f := &fakeServer{start: time.Now(), plan: plan}
	got := "ok"
	if e := play(New(f, lease)); e != nil {
		got = e.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got != err {
		t.Errorf("it ends with %q, want %q", got, err)
	}
	if !slices.Equal(f.calls, calls) {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(f.calls, "\n"), strings.Join(calls, "\n"))
	}
	return f
}

var errBroken = errors.New("connection reset")

func TestAcquire(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plan  []answer
		wait  time.Duration
		calls []string
		err   string
	}{
		{"at once", []answer{{fence: 7}}, time.Minute, []string{"0s LOCK 1m0s"}, "ok"},
		{"in vain", []answer{{after: time.Second, err: ErrNotHeld}}, time.Second, []string{"0s LOCK 1s"}, ErrNotHeld.Error()},
		{"refused", []answer{{err: RefusedError{"WRONGTYPE"}}}, time.Second, []string{"0s LOCK 1s"}, "WRONGTYPE"},
		{"the connection breaks", []answer{{after: time.Second, err: errBroken}, {fence: 7}}, time.Minute,
			[]string{"0s LOCK 1m0s", "1.2s LOCK 58.8s"}, "ok"},
		{"no server", []answer{{err: errBroken}, {err: errBroken}, {err: errBroken}}, 300 * time.Millisecond,
			[]string{"0s LOCK 300ms", "200ms LOCK 100ms", "400ms LOCK 0s"}, errBroken.Error()},
		{"a server hangs, and another goes on in its place",
			[]answer{{after: never}, {after: 2 * time.Second, fence: 7}}, time.Minute,
			[]string{"0s LOCK 1m0s", "5s LOCK 55s"}, "ok"},
		{"the one whose place was taken over says so",
			[]answer{{after: 5100 * time.Millisecond, err: errors.New("another connection waits")}, {after: 2 * time.Second, fence: 7}},
			time.Minute, []string{"0s LOCK 1m0s", "5s LOCK 55s"}, "ok"},
		{"in vain is what the last one says",
			[]answer{{after: 6 * time.Second, err: ErrNotHeld}, {after: 2 * time.Second, fence: 7}},
			time.Minute, []string{"0s LOCK 1m0s", "5s LOCK 55s"}, "ok"},
		{"all hang", []answer{{after: never}, {after: never}, {after: never}}, 2 * time.Second,
			[]string{"0s LOCK 2s", "5s LOCK 0s"}, errNoAnswer.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				story(t, tt.plan, func(h *Holder) error {
					fence, err := h.Acquire(t.Context(), tt.wait)
					if err == nil && fence != 7 {
						t.Errorf("fence %d", fence)
					}
					if left := time.Until(h.until); err == nil && (left <= lease-lease/renewals || left > lease) {
						t.Errorf("the lease is thought to last for %s", left)
					}
					return err
				}, tt.calls, tt.err)
			})
		})
	}
}

// A long wait behind servers that hang has at most two requests under way.
func TestAcquireIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{start: time.Now(), plan: slices.Repeat([]answer{{after: never}}, 1000)}
		ended := make(chan error)
		go func() {
			_, err := New(f, lease).Acquire(t.Context(), 10*time.Minute)
			ended <- err
		}()
		open := func(want int) {
			t.Helper()
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.open != want {
				t.Errorf("%d tries on their way, want %d", f.open, want)
			}
		}
		time.Sleep(time.Minute)
		open(2)
		if err := <-ended; !errors.Is(err, errNoAnswer) {
			t.Error(err)
		}
		open(0)
	})
}

// A late answer tells nothing about the lease: the holder renews it.
func TestAcquireAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		story(t, []answer{{after: 4 * time.Second, fence: 7}}, func(h *Holder) error {
			h.lease = 9 * time.Second // a try is asked again after five seconds at the latest
			h.server.(*fakeServer).plan = append(h.server.(*fakeServer).plan, answer{fence: 7})
			_, err := h.Acquire(t.Context(), time.Minute)
			if left := time.Until(h.until); left != h.lease {
				t.Errorf("the lease is thought to last for %s", left)
			}
			return err
		}, []string{"0s LOCK 1m0s", "4s LOCK 56s"}, "ok")
	})
}

func TestAcquireIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		story(t, []answer{{after: never}}, func(h *Holder) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := h.Acquire(ctx, time.Minute)
			return err
		}, []string{"0s LOCK 1m0s"}, context.DeadlineExceeded.Error())
	})
}

func TestKeep(t *testing.T) {
	const reserve = 10 * time.Second
	for _, tt := range []struct {
		name  string
		plan  []answer
		calls []string
		err   string
		at    time.Duration
	}{
		{"three times in a lease", []answer{{}, {}, {}},
			[]string{"10s RENEW", "20s RENEW", "30s RENEW"}, "ok", 35 * time.Second},
		{"an answer that takes its time", []answer{{after: time.Second}, {}, {}},
			[]string{"10s RENEW", "21s RENEW", "31s RENEW"}, "ok", 35 * time.Second},
		{"not held any more", []answer{{}, {err: ErrNotHeld}},
			[]string{"10s RENEW", "20s RENEW"}, "the lock is lost: " + ErrNotHeld.Error(), 20 * time.Second},
		{"another type", []answer{{err: RefusedError{"WRONGTYPE"}}},
			[]string{"10s RENEW"}, "the lock is lost: WRONGTYPE", 10 * time.Second},
		{"an outage", []answer{{after: time.Second, err: errBroken}, {after: never}, {}, {}},
			[]string{"10s RENEW", "11.2s RENEW", "16.4s RENEW", "26.4s RENEW"}, "ok", 35 * time.Second},
		{"it ends before the lease does", []answer{{}, {after: never}, {after: never}},
			[]string{"10s RENEW", "20s RENEW", "25.2s RENEW"},
			"the lock is lost: it could not be renewed for 19s: context deadline exceeded", 29 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				story(t, append([]answer{{fence: 7}}, tt.plan...), func(h *Holder) error {
					if _, err := h.Acquire(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					h.server.(*fakeServer).calls = nil
					ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
					defer cancel()
					return h.Keep(ctx, reserve)
				}, tt.calls, tt.err)
				if got := time.Since(start); got != tt.at {
					t.Errorf("it returns after %s, want %s", got, tt.at)
				}
			})
		})
	}
}

// lateServer answers RENEW a while after the end of its context.
type lateServer struct {
	Server
	late time.Duration
}

func (l lateServer) Renew(ctx context.Context) error {
	err := l.Server.Renew(ctx)
	time.Sleep(l.late)
	return err
}

// A program whose lease cannot be renewed has all of its grace, and is killed a margin before the lease ends; one whose
// lock is gone has its grace.
func TestKilledBeforeTheLeaseEnds(t *testing.T) {
	const grace = 10 * time.Second
	for _, tt := range []struct {
		lease     time.Duration
		grace     time.Duration
		late      time.Duration
		renewal   answer
		told, end time.Duration // SIGTERM, SIGKILL
	}{
		{lease, grace, 0, answer{after: never}, 19 * time.Second, 29 * time.Second},
		{lease, grace, 0, answer{err: errBroken}, 19 * time.Second, 29 * time.Second},
		{lease, grace, 3 * time.Second, answer{after: never}, 22 * time.Second, 29 * time.Second},
		{lease, 0, 0, answer{after: never}, 29 * time.Second, 29 * time.Second},
		{time.Second, 400 * time.Millisecond, 0, answer{after: never}, 500 * time.Millisecond, 900 * time.Millisecond},
		{lease, grace, 0, answer{err: ErrNotHeld}, 10 * time.Second, 20 * time.Second},
		{lease, 14 * time.Second, 9 * time.Second, answer{err: ErrNotHeld}, 19 * time.Second, 33 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			f := &fakeServer{start: begun, plan: append([]answer{{fence: 7}}, slices.Repeat([]answer{tt.renewal}, 1000)...)}
			h := New(lateServer{f, tt.late}, tt.lease)
			if _, err := h.Acquire(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			lost := h.Keep(t.Context(), tt.grace)
			told := time.Since(begun)
			end := told + h.patience(lost, tt.grace)
			soon := func(got, want time.Duration) bool { return got <= want && got >= want-2*retryPause }
			if !soon(told, tt.told) || !soon(end, tt.end) {
				t.Errorf("%+v: told to end after %s, killed after %s: %v", tt, told, end, lost)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plan  []answer
		calls []string
		err   string
	}{
		{"at once", []answer{{}}, []string{"0s UNLOCK"}, "ok"},
		{"not held", []answer{{err: ErrNotHeld}}, []string{"0s UNLOCK"}, ErrNotHeld.Error()},
		{"the answer was lost", []answer{{err: errBroken}, {err: ErrNotHeld}}, []string{"0s UNLOCK", "200ms UNLOCK"}, "ok"},
		{"no server", []answer{{after: never}}, []string{"0s UNLOCK"}, context.DeadlineExceeded.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				story(t, tt.plan, func(h *Holder) error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					return h.Release(ctx)
				}, tt.calls, tt.err)
			})
		})
	}
}
