package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockd/bench/load"
)

// behaveAs is the variable that tells the test binary to act as a process of these tests: serve listens at $2, stubborn
// does the same and ignores SIGTERM, fail ends at once.
const behaveAs = "LOCKD_TEST_BEHAVE_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(behaveAs) {
	case "":
		code := m.Run()
		_ = os.RemoveAll(builtDir) // a temporary folder
		os.Exit(code)
	case "fail":
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(1)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		os.Exit(2)
	}
	for {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}
}

func testFarm(t *testing.T) *farm {
	t.Helper()
	f, err := newFarm(t.Context(), os.Args[0], io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

// behave starts a process of the farm.
func behave(t *testing.T, f *farm, how string) *proc {
	t.Helper()
	t.Setenv(behaveAs, how)
	addrs, err := addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.add(how+addrs[0], addrs[0], os.Args[0], func(string) []string { return addrs })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func connects(addr string) func(context.Context) error {
	return func(context.Context) error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	}
}

// Closing a farm ends all its processes, including those that ignore signals, and removes their data.
func TestFarmCloses(t *testing.T) {
	f := testFarm(t)
	f.patience = 300 * time.Millisecond
	for _, how := range []string{"serve", "stubborn", "serve"} {
		p := behave(t, f, how)
		if err := p.await(t.Context(), connects(p.addr)); err != nil {
			t.Fatal(err)
		}
	}
	procs := slices.Clone(f.procs)
	f.close()
	for _, p := range procs {
		if p.Running() {
			t.Errorf("%s is still there", p.name)
		}
	}
	if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A server that ends instead of serving is an error with its last words, at once.
func TestFarmTellsOfFailure(t *testing.T) {
	p := behave(t, testFarm(t), "fail")
	err := p.await(t.Context(), connects(p.addr))
	if err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 1: the disk is on fire") {
		t.Errorf("error %v", err)
	}
	if _, err := testFarm(t).add("x", "", "no-such-program-at-all", func(string) []string { return nil }); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Errorf("error %v", err)
	}
}

// Told to stop while a server comes up, the wait ends.
func TestAwaitInterrupted(t *testing.T) {
	p := behave(t, testFarm(t), "serve")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if err := p.await(ctx, func(context.Context) error { return io.EOF }); err == nil || time.Since(began) > readyMax/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// A ratio is met from its goal on; what was not measured is not judged.
func TestJudge(t *testing.T) {
	r := &load.Report{}
	for _, x := range []struct {
		clients   int
		target    string
		perSecond float64
	}{{1, lockdName, 220}, {1, etcdName, 100}, {50, lockdName, 549}, {50, etcdName, 100}, {300, lockdName, 1}} {
		r.Results = append(r.Results, load.Result{Workload: "set", Clients: x.clients, Pipeline: 1, Target: x.target, Median: load.Sample{PerSecond: x.perSecond}})
	}
	var out strings.Builder
	missed := judge(&out, r, goals)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := [][]string{
		{"set", "etcd,", "3", "nodes", "1", "2.2", "2.20", "met"},
		{"set", "etcd,", "3", "nodes", "50", "5.5", "5.49", "MISSED"},
	}
	if missed != 1 || len(lines) != 2+len(want) {
		t.Fatalf("%d missed:\n%s", missed, out.String())
	}
	for i, w := range want {
		if got := strings.Fields(lines[2+i]); !slices.Equal(got, w) {
			t.Errorf("%q, want %q", got, w)
		}
	}
}

// A hand-over is judged by the time of one SET on lockd; what others need is not.
func TestJudgeHandOvers(t *testing.T) {
	r := &load.Report{Results: []load.Result{
		{Workload: "line", Clients: 50, Target: lockdName, Median: load.Sample{P50: 1500, SetP50: 1000}},
		{Workload: "line", Clients: 2, Target: lockdName, Median: load.Sample{P50: 1501, SetP50: 1000}},
		{Workload: "line", Clients: 50, Target: redisName, Median: load.Sample{P50: 9000, SetP50: 1000}},
		{Workload: "set", Clients: 50, Target: lockdName, Median: load.Sample{P50: 9000}},
	}}
	const want = "line: from UNLOCK to the next LOCK's answer, with 50 clients, 1.50 of one SET (at most 1.5): met\n" +
		"line: from UNLOCK to the next LOCK's answer, with 2 clients, 1.50 of one SET (at most 1.5): MISSED\n"
	var out strings.Builder
	if missed := judgeHandOvers(&out, r); missed != 1 || out.String() != want {
		t.Errorf("%d missed:\n%s", missed, out.String())
	}
}

// Every goal is measured, beside lockd, once.
func TestMeasurements(t *testing.T) {
	all := (&peersCmd{}).measurements()
	targets := map[string]string{lockdName: "l=redis://a:1", etcdName: "e=etcd://a:2", replicasName: "p=redis://a:3", redisName: "r=redis://a:4"}
	for _, g := range goals {
		n := 0
		for _, m := range all {
			if m.workload != g.workload || m.pipeline != g.pipeline {
				continue
			}
			n++
			if !slices.Contains(m.peers, g.peer) {
				t.Errorf("%+v lacks %s", m, g.peer)
			}
			for clients := range g.ratios {
				if !slices.Contains(m.clients, clients) {
					t.Errorf("%+v lacks %d clients", m, clients)
				}
			}
			cfg := m.config(&peersCmd{Time: time.Second, Rounds: 1}, targets)
			if err := cfg.Check(); err != nil || cfg.Target[0] != targets[lockdName] {
				t.Errorf("%+v: %v", cfg, err)
			}
		}
		if n != 1 {
			t.Errorf("%+v is measured %d times", g, n)
		}
	}
	if got := (&peersCmd{Clients: []int{300}}).measurements(); len(got) != 3 {
		t.Errorf("%d measurements with 300 clients, want those of set, get and lock", len(got))
	}
}
