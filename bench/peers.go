package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"lockd/bench/load"
)

type peersCmd struct {
	Time    time.Duration `default:"3s" help:"Length of one measurement."`
	Rounds  int           `default:"5" help:"How often each is measured, in turn." placeholder:"N"`
	Clients []int         `help:"Only these numbers of clients (default: those of the goals)." placeholder:"N,..."`
	Binary  string        `help:"The lockd to measure (default: built from this repository)." type:"path" placeholder:"FILE"`
	JSON    string        `name:"json" help:"Also write all figures to this file." placeholder:"FILE"`
	Plot    string        `help:"Also draw the throughput into this file." placeholder:"FILE.svg"`
}

// run starts all peers, measures what there are goals for, and judges.
func (c *peersCmd) run(ctx context.Context, stdout, progress io.Writer) error {
	f, err := newFarm(ctx, c.Binary, progress)
	if err != nil {
		return err
	}
	defer f.close()
	targets, cpu, err := f.peers(ctx)
	if err != nil {
		return err
	}
	var all *load.Report
	for _, m := range c.measurements() {
		cfg := m.config(c, targets)
		cfg.CPU = func(target string) load.CPU { return cpu[target] }
		report, err := cfg.Measure(ctx, progress)
		if report != nil {
			all = join(all, report)
		}
		if err != nil {
			if all != nil {
				all.Print(stdout)
			}
			return err
		}
	}
	if all == nil {
		return fmt.Errorf("there is no goal for %v clients", c.Clients)
	}
	all.Print(stdout)
	missed := judge(stdout, all, goals)
	fmt.Fprintf(stdout, "%d missed\n", missed)
	return all.Save(c.JSON, c.Plot)
}

// peers starts all servers, and returns them as targets, with the meters of their processors, by name.
func (f *farm) peers(ctx context.Context) (targets map[string]string, cpu map[string]load.CPU, err error) {
	targets, cpu = map[string]string{}, map[string]load.CPU{}
	lockd := func(ctx context.Context) ([]*proc, error) { return f.lockd(ctx, "lockd", 3) }
	for _, s := range []struct {
		name, scheme, options string
		start                 func(context.Context) ([]*proc, error)
	}{
		{lockdName, "redis", "?to=master", lockd},
		{etcdName, "etcd", "?to=master", f.etcd},
		{replicasName, "redis", "?to=master&wait=1", f.replicatedRedis},
		{redisName, "redis", "", f.oneRedis},
	} {
		fmt.Fprintf(f.progress, "starting %s\n", s.name)
		procs, err := s.start(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("starting %s: %w", s.name, err)
		}
		targets[s.name] = target(s.name, s.scheme, s.options, procs)
		cpu[s.name] = meter(procs)
	}
	return targets, cpu, nil
}

// measurement is a workload with the targets to measure it on.
type measurement struct {
	workload string
	pipeline int
	peers    []string // besides lockd
	clients  []int
}

// measurements joins the goals of the same workload, so that lockd and all peers are
// measured in turn.
func (c *peersCmd) measurements() []*measurement {
	var all []*measurement
	for _, g := range goals {
		i := slices.IndexFunc(
			all,
			func(m *measurement) bool { return m.workload == g.workload && m.pipeline == g.pipeline },
		)
		if i < 0 {
			i = len(all)
			all = append(all, &measurement{workload: g.workload, pipeline: g.pipeline})
		}
		m := all[i]
		m.peers = append(m.peers, g.peer)
		for n := range g.ratios {
			if !slices.Contains(m.clients, n) && (len(c.Clients) == 0 || slices.Contains(c.Clients, n)) {
				m.clients = append(m.clients, n)
			}
		}
		slices.Sort(m.clients)
	}
	return slices.DeleteFunc(all, func(m *measurement) bool { return len(m.clients) == 0 })
}

func (m *measurement) config(c *peersCmd, targets map[string]string) *load.Config {
	cfg := &load.Config{
		Target: []string{targets[lockdName]}, Workload: []string{m.workload}, Clients: m.clients, Pipeline: m.pipeline,
		Time: c.Time, Rounds: c.Rounds, Keys: 1000, ValueSize: 20, KeepKeys: true,
	}
	for _, p := range m.peers {
		cfg.Target = append(cfg.Target, targets[p])
	}
	return cfg
}

// join adds the results, and the targets that are new.
func join(all, more *load.Report) *load.Report {
	if all == nil {
		return more
	}
	for _, t := range more.Targets {
		if !slices.ContainsFunc(all.Targets, func(o load.TargetInfo) bool { return o.Name == t.Name }) {
			all.Targets = append(all.Targets, t)
		}
	}
	all.Results = append(all.Results, more.Results...)
	return all
}

// judge prints each goal with the measured ratio. It returns the number of missed goals.
func judge(w io.Writer, r *load.Report, goals []goal) (missed int) {
	fmt.Fprintf(w, "\nlockd : peer, operations a second\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "workload\tagainst\tclients\tgoal\tratio\t")
	for _, g := range goals {
		name := g.workload
		if g.pipeline > 1 {
			name += ", pipeline " + strconv.Itoa(g.pipeline)
		}
		for _, clients := range slices.Sorted(maps.Keys(g.ratios)) {
			ratio, ok := r.Ratio(g.workload, clients, g.pipeline, lockdName, g.peer)
			if !ok {
				continue
			}
			verdict := "met"
			if ratio < g.ratios[clients] {
				verdict = "MISSED"
				missed++
			}
			fmt.Fprintf(tw, "%s\t%s\t%d\t%g\t%.2f\t%s\n", name, g.peer, clients, g.ratios[clients], ratio, verdict)
		}
	}
	_ = tw.Flush() // to a terminal: there is nowhere left to report to
	return missed + judgeHandOvers(w, r)
}

// judgeHandOvers prints the time in which a lock passes from one client in line to the next, beside its goal. It
// returns the number of missed goals.
func judgeHandOvers(w io.Writer, r *load.Report) (missed int) {
	for _, res := range r.Results {
		if res.Target != lockdName || res.Median.SetP50 == 0 {
			continue
		}
		ratio, verdict := res.Median.P50/res.Median.SetP50, "met"
		if ratio > handOverMost {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "%s: from UNLOCK to the next LOCK's answer, with %d clients, %.2f of one SET (at most %g): %s\n",
			res.Workload, res.Clients, ratio, handOverMost, verdict)
	}
	return missed
}
