package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lockd/bench/load"
)

// Numbers of clients of the loads during which the servers do something else.
const (
	steadyClients = 10 // leave the machine room, so that what is seen is not the queue
	busyClients   = 50
)

// measureMemory compares a node that holds locks with a redis-server that holds the same.
func measureMemory(ctx context.Context, s *stage) ([]finding, error) {
	all, err := s.lockd(ctx, "lockd", 3)
	if err != nil {
		return nil, err
	}
	first, err := leader(ctx, all)
	if err != nil {
		return nil, err
	}
	redis, err := s.redis(ctx, "redis")
	if err != nil {
		return nil, err
	}
	locks := load.Locks{Count: s.Keys}
	for _, p := range []*proc{first, redis} {
		if err := locks.Take(ctx, p.addr, s.progress); err != nil {
			return nil, err
		}
	}
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	largest, err := largestResident(all)
	if err != nil {
		return nil, err
	}
	peer, err := redis.resident()
	if err != nil {
		return nil, err
	}
	return []finding{{
		float64(largest) / float64(peer),
		fmt.Sprintf("%d keys: lockd %d MiB, %d bytes a key (the largest of 3 nodes); redis %d MiB, %d",
			s.Keys, largest/mib, largest/s.Keys, peer/mib, peer/s.Keys),
	}}, nil
}

// largestResident returns the largest resident memory of the processes, in bytes.
func largestResident(procs []*proc) (largest int, err error) {
	for _, p := range procs {
		n, err := p.resident()
		if err != nil {
			return 0, err
		}
		largest = max(largest, n)
	}
	return largest, nil
}

const (
	// fewKeys is the number of keys that many keys are compared with.
	fewKeys = 1000
	// mostKeysTimes multiplies the length of a round with the most keys. A node with ten million keys collects garbage
	// for seconds, at intervals of seconds, so a short round would contain all or none of three nodes' collections.
	mostKeysTimes = 5
	// calmTries bounds the repetitions of a round in which a snapshot was taken. If every round has a snapshot,
	// snapshots belong to the load.
	calmTries = 5
)

// measureKeys compares a cluster with more and more keys with one that has few keys, in turn, so that a drift of the
// machine is not taken for a cost of the keys. With the most keys, a round with a snapshot does not count:
// measureSnapshot measures their cost.
func measureKeys(ctx context.Context, s *stage) ([]finding, error) {
	few, err := s.lockd(ctx, "few", 3)
	if err != nil {
		return nil, err
	}
	many, err := s.lockd(ctx, "many", 3)
	if err != nil {
		return nil, err
	}
	fill := traffic{"set", busyClients, fewKeys, false, s.Time}
	if _, err := s.measure(ctx, few, fill); err != nil {
		return nil, err
	}
	cost, steps := 0.0, []step{}
	for _, n := range keySizes(s.MostKeys) {
		fill.keys = n
		if _, err := s.measure(ctx, many, fill); err != nil {
			return nil, err
		}
		length, tries := s.Time, 1
		if n == s.MostKeys {
			length, tries = mostKeysTimes*s.Time, calmTries
		}
		var a, b []load.Sample
		for range s.Rounds {
			if _, err := saved(ctx, many); err != nil {
				return nil, err
			}
			x, err := s.measure(ctx, few, traffic{"set", busyClients, fewKeys, true, length})
			if err != nil {
				return nil, err
			}
			y, err := s.measureCalm(ctx, many, traffic{"set", busyClients, n, true, length}, tries)
			if err != nil {
				return nil, err
			}
			a, b = append(a, x), append(b, y)
		}
		if len(steps) == 0 {
			steps = append(steps, step{strconv.Itoa(fewKeys), load.Medians(a)})
		}
		steps = append(steps, step{strconv.Itoa(n), load.Medians(b)})
		cost = load.Medians(a).PerSecond / load.Medians(b).PerSecond
	}
	s.show(fmt.Sprintf("set with %d clients, by number of keys", busyClients), steps...)
	return []finding{{cost, fmt.Sprintf("%d keys, in turn with a cluster of %d", s.MostKeys, fewKeys)}}, nil
}

