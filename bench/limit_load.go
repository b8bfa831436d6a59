package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockd/bench/load"
)

// fullClients is a full load.
const fullClients = 300

// measureIdle opens connections that each ask once and then are silent.
func measureIdle(ctx context.Context, s *stage) ([]finding, error) {
	if err := needFiles(s.Idle); err != nil {
		return nil, err
	}
	all, err := s.lockd(ctx, "lockd", 1)
	if err != nil {
		return nil, err
	}
	p := all[0]
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	before, err := p.resident()
	if err != nil {
		return nil, err
	}
	for range s.Idle {
		c, err := askOnce(ctx, p.addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
	}
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	after, err := p.resident()
	if err != nil {
		return nil, err
	}
	return []finding{{
		float64(after-before) / float64(s.Idle) / kib,
		fmt.Sprintf("%d connections: %d MiB before, %d MiB with them", s.Idle, before/mib, after/mib),
	}}, nil
}

// askOnce returns a connection that was used: its buffers are there.
func askOnce(ctx context.Context, addr string) (net.Conn, error) {
	const nothing = "$-1\r\n"
	return converse(ctx, addr, "GET none\r\n", func(r io.Reader) error {
		answer := make([]byte, len(nothing))
		if _, err := io.ReadFull(r, answer); err != nil {
			return err
		}
		if string(answer) != nothing {
			return fmt.Errorf("%s answered GET with %q", addr, answer)
		}
		return nil
	})
}

// converse opens a connection, sends something, and reads the answer. The connection stays open.
func converse(ctx context.Context, addr, text string, read func(io.Reader) error) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(readyMax))
	if _, err = io.WriteString(c, text); err == nil {
		err = read(c)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return c, nil
}

// measureSoak keeps three nodes busy and watches them.
func measureSoak(ctx context.Context, s *stage) ([]finding, error) {
	all, err := s.lockd(ctx, "lockd", 3)
	if err != nil {
		return nil, err
	}
	before, err := figure(ctx, all[0], "raft", "term")
	if err != nil {
		return nil, err
	}
	w := watch{nodes: all, half: time.Now().Add(s.Soak / 2)}
	samples, err := s.soakLoad(ctx, all, &w)
	if err != nil {
		return nil, err
	}
	after, err := figure(ctx, all[0], "raft", "term")
	if err != nil {
		return nil, err
	}
	s.show(
		fmt.Sprintf("%d clients at once, for %s", fullClients, s.Soak),
		step{"set", samples[0]},
		step{"lock", samples[1]},
	)
	return []finding{
		{
			float64(after - before),
			fmt.Sprintf("term %d before, %d after %s of %d clients", before, after, s.Soak, fullClients),
		},
		{
			float64(w.resident[1]) / float64(w.resident[0]),
			fmt.Sprintf("%d MiB, then %d MiB", w.resident[0]/mib, w.resident[1]/mib),
		},
		{float64(w.disk) / mib, "two snapshots and the log back to the older one, in segments of 64 MiB"},
	}, nil
}

// soakLoad lets half of the clients set and half of them lock, while w watches.
func (s *stage) soakLoad(ctx context.Context, nodes []*proc, w *watch) ([2]load.Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching, stop := context.WithCancel(ctx)
	var samples [2]load.Sample
	var loading, watcher sync.WaitGroup
	for i, workload := range []string{"set", "lock"} {
		loading.Go(func() {
			var err error
			full := traffic{workload, fullClients / 2, fewKeys, false, s.Soak}
			if samples[i], err = s.measure(ctx, nodes, full); err != nil {
				cancel(err) // one without the other is no full load
			}
		})
	}
	watcher.Go(func() {
		if err := w.run(watching); err != nil {
			cancel(err)
		}
	})
	loading.Wait()
	stop()
	watcher.Wait()
	return samples, context.Cause(ctx)
}

// watch keeps the most that any of the nodes took.
type watch struct {
	nodes    []*proc
	half     time.Time // when the second half begins
	resident [2]int    // bytes, in the first half and in the second
	disk     int64     // bytes
}

// watchEvery is the interval at which a watch measures; it also measures at its end.
const watchEvery = time.Second

func (w *watch) run(ctx context.Context) error {
	for {
		if err := w.look(time.Now()); err != nil {
			return err
		}
		if pause(ctx, watchEvery) != nil {
			return w.look(time.Now())
		}
	}
}

func (w *watch) look(now time.Time) error {
	n, err := largestResident(w.nodes)
	if err != nil {
		return err
	}
	part := 0
	if now.After(w.half) {
		part = 1
	}
	w.resident[part] = max(w.resident[part], n)
	for _, p := range w.nodes {
		n, err := p.disk()
		if err != nil {
			return err
		}
		w.disk = max(w.disk, n)
	}
	return nil
}

// measureClients measures rising numbers of clients.
func measureClients(ctx context.Context, s *stage) ([]finding, error) {
	if err := needFiles(slices.Max(s.Clients)); err != nil {
		return nil, err
	}
	all, err := s.lockd(ctx, "lockd", 3)
	if err != nil {
		return nil, err
	}
	samples := map[int][]load.Sample{}
	for round := range s.Rounds {
		for i, n := range s.Clients {
			x, err := s.measure(ctx, all, traffic{"set", n, fewKeys, round+i > 0, s.Time})
			if err != nil {
				return nil, err
			}
			samples[n] = append(samples[n], x)
		}
	}
	var steps []step
	for _, n := range s.Clients {
		steps = append(steps, step{strconv.Itoa(n), load.Medians(samples[n])})
	}
	s.show("set, by number of clients", steps...)
	last := s.Clients[len(s.Clients)-1]
	a, b := load.Medians(samples[last]).PerSecond, load.Medians(samples[fullClients]).PerSecond
	return []finding{{a / b, fmt.Sprintf("%.0f/s with %d, %.0f/s with %d; no error", a, last, b, fullClients)}}, nil
}

// measureNodes measures clusters of one, three and five nodes in turn; the worse of the
// ratios with different numbers of clients counts.
func measureNodes(ctx context.Context, s *stage) ([]finding, error) {
	sizes, names := []int{1, 3, 5}, map[int]string{}
	cfg := &load.Config{
		Workload: []string{"set"}, Clients: []int{busyClients, fullClients}, Pipeline: 1,
		Time: s.Time, Rounds: s.Rounds, Keys: fewKeys, ValueSize: valueSize, KeepKeys: true,
	}
	for _, n := range sizes {
		names[n] = fmt.Sprintf("lockd of %d", n)
		all, err := s.lockd(ctx, fmt.Sprintf("of%d", n), n)
		if err != nil {
			return nil, err
		}
		cfg.Target = append(cfg.Target, target(names[n], "redis", "?to=master", all))
	}
	report, err := cfg.Measure(ctx, s.progress)
	if err != nil {
		return nil, err
	}
	var ratios []float64
	for _, c := range cfg.Clients {
		var steps []step
		for _, n := range sizes {
			sample, _ := report.Find("set", c, 1, names[n])
			steps = append(steps, step{names[n], sample})
		}
		s.show(fmt.Sprintf("set with %d clients, by number of nodes", c), steps...)
		ratio, _ := report.Ratio("set", c, 1, names[5], names[3])
		ratios = append(ratios, ratio)
	}
	return []finding{{
		slices.Min(ratios),
		fmt.Sprintf("%.2f with %d clients, %.2f with %d", ratios[0], busyClients, ratios[1], fullClients),
	}}, nil
}
