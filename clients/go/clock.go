package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// clockScenes show a lock that is taken until a time of day (PXAT) while the clock of one node is wrong.
var clockScenes = []library{{"rueidislock", rueidisModule, "single/3", []scene{calm("clock", wrongClock)}}}

const (
	clockWrong = time.Minute     // error of a clock, in either direction
	clockLease = 3 * time.Second // of locks, with a wrong clock
)

// wrongClock sets the clock of the leader wrong, then that of a follower: each is a minute ahead, then behind.
func wrongClock(ctx context.Context) error {
	if err := needs(isLockd, "clock that can be set"); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the nodes may have to be built
	said, err := tell(ctx, "/clocks")
	if err != nil {
		return err
	}
	at := strings.Split(said, ",")
	for _, role := range []string{"leader", "follower"} {
		for _, off := range []time.Duration{clockWrong, -clockWrong} {
			if err := withWrongClock(ctx, at, role, off); err != nil {
				return fmt.Errorf("the clock of the %s is off by %s: %w", role, off, err)
			}
		}
	}
	return nil
}

// withWrongClock shows a lock while the clock of the node with a role is wrong.
func withWrongClock(ctx context.Context, at []string, role string, off time.Duration) error {
	wrong, err := request(ctx, http.MethodGet, "/clocks/leader")
	if err != nil {
		return err
	}
	if role != "leader" {
		wrong = at[(slices.Index(at, wrong)+1)%len(at)]
	}
	query := url.Values{"node": {wrong}, "ms": {fmt.Sprint(off.Milliseconds())}}
	if _, err := tell(ctx, "/clock?"+query.Encode()); err != nil {
		return err
	}
	l := lockScene{wakeMax: pushWake, open: func(i int, name string, lease time.Duration) (locker, error) {
		return openRueidislock(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{at[i%len(at)]}},
		})(i, name, lease)
	}}
	for _, part := range []struct {
		what string
		show func(context.Context) error
	}{{"held", l.held}, {"exclusion", l.exclusion}, {"expiry", l.expiry}} {
		if err := part.show(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}

// held shows that a holder at each node keeps its lock for longer than its lease, and that no other client gets it at
// any node meanwhile.
func (l lockScene) held(ctx context.Context) error {
	const places = 3
	for holder := range places {
		name := freshName("held")
		var all []*rueidisLock
		for i := range places {
			k, err := l.open(holder+i, name, clockLease)
			if err != nil {
				return err
			}
			defer k.die()
			all = append(all, k.(*rueidisLock))
		}
		if err := all[0].lock(ctx); err != nil {
			return err
		}
		if err := nobodyElse(ctx, all[0], all[1:]); err != nil {
			return fmt.Errorf("the holder is at node %d: %w", holder, err)
		}
		if err := all[0].unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nobodyElse fails unless a holder keeps its lock for longer than the lease, and the others do not get it.
func nobodyElse(ctx context.Context, holder *rueidisLock, others []*rueidisLock) error {
	for end := time.Now().Add(clockLease * 3 / 2); time.Now().Before(end); time.Sleep(pollEvery) {
		for _, o := range others {
			if _, free, err := o.locker.TryWithContext(ctx, o.name); err == nil {
				free()
				return errors.New("another got the lock too")
			} else if !errors.Is(err, rueidislock.ErrNotLocked) {
				return err
			}
		}
		if err := holder.held.Err(); err != nil {
			return fmt.Errorf("it lost the lock: %w", err)
		}
	}
	return nil
}
