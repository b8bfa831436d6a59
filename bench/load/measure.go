package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// driver speaks to one target.
type driver interface {
	supports(w *workload, p *plan) bool
	describe(ctx context.Context) ([]string, error) // one line for each server
	addrs(ctx context.Context) ([]string, error)    // where clients go
	fill(ctx context.Context, p *plan, done func(keys int)) error
	clear(ctx context.Context, p *plan) error
	before(ctx context.Context, w *workload, p *plan, addrs []string) error
	open(ctx context.Context, w *workload, p *plan, addrs []string, id int) (client, error)
	after(ctx context.Context, w *workload, p *plan, addrs []string, steps int) error
	close()
}

// client is one client of a measurement. One goroutine uses it; only interrupt may be called from others.
type client interface {
	step() error              // does as many operations as the pipeline has, and checks every reply
	handOver() time.Duration  // for which the lock of the step was on its way from another client; 0: it was not
	interrupt()               // makes a step under way fail at once
	patience(d time.Duration) // lets a step under way take that much longer
	finish()
}

// Sample is the result of one measurement.
type Sample struct {
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"perSecond"`
	P50        float64 `json:"p50us"` // microseconds
	P99        float64 `json:"p99us"`
	P999       float64 `json:"p999us"`
	Max        float64 `json:"maxUs"`
	SetP50     float64 `json:"setP50us,omitempty"` // of one SET at a time, beside hand-overs
	CPU        float64 `json:"cpuUs,omitempty"`    // processor time of the servers, all together, for one operation
}

// The phases of a measurement.
const (
	phaseWarm int32 = iota // steps are done, and not counted
	phaseCount
	phaseStop
)

// Clients warm up for a part of the time.
const (
	warmPart = 8
	warmMax  = time.Second
)

// run is the state of one measurement.
type run struct {
	phase  atomic.Int32
	shards [shardCount]shard
	failed chan error // holds the first error
}

// counted is the counted time, and the processor time of the servers in it.
type counted struct{ time, cpu time.Duration }

// shard is the histogram that some of the clients share: one for each client would
// take gigabytes, one for all would be fought for.
const shardCount = 16

type shard struct {
	mu    sync.Mutex
	hist  *hdrhistogram.Histogram // nanoseconds
	ops   int
	steps int // also those that are not counted
	_     [64]byte
}

// Bounds of the histograms.
const (
	latencyMin    = int64(time.Microsecond)
	latencyMax    = int64(2 * time.Minute)
	latencyDigits = 3
)

// measure lets p.clients clients work for length.
func measure(ctx context.Context, d driver, w *workload, p *plan, length time.Duration) (Sample, error) {
	addrs, err := d.addrs(ctx)
	if err != nil {
		return Sample{}, err
	}
	if err := d.before(ctx, w, p, addrs); err != nil {
		return Sample{}, err
	}
	if p.inTurn {
		p.clients = len(addrs)
	}
	var clients []client
	defer func() {
		for _, c := range clients {
			c.finish()
		}
	}()
	for id := range p.clients {
		c, err := d.open(ctx, w, p, addrs, id)
		if err != nil {
			return Sample{}, err
		}
		clients = append(clients, c)
	}
	if p.inTurn {
		clients = []client{&inTurn{clients: clients}}
	}
	r := newRun()
	sample, err := r.load(ctx, clients, p, length)
	if err != nil {
		return Sample{}, err
	}
	return sample, d.after(ctx, w, p, addrs, r.steps())
}

func newRun() *run {
	r := &run{failed: make(chan error, 1)}
	for i := range r.shards {
		r.shards[i].hist = hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
	}
	return r
}

// load lets all clients step until the time is over, one of them fails, or ctx ends.
func (r *run) load(ctx context.Context, clients []client, p *plan, length time.Duration) (Sample, error) {
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() { r.work(c, &r.shards[i%shardCount], p) })
	}
	took, err := r.keepTime(ctx, p.cpu, length)
	r.phase.Store(phaseStop)
	for _, c := range clients {
		if err != nil {
			c.interrupt()
		} else {
			c.patience(answerMax)
		}
	}
	running.Wait()
	if err == nil {
		select {
		case err = <-r.failed: // in its last step
		default:
		}
	}
	s := r.sample(took)
	if err == nil && s.Operations == 0 {
		err = fmt.Errorf("no operation was done within %s", length)
	}
	return s, err
}

// keepTime goes through the phases, and returns the counts.
func (r *run) keepTime(ctx context.Context, cpu CPU, length time.Duration) (c counted, err error) {
	if err := r.sleep(ctx, min(length/warmPart, warmMax)); err != nil {
		return c, err
	}
	if cpu == nil {
		cpu = func() (time.Duration, error) { return 0, nil }
	}
	before, err := cpu()
	if err != nil {
		return c, err
	}
	began := time.Now()
	r.phase.Store(phaseCount)
	err = r.sleep(ctx, length)
	c.time = time.Since(began)
	after, failed := cpu()
	c.cpu = after - before
	return c, errors.Join(err, failed)
}

func (r *run) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-r.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// work is the loop of one client, which does one step at least.
func (r *run) work(c client, s *shard, p *plan) {
	steps, began := 0, time.Now()
	defer func() {
		s.mu.Lock()
		s.steps += steps
		s.mu.Unlock()
	}()
	for phase := r.phase.Load(); ; phase = r.phase.Load() {
		if err := c.step(); err != nil {
			select {
			case r.failed <- err:
			default: // another one was first
			}
			return
		}
		steps++
		now, after := time.Now(), r.phase.Load()
		took, counts := now.Sub(began), phase == phaseCount && after == phaseCount
		if p.shared != nil { // the step began by waiting for all others
			took = c.handOver()
			counts = took > 0 && after == phaseCount
		}
		if counts {
			s.add(took, p.pipeline)
		}
		if after == phaseStop {
			return
		}
		began = now
	}
}

func (s *shard) add(took time.Duration, operations int) {
	s.mu.Lock()
	s.ops += operations
	_ = s.hist.RecordValues(min(max(int64(took), latencyMin), latencyMax), int64(operations)) // it is within bounds
	s.mu.Unlock()
}

func (r *run) steps() int {
	n := 0
	for i := range r.shards {
		n += r.shards[i].steps
	}
	return n
}

func (r *run) sample(c counted) Sample {
	all, operations := hdrhistogram.New(latencyMin, latencyMax, latencyDigits), 0
	for i := range r.shards {
		all.Merge(r.shards[i].hist)
		operations += r.shards[i].ops
	}
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	s := Sample{
		Operations: operations, Seconds: c.time.Seconds(),
		P50: us(all.ValueAtQuantile(50)), P99: us(all.ValueAtQuantile(99)), P999: us(all.ValueAtQuantile(99.9)),
		Max: us(all.Max()),
	}
	if c.time > 0 {
		s.PerSecond = float64(operations) / s.Seconds
	}
	if operations > 0 {
		s.CPU = us(int64(c.cpu)) / float64(operations)
	}
	return s
}

// errInterrupted ends a measurement that was told to.
var errInterrupted = errors.New("interrupted: the figures are those of the rounds that were complete")

func (c *Config) newDriver(t Target) driver {
	if t.Scheme == schemeEtcd {
		return &etcdDriver{target: t, dial: dialEtcd}
	}
	login := c.Login
	if !t.TLS {
		login.TLS = nil
	}
	return &redisDriver{target: t, login: login}
}

// named puts the measured target and workload in front of an error.
func named(t Target, w *workload, clients int, err error) error {
	return fmt.Errorf("%s, %s with %d clients: %w", t.Name, w.name, clients, err)
}
