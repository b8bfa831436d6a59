package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"lockd/bench/load"
)

// measureHandover ends the leader by a signal, again and again.
func measureHandover(sig syscall.Signal) func(context.Context, *stage) ([]finding, error) {
	return func(ctx context.Context, s *stage) ([]finding, error) {
		all, err := s.lockd(ctx, "lockd", 3)
		if err != nil {
			return nil, err
		}
		var gaps []float64
		var failed []string
		for range s.Handover {
			gap, others, err := depose(ctx, all, sig)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(s.progress, "no write for %.3f s; answered otherwise: %d %q\n", gap.Seconds(), len(others),
				slices.Compact(slices.Sorted(slices.Values(others))))
			gaps, failed = append(gaps, gap.Seconds()), append(failed, others...)
		}
		of := fmt.Sprintf("of %d, with %d writers", len(gaps), writers)
		return []finding{{slices.Max(gaps), "worst " + of}, {load.Median(gaps), of}, {float64(len(failed)), of}}, nil
	}
}

// depose ends the leader while clients write, and returns the time without an acknowledged write, and all other
// answers. The node is back, with all entries, when depose returns.
func depose(ctx context.Context, nodes []*proc, sig syscall.Signal) (time.Duration, []string, error) {
	old, err := leader(ctx, nodes)
	if err != nil {
		return 0, nil, err
	}
	others := slices.DeleteFunc(slices.Clone(nodes), func(p *proc) bool { return p == old })
	pulse := startPulse(ctx, others)
	err = pulse.beats(ctx, others[0], time.Now())
	if err == nil {
		old.Stop(sig, old.patience)
		_, err = leader(ctx, others)
	}
	if err == nil {
		err = pulse.beats(ctx, others[0], time.Now()) // with the new leader
	}
	gap := pulse.stop()
	if err != nil {
		return 0, nil, err
	}
	return gap, pulse.others, rejoin(ctx, old, others[0])
}

// rejoin starts a node again, and waits until it has all entries of the other one.
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

// writers is the number of writing clients of a pulse; each writes without pause.
const writers = 30

// pulse is a load of writers at several nodes.
type pulse struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex
	acks   []time.Time
	others []string // other answers
}

func startPulse(ctx context.Context, nodes []*proc) *pulse {
	ctx, cancel := context.WithCancel(ctx)
	p := &pulse{cancel: cancel}
	for i := range writers {
		addr := nodes[i%len(nodes)].addr
		p.all.Go(func() {
			for ctx.Err() == nil {
				p.write(ctx, addr)
			}
		})
	}
	return p
}

func (p *pulse) write(ctx context.Context, addr string) {
	_, err := load.Ask(ctx, addr, "SET", "bench:pulse", "1")
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.acks = append(p.acks, time.Now())
	} else if ctx.Err() == nil {
		p.others = append(p.others, err.Error())
	}
}

// beats waits for a write that is acknowledged after a time.
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

// stop ends the writes, and returns the longest time between two acknowledged ones.
func (p *pulse) stop() time.Duration {
	p.cancel()
	p.all.Wait()
	var gap time.Duration
	for i := 1; i < len(p.acks); i++ {
		gap = max(gap, p.acks[i].Sub(p.acks[i-1]))
	}
	return gap
}