// measureCalm measures a load while no node takes a snapshot, in up to tries tries.
func (s *stage) measureCalm(ctx context.Context, nodes []*proc, l traffic, tries int) (sample load.Sample, err error) {
	for try := range tries {
		if try > 0 {
			fmt.Fprintln(s.progress, "a snapshot fell into this round: it does not count")
		}
		before, err := saved(ctx, nodes)
		if err != nil {
			return sample, err
		}
		if sample, err = s.measure(ctx, nodes, l); err != nil {
			return sample, err
		}
		after, err := saved(ctx, nodes)
		if err != nil || after == before {
			return sample, err
		}
	}
	return sample, nil
}

// saved waits until no node takes a snapshot, and returns a number that grows with each that was taken.
func saved(ctx context.Context, nodes []*proc) (taken int, err error) {
	for _, p := range nodes {
		err := p.await(ctx, func(ctx context.Context) error {
			saving, err := figure(ctx, p, "persistence", "rdb_bgsave_in_progress")
			if err == nil && saving != 0 {
				err = errors.New("a snapshot is under way")
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		last, err := figure(ctx, p, "persistence", "rdb_last_save_time")
		if err != nil {
			return 0, err
		}
		taken += last // a time in seconds
	}
	return taken, nil
}

// keySizes returns the numbers of keys up to the largest.
func keySizes(largest int) []int {
	var all []int
	for _, n := range []int{100_000, 1_000_000} {
		if n < largest {
			all = append(all, n)
		}
	}
	return append(all, largest)
}

// measureSnapshot compares a load with the same load while the leader takes one snapshot after the other.
func measureSnapshot(ctx context.Context, s *stage) ([]finding, error) {
	all, err := s.lockd(ctx, "lockd", 3)
	if err != nil {
		return nil, err
	}
	first, err := leader(ctx, all)
	if err != nil {
		return nil, err
	}
	l := traffic{workload: "set", clients: busyClients, keys: s.Keys, length: s.Time}
	if _, err := s.measure(ctx, all, l); err != nil { // keep the filling out of the measured values
		return nil, err
	}
	l.hasKeys = true
	var without, with []load.Sample
	taken := 0
	for range s.Rounds {
		if err := takeSnapshots(ctx, all...); err != nil { // so that none is due
			return nil, err
		}
		x, err := s.measure(ctx, all, l)
		if err != nil {
			return nil, err
		}
		var y load.Sample
		n, err := snapshotsDuring(ctx, first, func() (err error) {
			y, err = s.measure(ctx, all, l)
			return err
		})
		if err != nil {
			return nil, err
		}
		without, with, taken = append(without, x), append(with, y), taken+n
	}
	a, b := load.Medians(without), load.Medians(with)
	s.show(
		fmt.Sprintf("set with %d clients and %d keys", busyClients, s.Keys),
		step{"without", a},
		step{"with snapshots", b},
	)
	return []finding{{
		ms(b.P999 - a.P999),
		fmt.Sprintf("p99.9 %.2f ms without, %.2f ms with %d snapshots in %d runs of %s",
			ms(a.P999), ms(b.P999), taken, s.Rounds, s.Time),
	}}, nil
}

func takeSnapshots(ctx context.Context, nodes ...*proc) error {
	for _, p := range nodes {
		if _, err := load.Ask(ctx, p.addr, "LOCKD", "SNAPSHOT"); err != nil {
			return err
		}
	}
	return nil
}

// snapshotsDuring has the node take snapshots, one after the other, while f runs. It returns their number.
func snapshotsDuring(ctx context.Context, p *proc, f func() error) (taken int, err error) {
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-over:
				ended <- nil
				return
			default:
			}
			if err := takeSnapshots(ctx, p); err != nil {
				ended <- err
				return
			}
			taken++
		}
	}()
	err = f()
	close(over)
	if e := <-ended; err == nil {
		err = e
	}
	return taken, err
}

// restarts is the number of times that a node is killed; the slowest start counts.
const restarts = 3

