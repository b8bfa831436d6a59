package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Config configures a measurement; its tags define the command line.
type Config struct {
	Target    []string      `required:"" sep:"none" help:"A server, or the servers of a cluster, over which clients are spread; may be given more than once, and the first is what the others are compared with. Options after a question mark: wait=N as --wait, to=master for all clients to the one that leads. rediss:// is TLS, by the flags for it. etcd://HOST:PORT,... is an etcd, measured through its own client." placeholder:"[NAME=]redis://HOST:PORT,..."`
	Workload  []string      `default:"set,get,lock" help:"What clients do: set, get, lock, reentrant, contend, line, stock, pubsub, mixed (default: ${default})." placeholder:"NAME,..."`
	Clients   []int         `default:"1,50,300" help:"Numbers of clients, each measured by itself (default: ${default})." placeholder:"N,..."`
	Pipeline  int           `default:"1" help:"Operations that a client sends at once." placeholder:"N"`
	Time      time.Duration `default:"3s" help:"Length of one measurement, after a warm-up of an eighth of it."`
	Rounds    int           `default:"5" help:"How often each target is measured, in turn; medians are shown." placeholder:"N"`
	Keys      int           `default:"1000" help:"Number of keys." placeholder:"N"`
	ValueSize int           `default:"20" help:"Bytes of a value." placeholder:"N"`
	Wait      int           `default:"0" help:"Replicas that each write waits for, by a WAIT sent after it; a target may say its own: redis://host:port?wait=1." placeholder:"N"`
	JSON      string        `name:"json" help:"Also write all figures to this file." placeholder:"FILE"`
	Plot      string        `help:"Also draw the throughput into this file." placeholder:"FILE.svg"`

	Login    Login                   `kong:"-"` // how clients make themselves known to targets of Redis's protocol
	KeepKeys bool                    `kong:"-"` // leave the keys for the next measurement
	HasKeys  bool                    `kong:"-"` // an earlier measurement left them
	CPU      func(target string) CPU `kong:"-"` // the meter of a target's servers, or nil; nil: none has one
}

// CPU returns the processor time that the servers of a target have used so far, in sum.
type CPU func() (time.Duration, error)

// Bounds of the settings.
const (
	clientsMax  = 50_000
	pipelineMax = 10_000
	keysMax     = 1_000_000_000
	handsLeast  = 2 // clients that hand a lock on
)

// Check returns what is wrong with the settings.
func (c *Config) Check() error {
	for _, b := range []struct {
		flag          string
		values        []int
		least, beyond int
	}{
		{"--clients", c.Clients, 1, clientsMax},
		{"--pipeline", []int{c.Pipeline}, 1, pipelineMax},
		{"--rounds", []int{c.Rounds}, 1, 1000},
		{"--keys", []int{c.Keys}, 1, keysMax},
		{"--value-size", []int{c.ValueSize}, 1, 1 << 20},
		{"--wait", []int{c.Wait}, 0, 100},
	} {
		for _, v := range b.values {
			if v < b.least || v > b.beyond {
				return fmt.Errorf("%s %d is not between %d and %d", b.flag, v, b.least, b.beyond)
			}
		}
	}
	if len(c.Clients) == 0 || len(c.Workload) == 0 {
		return errors.New("--clients and --workload must name something")
	}
	if c.Time < time.Millisecond {
		return fmt.Errorf("--time %s is too short", c.Time)
	}
	for _, name := range c.Workload {
		w, err := findWorkload(name)
		if err != nil {
			return err
		}
		if w.hands && (c.Pipeline > 1 || slices.Max(c.Clients) < handsLeast) {
			return fmt.Errorf("workload %s is for %d clients or more, and no pipeline", name, handsLeast)
		}
	}
	_, err := parseTargets(c.Target, c.Wait)
	return err
}

// Run measures, prints the tables to stdout and what it is doing to progress, and
// writes the files that were asked for. When ctx ends it prints what it has.
func (c *Config) Run(ctx context.Context, stdout, progress io.Writer) error {
	report, err := c.Measure(ctx, progress)
	if report == nil {
		return err
	}
	report.Print(stdout)
	return errors.Join(err, report.Save(c.JSON, c.Plot))
}

