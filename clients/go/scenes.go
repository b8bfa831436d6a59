package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Times of the scenes.
const (
	sceneMax    = 90 * time.Second
	workers     = 20
	turns       = 5 // of each worker
	longLease   = 20 * time.Second
	expirySlack = 1500 * time.Millisecond // after a lease: until the next one has noticed
	goesOnAfter = 5 * time.Second         // after a death: turns are taken again
)

// lease returns a lease that a scene lets expire. The next holder releases the lock before this lease expires again,
// which holds unless the machine stops for that long.
func lease() time.Duration {
	if safetyOnly {
		return 6 * time.Second
	}
	return 2 * time.Second
}

// locker is a lock as held by one process of a user: a separate client, and the name of the lock.
type locker interface {
	// lock waits until the lock is held.
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
	// die ends the client as a crash would: nothing is released.
	die()
}

// lockScenes returns the four scenes of a lock library. open makes a client of node i; wakeMax bounds the time from a
// release to the next holder.
func lockScenes(open func(i int, name string, lease time.Duration) (locker, error), wakeMax time.Duration) []scene {
	l := lockScene{open, wakeMax}
	return []scene{
		calm("exclusion", l.exclusion),
		calm("expiry", l.expiry),
		calm("wake", l.wake),
		{"failover", true, func(ctx context.Context, d *death, ready func()) (string, error) {
			return "", l.failover(ctx, d, ready)
		}},
	}
}

type lockScene struct {
	open    func(i int, name string, lease time.Duration) (locker, error)
	wakeMax time.Duration
}

var lockNumber atomic.Int64

// freshName returns an unused name for a lock.
func freshName(what string) string {
	return fmt.Sprintf("go:%s:%d:%d", what, time.Now().UnixNano(), lockNumber.Add(1))
}

// inside detects two holders at once.
type inside struct {
	count   atomic.Int64
	broken  atomic.Bool
	entered atomic.Int64
}

func (i *inside) enter() {
	i.entered.Add(1)
	if i.count.Add(1) != 1 {
		i.broken.Store(true)
	}
}

func (i *inside) leave() { i.count.Add(-1) }

func (l lockScene) exclusion(ctx context.Context) error {
	var in inside
	name := freshName("exclusion")
	errs := make(chan error, workers)
	for w := range workers {
		go func() { errs <- l.work(ctx, &in, w, name, turns) }()
	}
	var all error
	for range workers {
		all = errors.Join(all, <-errs)
	}
	switch {
	case in.broken.Load():
		return errors.Join(errors.New("two held the lock at once"), all)
	case all == nil && in.entered.Load() != workers*turns:
		return fmt.Errorf("%d of %d turns", in.entered.Load(), workers*turns)
	}
	return all
}

func (l lockScene) work(ctx context.Context, in *inside, worker int, name string, turns int) error {
	k, err := l.open(worker, name, longLease)
	if err != nil {
		return err
	}
	defer k.die()
	for range turns {
		if err := k.lock(ctx); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		in.enter()
		time.Sleep(time.Millisecond)
		in.leave()
		if err := k.unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}

func (l lockScene) expiry(ctx context.Context) error {
	name, lease := freshName("expiry"), lease()
	first, err := l.open(0, name, lease)
	if err != nil {
		return err
	}
	second, err := l.open(1, name, lease)
	if err != nil {
		return err
	}
	defer second.die()
	asked := time.Now()
	if err := first.lock(ctx); err != nil {
		return err
	}
	held := time.Now()
	first.die()
	if err := second.lock(ctx); err != nil {
		return fmt.Errorf("the second: %w", err)
	}
	switch took := time.Now(); {
	case took.Sub(held) < lease-held.Sub(asked):
		return fmt.Errorf("the lock was free %s after it was taken for %s", took.Sub(held), lease)
	case took.Sub(held) > lease+expirySlack:
		if err := tooLate("the lock was free only %s after it was taken for %s", took.Sub(held), lease); err != nil {
			return err
		}
	}
	return second.unlock(ctx)
}

func (l lockScene) wake(ctx context.Context) error {
	name := freshName("wake")
	holder, err := l.open(0, name, longLease)
	if err != nil {
		return err
	}
	defer holder.die()
	waiter, err := l.open(1, name, longLease)
	if err != nil {
		return err
	}
	defer waiter.die()
	if err := holder.lock(ctx); err != nil {
		return err
	}
	got := make(chan error, 1)
	var at time.Time
	go func() {
		err := waiter.lock(ctx)
		at = time.Now()
		got <- err
	}()
	select {
	case err := <-got:
		return fmt.Errorf("the waiter did not wait: %w", err)
	case <-time.After(700 * time.Millisecond):
	}
	if err := holder.unlock(ctx); err != nil {
		return err
	}
	released := time.Now()
	if err := <-got; err != nil {
		return err
	}
	if late := at.Sub(released); late > l.wakeMax {
		if err := tooLate("the waiter came %s after the release", late); err != nil {
			return err
		}
	}
	return waiter.unlock(ctx)
}

// failover shows the death of the leader while the lock is held and awaited by many. A worker retries after an error of
// the library, as a program would.
func (l lockScene) failover(ctx context.Context, d *death, ready func()) error {
	if err := needs(isLockd, "failover of a single server"); err != nil {
		return err
	}
	var in inside
	name := freshName("failover")
	var wg sync.WaitGroup
	var turns atomic.Int64
	for w := range workers {
		wg.Go(func() {
			for !d.isOver() && ctx.Err() == nil {
				l.persist(ctx, &in, w, name, &turns)
			}
		})
	}
	ready()
	<-d.struck
	time.Sleep(goesOnAfter)
	before := turns.Load()
	<-d.over
	end := time.Now()
	wg.Wait()
	switch {
	case in.broken.Load():
		return errors.New("two held the lock at once")
	case d.failed != nil:
		return d.failed
	case turns.Load() == before:
		return tooLate("nobody got the lock any more after the leader was killed")
	case time.Since(end) > 2*patience:
		return tooLate("a worker hung for %s", time.Since(end))
	}
	return nil
}

// failoverLease is short, so that turns go on after a worker that could not release; if the machine stopped for that
// long, two workers would be inside.
func failoverLease() time.Duration {
	if safetyOnly {
		return longLease
	}
	return 3 * time.Second
}

// patience bounds a worker's wait at one node: some libraries keep asking a dead node.
const patience = 8 * time.Second

// lockWithin locks within a time. The context must outlive the lock: rueidislock releases when it ends.
func (l lockScene) lockWithin(ctx context.Context, k locker) (end context.CancelFunc, err error) {
	ctx, end = context.WithCancel(ctx)
	patient := time.AfterFunc(patience, end)
	if err = k.lock(ctx); err == nil && !patient.Stop() {
		err = context.DeadlineExceeded
	}
	return end, err
}

// persist takes the lock for a moment. A worker whose node is dead tries the next one, and a release with unknown
// outcome counts as not done.
func (l lockScene) persist(ctx context.Context, in *inside, worker int, name string, turns *atomic.Int64) {
	for try := 0; ctx.Err() == nil; try++ {
		k, err := l.open(worker+try, name, failoverLease())
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		end, err := l.lockWithin(ctx, k)
		if err == nil {
			in.enter()
			time.Sleep(5 * time.Millisecond)
			in.leave()
			turns.Add(1)
			_ = k.unlock(ctx) // a lease that is not released expires
		}
		end()
		k.die()
		if err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