// measureRestart kills a node that is a cluster of its own. No other node can answer for it, so an answer means that it
// has read its data from its disk and has elected itself.
func measureRestart(ctx context.Context, s *stage) ([]finding, error) {
	all, err := s.lockd(ctx, "lockd", 1)
	if err != nil {
		return nil, err
	}
	p, locks := all[0], load.Locks{Count: s.Keys}
	if err := locks.Take(ctx, p.addr, s.progress); err != nil {
		return nil, err
	}
	slowest, detail := 0.0, fmt.Sprintf("%d keys, a cluster of one, the slowest of:", s.Keys)
	for range restarts {
		p.Kill()
		began := time.Now()
		if err := p.start(); err != nil {
			return nil, err
		}
		if err := p.await(ctx, func(ctx context.Context) error { return holds(ctx, p, locks, s.Keys-1) }); err != nil {
			return nil, err
		}
		took := time.Since(began).Seconds()
		slowest, detail = max(slowest, took), fmt.Sprintf("%s %.2f s", detail, took)
	}
	return []finding{{slowest, detail}}, nil
}

// holds asks a node for PING, and for the i-th lock.
func holds(ctx context.Context, p *proc, locks load.Locks, i int) error {
	if _, err := load.Ask(ctx, p.addr, "PING"); err != nil {
		return err
	}
	token, err := load.Ask(ctx, p.addr, "GET", locks.Key(i))
	if err == nil && token[0] != locks.Token(i) {
		err = fmt.Errorf("lock %s is held by %q", locks.Key(i), token[0])
	}
	return err
}

// measureExpiry compares a load with the same load while locks expire, all in the same millisecond.
func measureExpiry(ctx context.Context, s *stage) ([]finding, error) {
	all, err := s.lockd(ctx, "lockd", 3)
	if err != nil {
		return nil, err
	}
	var without, with []load.Sample
	for round := range s.Rounds {
		l := traffic{"set", steadyClients, fewKeys, round > 0, s.Time}
		x, err := s.measure(ctx, all, l)
		if err != nil {
			return nil, err
		}
		l.hasKeys = true
		y, err := s.expire(ctx, all, l)
		if err != nil {
			return nil, err
		}
		without, with = append(without, x), append(with, y)
	}
	a, b := load.Medians(without), load.Medians(with)
	s.show(
		fmt.Sprintf("set with %d clients", steadyClients),
		step{"without", a},
		step{fmt.Sprintf("%d keys expire", s.Expiring), b},
	)
	return []finding{{
		ms(b.Max - a.Max),
		fmt.Sprintf("slowest %.1f ms without, %.1f ms while %d keys expire (medians of %d runs)",
			ms(a.Max), ms(b.Max), s.Expiring, s.Rounds),
	}}, nil
}

// takeRate is the least number of locks per second that a slow machine must take.
const takeRate = 10_000

// expire measures a load in the middle of which locks expire, and checks that they did.
func (s *stage) expire(ctx context.Context, nodes []*proc, l traffic) (load.Sample, error) {
	first, err := leader(ctx, nodes)
	if err != nil {
		return load.Sample{}, err
	}
	taking := time.Second + time.Duration(s.Expiring)*time.Second/takeRate
	begin := time.Now().Add(taking)
	locks := load.Locks{Count: s.Expiring, Until: begin.Add(l.length / 2)}
	if err := locks.Take(ctx, first.addr, s.progress); err != nil {
		return load.Sample{}, err
	}
	if time.Now().After(begin) {
		return load.Sample{}, fmt.Errorf("taking %d locks took longer than %s: they expire too early",
			s.Expiring, taking)
	}
	if err := size(ctx, first, l.keys+s.Expiring); err != nil {
		return load.Sample{}, err
	}
	if err := pause(ctx, time.Until(begin)); err != nil {
		return load.Sample{}, err
	}
	sample, err := s.measure(ctx, nodes, l)
	if err != nil {
		return load.Sample{}, err
	}
	return sample, size(ctx, first, l.keys)
}

// size fails unless the node has the wanted number of keys.
func size(ctx context.Context, p *proc, want int) error {
	got, err := load.Ask(ctx, p.addr, "DBSIZE")
	if err == nil && got[0] != strconv.Itoa(want) {
		err = fmt.Errorf("%s has %s keys, and not %d: not all locks expired during the measurement",
			p.name, got[0], want)
	}
	return err
}
