package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"lockd/cmd/lockd/bench"
)

// measureHandover ends the leader by a signal, again and again; the worst time counts.
func measureHandover(sig syscall.Signal) func(context.Context, *stage) ([]finding, error) {
	return func(ctx context.Context, s *stage) ([]finding, error) {
		all, err := s.lockd(ctx, "lockd", 3)
		if err != nil {
			return nil, err
		}
		var gaps []float64
		for range s.Handover {
			gap, err := depose(ctx, all, sig)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(s.progress, "no write for %.3f s\n", gap.Seconds())
			gaps = append(gaps, gap.Seconds())
		}
		return []finding{{slices.Max(gaps), fmt.Sprintf("median %.2f s, worst of %d", median(gaps), len(gaps))}}, nil
	}
}

// depose ends the leader while others write, and returns for how long nothing was
// acknowledged. The node is back, and knows all, when it returns.
func depose(ctx context.Context, nodes []*proc, sig syscall.Signal) (time.Duration, error) {
	old, err := leader(ctx, nodes)
	if err != nil {
		return 0, err
	}
	others := slices.DeleteFunc(slices.Clone(nodes), func(p *proc) bool { return p == old })
	pulse := startPulse(ctx, others)
	err = pulse.beats(ctx, others[0], time.Now())
	if err == nil {
		old.end(sig)
		_, err = leader(ctx, others)
	}
	if err == nil {
		err = pulse.beats(ctx, others[0], time.Now()) // with the new leader
	}
	gap := pulse.stop()
	if err != nil {
		return 0, err
	}
	return gap, rejoin(ctx, old, others[0])
}

// rejoin starts a node again, and waits until it has all that the other had.
func rejoin(ctx context.Context, p, other *proc) error {
	want, err := figure(ctx, other, "raft", "machine_index")
	if err != nil {
		return err
	}
	if err := p.start(); err != nil {
		return err
	}
	return p.await(ctx, func(ctx context.Context) error {
		has, err := figure(ctx, p, "raft", "machine_index")
		if err == nil && has < want {
			err = fmt.Errorf("it has applied %d of %d", has, want)
		}
		return err
	})
}

// pulse sends a write every few milliseconds, each over a connection of its own: one
// that hangs, since its leader died with it, holds up no other.
type pulse struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	acks []time.Time
}

func startPulse(ctx context.Context, nodes []*proc) *pulse {
	ctx, cancel := context.WithCancel(ctx)
	p := &pulse{cancel: cancel}
	p.all.Go(func() {
		for i := 0; pause(ctx, pollEvery) == nil; i++ {
			addr := nodes[i%len(nodes)].addr
			p.all.Go(func() { p.write(ctx, addr) })
		}
	})
	return p
}

func (p *pulse) write(ctx context.Context, addr string) {
	if _, err := bench.Ask(ctx, addr, "SET", "bench:pulse", "1"); err != nil {
		return // the next one is on its way
	}
	p.mu.Lock()
	p.acks = append(p.acks, time.Now())
	p.mu.Unlock()
}

// beats waits for a write that is acknowledged after this time.
func (p *pulse) beats(ctx context.Context, node *proc, since time.Time) error {
	return node.await(ctx, func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.acks) == 0 || p.acks[len(p.acks)-1].Before(since) {
			return errors.New("no write is acknowledged")
		}
		return nil
	})
}

// stop ends the writes, and returns the longest time between two that were
// acknowledged.
func (p *pulse) stop() time.Duration {
	p.cancel()
	p.all.Wait()
	var gap time.Duration
	for i := 1; i < len(p.acks); i++ {
		gap = max(gap, p.acks[i].Sub(p.acks[i-1]))
	}
	return gap
}
