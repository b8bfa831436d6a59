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

// deposition takes the leadership from a node that leads, and later brings the node back.
type deposition struct {
	depose  func(context.Context, *proc) error
	restore func(context.Context, *proc) error
}

var (
	byKill = deposition{endBy(syscall.SIGKILL), startAgain}
	byTerm = deposition{endBy(syscall.SIGTERM), startAgain}
	byStop = deposition{freeze, thaw}
	// What `lockd drain` does to a leader.
	byTransfer = deposition{transfer, func(context.Context, *proc) error { return nil }}
)

func endBy(sig syscall.Signal) func(context.Context, *proc) error {
	return func(_ context.Context, p *proc) error {
		p.Stop(sig, p.patience)
		return nil
	}
}

func startAgain(_ context.Context, p *proc) error { return p.start() }

func freeze(_ context.Context, p *proc) error {
	p.Pause()
	return nil
}

func thaw(_ context.Context, p *proc) error {
	p.Resume()
	return nil
}

func transfer(ctx context.Context, p *proc) error {
	_, err := load.Ask(ctx, p.addr, "LOCKD", "TRANSFER")
	return err
}

// measureHandover takes the leadership from whoever leads, again and again.
func measureHandover(by deposition) func(context.Context, *stage) ([]finding, error) {
	return func(ctx context.Context, s *stage) ([]finding, error) {
		all, err := s.lockd(ctx, "lockd", 3)
		if err != nil {
			return nil, err
		}
		var gaps []float64
		var failed []string
		for range s.Handover {
			gap, others, err := by.once(ctx, all)
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

// once deposes the leader while clients write, and returns the time without an acknowledged write, and all other
// answers. The node is back, with all entries, when once returns.
func (d deposition) once(ctx context.Context, nodes []*proc) (time.Duration, []string, error) {
	old, err := leader(ctx, nodes)
	if err != nil {
		return 0, nil, err
	}
	others := slices.DeleteFunc(slices.Clone(nodes), func(p *proc) bool { return p == old })
	pulse := startPulse(ctx, others)
	err = pulse.beats(ctx, others[0], time.Now())
	if err == nil {
		err = d.depose(ctx, old)
	}
	if err == nil {
		_, err = leader(ctx, others)
	}
	if err == nil {
		err = pulse.beats(ctx, others[0], time.Now()) // with the new leader
	}
	gap := pulse.stop()
	if err != nil {
		return 0, nil, err
	}
	if err := d.restore(ctx, old); err != nil {
		return 0, nil, err
	}
	return gap, pulse.others, catchUp(ctx, old, others[0])
}

// catchUp waits until a node has all entries of the other one.
func catchUp(ctx context.Context, p, other *proc) error {
	want, err := figure(ctx, other, "raft", "machine_index")
	if err != nil {
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

	mu      sync.Mutex
	acks    []time.Time
	others  []string      // other answers
	longest time.Duration // that a writer waited for an answer
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
	began := time.Now()
	_, err := load.Ask(ctx, addr, "SET", "bench:pulse", "1")
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.longest = max(p.longest, time.Since(began))
	}
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