// Measure returns the results of all targets. Together with an error it returns the complete results.
func (c *Config) Measure(ctx context.Context, progress io.Writer) (*Report, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	targets, err := parseTargets(c.Target, c.Wait)
	if err != nil {
		return nil, err
	}
	m := &measurement{
		cfg:      c,
		progress: progress,
		report: &Report{
			Began:    time.Now().UTC().Truncate(time.Second),
			Machine:  ThisMachine(),
			Settings: c.settings(),
		},
	}
	defer m.close()
	for _, t := range targets {
		d := c.newDriver(t)
		m.drivers = append(m.drivers, d)
		lines, err := d.describe(ctx)
		if err != nil {
			return nil, interrupted(ctx, fmt.Errorf("%s: %w", t.Name, err))
		}
		m.report.Targets = append(m.report.Targets, TargetInfo{Target: t, Servers: lines})
	}
	err = m.all(ctx)
	return m.report, interrupted(ctx, err)
}

// interrupted replaces the errors that follow from an interruption by one clear error.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// measurement is a Measure under way.
type measurement struct {
	cfg      *Config
	progress io.Writer
	drivers  []driver // by target
	report   *Report
	filled   map[int]bool // targets that have all keys
}

func (m *measurement) close() {
	for _, d := range m.drivers {
		d.close()
	}
}

// all measures workload by workload, number of clients by number of clients.
func (m *measurement) all(ctx context.Context) error {
	m.filled = map[int]bool{}
	for _, name := range m.cfg.Workload {
		w, err := findWorkload(name)
		if err != nil {
			return err
		}
		for _, clients := range m.cfg.Clients {
			p := &plan{clients: clients, pipeline: m.cfg.Pipeline, keys: m.cfg.Keys, valueSize: m.cfg.ValueSize}
			if err := m.rounds(ctx, w, p); err != nil {
				return err
			}
		}
	}
	return m.clear(ctx)
}

// rounds measures all targets in turn, round by round. Rounds that are not complete for all targets are left out of
// the report.
func (m *measurement) rounds(ctx context.Context, w *workload, p *plan) error {
	results := make([]Result, len(m.drivers))
	for round := range m.cfg.Rounds {
		for i, d := range m.drivers {
			t := m.report.Targets[i].Target
			p := *p
			p.wait = t.Wait
			if m.cfg.CPU != nil {
				p.cpu = m.cfg.CPU(t.Name)
			}
			if !d.supports(w, &p) {
				continue
			}
			if err := m.fill(ctx, i, w, &p); err != nil {
				return named(t, w, p.clients, err)
			}
			s, err := measure(ctx, d, w, &p, m.cfg.Time)
			if err == nil && w.hands {
				s.SetP50, err = medianOfSet(ctx, d, &p, m.cfg.Time/setPart)
			}
			if err != nil {
				return named(t, w, p.clients, err)
			}
			res := &results[i]
			res.Workload, res.Clients, res.Pipeline, res.Target = w.name, p.clients, p.pipeline, t.Name
			res.Polls = p.shared != nil && p.shared.polls
			res.Rounds = append(res.Rounds, s)
			fmt.Fprintf(m.progress, "round %d/%d  %s c=%d  %s: %s/s, p99 %s\n",
				round+1, m.cfg.Rounds, w.name, p.clients, t.Name, thousands(s.PerSecond), latency(s.P99))
		}
	}
	for _, r := range results {
		if len(r.Rounds) > 0 {
			r.Median = Medians(r.Rounds)
			m.report.Results = append(m.report.Results, r)
		}
	}
	return nil
}

// fill gives a target its keys, once.
func (m *measurement) fill(ctx context.Context, target int, w *workload, p *plan) error {
	if !w.filled || m.cfg.HasKeys || m.filled[target] {
		return nil
	}
	m.filled[target] = true
	report := newCounter(m.progress, m.report.Targets[target].Target.Name+": keys written", p.keys)
	return m.drivers[target].fill(ctx, p, report.add)
}

// clear takes the keys away again.
func (m *measurement) clear(ctx context.Context) error {
	for i := range m.filled {
		if m.cfg.KeepKeys {
			break
		}
		if err := m.drivers[i].clear(ctx, &plan{keys: m.cfg.Keys}); err != nil {
			return fmt.Errorf("%s: taking the keys away: %w", m.report.Targets[i].Target.Name, err)
		}
	}
	return nil
}
