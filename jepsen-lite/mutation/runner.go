package mutation

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Package is a package that has mutants, with the packages whose tests must notice them, its own first.
type Package struct {
	Folder string
	Tests  []string

	// Of names what has mutants: functions, methods with their types, and types for all their methods; nil: everything.
	Of []string
}

// Packages is the table of packages.
var Packages = []Package{
	{Folder: "keyspace/lock", Tests: []string{"keyspace/lock", "keyspace/wait", "keyspace", "clustertest"}},
	{Folder: "keyspace/store", Tests: []string{"keyspace/store", "keyspace/wait", "keyspace", "clustertest"}},
	{Folder: "keyspace", Tests: []string{"keyspace"}, Of: []string{
		"service.sweepEnds", "service.sweepLine", "service.expire", "service.timeOut", "service.moveUp",
	}},
	{Folder: "cluster/request", Tests: []string{"cluster/request", "cluster", "clustertest"}},
	{Folder: "cluster/replica", Tests: []string{"cluster/replica", "cluster", "clustertest"}},
	{Folder: "cluster", Tests: []string{"cluster"}, Of: []string{
		"ownLog.skipApplied", "ownLog.has", "ownLog.reaches", "transport.bound", "withinMessage", "elections.startClock",
	}},
	{Folder: "luavm", Tests: []string{"luavm"}, Of: []string{
		"straight.relation", "straight.charge", "straight.touch", "straight.need", "straight.toNumber", "straight.concat",
		"straight.command",
	}},
	{Folder: "resp/server/pubsub", Tests: []string{"resp/server/pubsub"}, Of: []string{
		"Broker.BeginAnswer", "Broker.EndAnswer", "Subscriber.Push", "Subscriber.Send", "Subscriber.sendNow",
		"Subscriber.DelayPushes", "Subscriber.ResumePushes", "Subscriber.queues", "Subscriber.Settle", "queue.join",
	}},
}

// Fate tells how a mutant ended.
type Fate int

// The fates.
const (
	Alive  Fate = iota // nothing noticed it
	Killed             // a test failed
	Caught             // a simulated run failed
	Equal              // it is judged equivalent
)

func (f Fate) String() string { return [...]string{"ALIVE", "killed", "caught", "equivalent"}[f] }

// Result is a mutant with what became of it.
type Result struct {
	*Mutant
	Fate Fate
	By   string // the test, or the problem of the simulated run; else whether a test reaches the mutant
}

// Runner runs tests with mutants.
type Runner struct {
	Root     string        // of the repository
	Dir      string        // for what is built
	Out      io.Writer     // gets a line for each mutant
	TestTime time.Duration // tests that take longer are left out; 0: all tests are
	Sim      time.Duration // how long mutants that live are looked for in simulated runs; 0: not at all
	Judged   Judgements
	Again    bool // runs the judged ones, too
	Side     int  // processes beside each other, at least 1

	mu sync.Mutex // while a line is written
}

// Run runs the tests of a package with mutants of it.
func (r *Runner) Run(ctx context.Context, p Package, s *Set, chosen []*Mutant) ([]*Result, error) {
	dir, err := os.MkdirTemp(r.Dir, filepath.Base(p.Folder)+"-")
	if err != nil {
		return nil, err
	}
	overlay, err := s.Overlay(dir)
	if err != nil {
		return nil, err
	}
	var results []*Result
	for _, m := range chosen {
		results = append(results, &Result{Mutant: m, By: "no test reaches it"})
		if r.Judged[m.ID] != nil && !r.Again {
			results[len(results)-1].Fate = Equal
		}
	}
	for _, folder := range p.Tests {
		if r.TestTime == 0 {
			break
		}
		if err := r.tests(ctx, overlay, dir, folder, results); err != nil {
			return results, err
		}
	}
	if r.Sim > 0 {
		err = r.simulate(ctx, overlay, dir, results)
	}
	for _, one := range results {
		if one.Fate == Alive && r.Judged[one.ID] != nil {
			one.Fate = Equal
		}
	}
	return results, err
}

// alive reports whether a mutant is left.
func alive(r *Result) bool { return r.Fate == Alive }

// tests runs the tests of one package with the mutants that are left.
func (r *Runner) tests(ctx context.Context, overlay, dir, folder string, results []*Result) error {
	if !slices.ContainsFunc(results, alive) {
		return nil
	}
	b, err := build(ctx, r.Root, overlay, folder, dir)
	if b == nil || err != nil {
		return err
	}
	defer func() { _ = os.Remove(b.path) }()
	began := time.Now()
	out, err := b.measure(ctx, r.TestTime)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "%s: %d tests in %.0f s without a mutant\n", folder, len(b.tests), time.Since(began).Seconds())
	for _, why := range out {
		fmt.Fprintf(r.Out, "%s: without %s\n", folder, why)
	}
	left := make(chan *Result)
	var all sync.WaitGroup
	for range r.Side {
		all.Go(func() {
			for one := range left {
				r.try(ctx, b, one)
			}
		})
	}
	for _, one := range results {
		if one.Fate == Alive {
			left <- one
		}
	}
	close(left)
	all.Wait()
	return ctx.Err()
}

// try runs the tests with one mutant.
func (r *Runner) try(ctx context.Context, b *binary, one *Result) {
	by, reached, err := b.kill(ctx, one.Mutant)
	switch {
	case err != nil: // it was told to end
	case by != "":
		one.Fate, one.By = Killed, by
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintf(r.Out, "%s killed by %s\n", one.ID, by)
	case reached:
		one.By = "tests reach it"
	}
}

// Sample draws n of the mutants; 0: all.
func Sample(all []*Mutant, n int, seed uint64) []*Mutant {
	if n <= 0 || n >= len(all) {
		return all
	}
	chosen := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n]
	slices.Sort(chosen)
	var out []*Mutant
	for _, i := range chosen {
		out = append(out, all[i])
	}
	return out
}
