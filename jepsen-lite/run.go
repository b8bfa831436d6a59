package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/sim"
	"lockd/jepsen-lite/target"
	"lockd/jepsen-lite/workload"
)

// Times of a run.
const (
	startMax    = 60 * time.Second
	startLook   = 100 * time.Millisecond // between two looks for nodes that have ended
	healthyMax  = 10 * time.Second       // for all nodes to take writes again after the last fault
	convergeMax = 20 * time.Second
	patience    = 2 * time.Minute // instead of the two above when a run is judged for safety only
	finalMax    = 20 * time.Second
	calm        = 2 * time.Second // after the last fault, while clients go on
	sayEvery    = 5 * time.Second
)

// session is one run of jepsen-lite.
type session struct {
	cmd       *runCmd
	out       io.Writer
	target    target.Target
	workloads []string
	kinds     []string
	steps     []nemesis.Step // of --schedule
	unfit     *unfitness     // of faults for the target; nil: it can have all
	hidden    []string       // variants of faults that are left out because of that
	swarm     *swarm         // nil: faults are as the flags say

	ports      bool             // the nodes have fault ports
	levels     map[string]level // of the nodes before the first workload
	operations int              // of all workloads so far
	dead       []string         // nodes that refuse to start
	nextLevel  int              // with --from: the highest level of the tree's own build
}

func (c *runCmd) run(out io.Writer) (passed bool, err error) {
	if err := c.checkBinary(); err != nil {
		return false, err
	}
	if c.Again > 1 {
		return c.repeat(out)
	}
	results, complete, err := c.results(out)
	return complete && report.Passed(results), err
}

// repeat makes the run again and again, until one does not pass.
func (c *runCmd) repeat(out io.Writer) (passed bool, err error) {
	if c.Out, err = folder(c.Out, "again"); err != nil {
		return false, err
	}
	for i := range c.Again {
		one := *c
		one.Out = filepath.Join(c.Out, fmt.Sprint("run-", i+1))
		results, complete, err := one.results(out)
		if err != nil || !complete || !report.Passed(results) {
			return false, err
		}
		c.Seed = one.Seed // of the first run, if none was given
	}
	return true, nil
}

// checkBinary refuses a bug for a binary that is given, and an older build that no fault would use.
func (c *runCmd) checkBinary() error {
	upgrades := func(chosen string) bool {
		k := nemesis.Find(chosen)
		return chosen == "all" || k != nil && k.Name == nemesis.Upgrade
	}
	switch {
	case c.From != "" && c.Binary != "":
		return fmt.Errorf("--from %s: the nodes start with the build of it, so --binary cannot be another", c.From)
	case c.From != "" && !slices.ContainsFunc(c.Nemesis, upgrades):
		return fmt.Errorf("--from %s: only --nemesis %s goes from one build to another", c.From, nemesis.Upgrade)
	}
	if c.Plant != "" && c.Binary != "" {
		return fmt.Errorf("--plant %s: a bug is planted before the server is built, so --binary cannot have it",
			c.Plant)
	}
	return nil
}

// results runs the workloads; complete is false if the run was interrupted.
func (c *runCmd) results(out io.Writer) (results []report.Result, complete bool, err error) {
	ctx, stop := untilTold()
	defer stop()
	return c.resultsUntil(ctx, out)
}

// untilTold returns a context that ends with SIGINT or SIGTERM.
func untilTold() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// resultsUntil is results that the end of ctx interrupts.
func (c *runCmd) resultsUntil(ctx context.Context, out io.Writer) (results []report.Result, complete bool, err error) {
	switch {
	case !c.simulated():
		return c.play(ctx, out)
	case c.sim != nil || c.Plant != os.Getenv(plantedVar):
		return c.playPlanted(ctx, out)
	}
	sim.Bubble(func(outside func(func())) {
		c.outside = outside
		own, cancel := context.WithCancel(context.Background())
		defer cancel()
		go follow(ctx, own, cancel)
		results, complete, err = c.play(own, out)
	})
	return results, complete, err
}

// play makes the run.
func (c *runCmd) play(ctx context.Context, out io.Writer) (results []report.Result, complete bool, err error) {
	s := &session{cmd: c, out: out}
	if err := s.prepare(); err != nil {
		return nil, false, err
	}
	defer s.target.Stop()
	fmt.Fprintf(out, "target %s, %d nodes, seed %d, output in %s\n", c.Target, c.Nodes, c.Seed, c.Out)
	if c.Plant != "" {
		fmt.Fprintf(out, "with a bug planted: %s\n", c.Plant)
	}
	if c.TLS {
		fmt.Fprintln(out, "clients speak TLS, and nodes TLS with a secret")
	}
	if len(s.hidden) > 0 {
		fmt.Fprintf(out, "left out: %s: they %s\n", strings.Join(s.hidden, ", "), s.unfit.all)
	}
	if c.From != "" {
		fmt.Fprintf(out, "from the build of %s\n", c.From)
	}
	if short := s.needs().tooShort(s.workloads, s.cmd.Time); short != "" {
		fmt.Fprintln(out, short)
	}
	if err := s.start(ctx); err != nil {
		return nil, false, err
	}
	if err := s.checkFaultPorts(); err != nil {
		return nil, false, err
	}
	if err := s.loadState(ctx); err != nil {
		return nil, false, err
	}
	if err := s.warmUp(ctx); err != nil {
		return nil, false, err
	}
	results, err = s.each(ctx, func(name string, turn uint64) (report.Result, error) {
		return s.workload(ctx, workload.Find(name), turn)
	})
	if err != nil {
		return nil, false, err
	}
	report.Table(out, results)
	if err := report.Page(filepath.Join(c.Out, "report.html"), c.again(), results); err != nil {
		return nil, false, err
	}
	complete = ctx.Err() == nil
	if c.simulated() {
		if err := writeJSON(filepath.Join(c.Out, figuresFile), newFigures(results, complete)); err != nil {
			return nil, false, err
		}
	}
	if complete && report.Passed(results) {
		s.target.Stop()
		_ = os.RemoveAll(filepath.Join(c.Out, "data"))
	}
	fmt.Fprintf(out, "again: %s\n", c.again())
	return results, complete, nil
}

// each runs the workloads in turn. When a node refuses to start, the remaining workloads are skipped.
func (s *session) each(
	ctx context.Context,
	run func(name string, turn uint64) (report.Result, error),
) (results []report.Result, err error) {
	skipped := ""
	for i, name := range s.workloads {
		if ctx.Err() != nil {
			break
		}
		if skipped != "" {
			results = append(results, report.NotRun(name, skipped))
			continue
		}
		r, err := run(name, uint64(i))
		if err != nil {
			return nil, err
		}
		results = append(results, r)
		if len(s.dead) > 0 {
			skipped = fmt.Sprintf("%s died in %s and refuses to start", strings.Join(s.dead, ", "), name)
		}
	}
	return results, nil
}

// start starts the nodes. It fails when one ends by itself, as for a port in use, with the last lines of its log.
func (s *session) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	started := make(chan struct{})
	var err error
	go func() {
		defer close(started)
		err = s.target.Start(ctx)
	}()
	look := time.NewTicker(startLook)
	defer look.Stop()
	for {
		select {
		case <-started:
			return err
		case <-look.C:
			if deaths := s.target.Deaths(); len(deaths) > 0 {
				cancel()
				<-started
				return errors.New("the nodes do not start: " + deaths[0])
			}
		}
	}
}

// prepare checks the flags, makes the output folder and the target.
func (s *session) prepare() error {
	if s.cmd.Race { // the nodes are several times slower
		s.cmd.Judge = judgeSafety
	}
	kind, err := s.check()
	if err != nil {
		return err
	}
	if err := s.cmd.makeFolder(); err != nil {
		return err
	}
	if s.cmd.Swarm {
		drawSwarm(s)
	}
	return s.open(kind)
}

// makeFolder makes the output folder, and draws a seed if none is given.
func (c *runCmd) makeFolder() (err error) {
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1e9) + 1
	}
	if c.Out == "" {
		if c.Out, err = os.MkdirTemp("", "jepsen-lite-"); err != nil {
			return err
		}
	}
	if c.Out, err = filepath.Abs(c.Out); err != nil {
		return err
	}
	return os.MkdirAll(c.Out, 0o755)
}

// check checks the flags and resolves the names in them.
func (s *session) check() (kind target.Kind, err error) {
	c := s.cmd
	var loads, kinds []string
	for _, w := range workload.Table {
		loads = append(loads, w.Name)
	}
	for _, k := range nemesis.Table {
		kinds = append(kinds, k.Name)
	}
	if s.workloads, err = names("workload", c.Workload, loads); err != nil {
		return kind, err
	}
	if c.simulated() && slices.Contains(c.Workload, "all") {
		s.workloads = slices.DeleteFunc(s.workloads, func(name string) bool {
			return name == busyWorkload && !slices.Contains(c.Workload, name)
		})
	}
	if err := s.plan(); err != nil {
		return kind, err
	}
	for _, given := range c.Nemesis { // "all" has every variant already
		if strings.Contains(given, ":") && nemesis.Find(given) != nil && !slices.Contains(c.Nemesis, "all") {
			kinds = append(kinds, given)
		}
	}
	if s.kinds, err = names("nemesis", c.Nemesis, kinds); err != nil {
		return kind, err
	}
	if c.Plant != "" && !slices.Contains(bugs(), c.Plant) {
		return kind, fmt.Errorf("there is no bug %q to plant: choose from %s", c.Plant, strings.Join(bugs(), ", "))
	}
	if c.Time < 0 {
		return kind, errors.New("--time must not be less than 0")
	}
	if c.State < 0 || c.State > stateMax {
		return kind, fmt.Errorf("--state must be from 0 to %d", stateMax)
	}
	if c.Nodes < 1 || c.Workers < 1 || c.Rate < 1 || len(s.workloads) == 0 {
		return kind, errors.New("--nodes, --workers and --rate must be at least 1, and there must be a workload")
	}
	if c.Time == 0 {
		c.Time = s.needs().all(s.workloads)
		if c.Swarm { // one of them runs
			c.Time /= time.Duration(len(s.workloads))
		}
	}
	i := slices.IndexFunc(targets, func(k target.Kind) bool { return k.Name == c.Target })
	if i < 0 {
		return kind, fmt.Errorf("there is no target %q: see --list", c.Target)
	}
	kind = targets[i]
	if err := c.refuseIdle(kind); err != nil {
		return kind, err
	}
	switch {
	case c.Plant != "" && kind.Package == "" && !kind.Simulated:
		return kind, fmt.Errorf("--plant %s: the target %s is not built here", c.Plant, c.Target)
	case c.TLS && !kind.TLS:
		return kind, fmt.Errorf("--tls: the target %s has no TLS here", c.Target)
	case c.TLS:
		return kind, s.leaveOut(&hiddenByTLS)
	case kind.Simulated:
		return kind, s.leaveOut(&notSimulated)
	}
	return kind, nil
}

func (s *session) open(k target.Kind) (err error) {
	c := s.cmd
	conf := target.Config{
		Binary: c.server(), Dir: c.Out, Nodes: c.Nodes, TLS: c.TLS, Args: c.Args, Seed: c.Seed,
	}
	if conf.Binary == "" && k.Package != "" {
		conf.Binary = filepath.Join(c.Out, "server")
		if err := c.build(k, conf.Binary); err != nil {
			return err
		}
	}
	if conf.Builds, err = s.moreBuilds(k, conf.Binary); err != nil {
		return err
	}
	s.target, err = k.New(conf)
	return err
}

// build makes the server that nodes start with.
func (c *runCmd) build(k target.Kind, path string) error {
	if c.From == "" {
		return k.Build(path, c.bug(), c.buildFlags()...)
	}
	if err := k.BuildRef(path, c.From, c.buildFlags()...); err != nil {
		return fmt.Errorf("--from %s: %w", c.From, err)
	}
	return nil
}

// bug returns the bugs planted in each build of these sources.
func (c *runCmd) bug() (bugs []string) {
	if c.Plant != "" {
		bugs = append(bugs, c.Plant)
	}
	return bugs
}

// errOther refuses faults that need a second build beside a server that is given.
var errOther = errors.New("it takes a build like the server's own but for one change, and that of --binary may be of " +
	"other sources than these: leave out --binary")

// moreBuilds makes the builds that the chosen faults need, besides that of the nodes.
func (s *session) moreBuilds(k target.Kind, own string) (map[string]string, error) {
	builds := map[string]string{}
	changes := map[string][]string{target.OtherBuild: {target.OtherBuild}, target.NextBuild: {target.NextBuild}}
	if s.cmd.From != "" {
		changes[target.NextBuild] = nil
	}
	for build, kind := range map[string]string{target.OtherBuild: nemesis.OtherBuild, target.NextBuild: nemesis.Upgrade} {
		needs := func(chosen string) bool { // a kind or one of its variants
			k := nemesis.Find(chosen)
			return k != nil && k.Name == kind
		}
		if !slices.ContainsFunc(s.kinds, needs) || k.Package == "" {
			continue
		}
		path, err := filepath.Join(s.cmd.Out, "server-"+build), errOther
		if s.cmd.Binary == "" {
			err = k.Build(path, append(s.cmd.bug(), changes[build]...), s.cmd.buildFlags()...)
		}
		if err == nil && build == target.NextBuild && s.cmd.From != "" {
			if s.nextLevel, err = target.CanTalk(own, path); err != nil {
				return nil, fmt.Errorf("--from %s: %w", s.cmd.From, err)
			}
		}
		switch {
		case err == nil:
			builds[build] = path
		case slices.ContainsFunc(s.cmd.Nemesis, needs):
			return nil, fmt.Errorf("--nemesis %s: %w", kind, err)
		default: // "all" chose it
			s.kinds = slices.DeleteFunc(s.kinds, needs)
			fmt.Fprintf(s.out, "left out: %s: %v\n", kind, err)
		}
	}
	return builds, nil
}

// buildFlags returns the flags of go build for this run.
func (c *runCmd) buildFlags() (flags []string) {
	if c.Race {
		flags = append(flags, "-race")
	}
	return flags
}

// checkFaultPorts asks every node on its fault port. Without fault ports some nemeses would do nothing: that is an
// error, unless "all" chose them.
func (s *session) checkFaultPorts() error {
	var why error
	for _, n := range s.target.Nodes() {
		if _, err := s.target.Fault(n, "stat"); err != nil {
			why = fmt.Errorf("the fault port of node %s does not answer (%w); a server for it is built with -tags "+
				"faults, and so is the one that is built when --binary is not given",
				n, err)
			break
		}
	}
	if s.ports = why == nil && !s.cmd.simulated(); why == nil {
		return nil
	}
	var without, kept []string
	for _, k := range s.kinds {
		switch {
		case !nemesis.Find(k).Port:
			kept = append(kept, k)
		case slices.Contains(s.cmd.Nemesis, k):
			return fmt.Errorf("--nemesis %s: %w", k, why)
		default:
			without = append(without, k)
		}
	}
	if s.kinds = kept; len(without) > 0 {
		fmt.Fprintf(s.out, "left out: %s: %v\n", strings.Join(without, ", "), why)
	}
	return nil
}

// againCommand begins the command of again.
const againCommand = "go run ./jepsen-lite"

// again is the command that runs the same thing once more, in the words of a shell. A run in a folder of its own has
// another one.
func (c *runCmd) again() string {
	words := append(strings.Fields(againCommand), c.words()...)
	if c.Again > 1 {
		words = append(words, "--again", strconv.Itoa(c.Again))
	}
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

// words are the arguments that make the same run once more.
func (c *runCmd) words() (words []string) {
	flag := func(name, value string) {
		if value != "" {
			words = append(words, name, value)
		}
	}
	number := func(name string, n int) { flag(name, strconv.Itoa(n)) }
	is := func(name string, is bool) {
		if is {
			words = append(words, name)
		}
	}
	flag("--time", c.Time.String())
	flag("--workload", strings.Join(c.Workload, ","))
	flag("--nemesis", strings.Join(c.Nemesis, ","))
	number("--nodes", c.Nodes)
	number("--workers", c.Workers)
	number("--rate", c.Rate)
	flag("--seed", strconv.FormatUint(c.Seed, 10))
	is("--mixed", c.Mixed)
	is("--swarm", c.Swarm)
	flag("--schedule", c.Schedule)
	if c.Judge == judgeSafety {
		flag("--judge", c.Judge)
	}
	if c.State > 0 {
		number("--state", c.State)
	}
	is("--race", c.Race)
	if c.Target != "lockd" {
		flag("--target", c.Target)
	}
	is("--tls", c.TLS)
	flag("--from", c.From)
	flag("--plant", c.Plant)
	flag("--binary", c.Binary)
	for _, arg := range c.Args { // each by itself: they may begin with -, and have commas
		words = append(words, "--args="+strings.ReplaceAll(arg, ",", `\,`))
	}
	is("--keep", c.Keep)
	return words
}

// plain is a word that a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted returns a word as it is written for a shell.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// workload runs one workload and judges it.
func (s *session) workload(ctx context.Context, w *workload.Workload, turn uint64) (report.Result, error) {
	c := s.cmd
	dir := filepath.Join(c.Out, w.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return report.Result{}, err
	}
	began := time.Now()
	rec, err := c.recorder(dir, began)
	if err != nil {
		return report.Result{}, err
	}
	env := &workload.Env{
		Target: s.target, History: rec, Prefix: w.Name + ":", Workers: c.Workers, Seed: c.Seed + turn,
		Pause:  time.Duration(c.Workers) * time.Second / time.Duration(c.Rate),
		Loaded: c.State > 0 || slices.ContainsFunc(s.kinds, nemesis.KeepsKeys),
	}
	length := s.needs().parts(s.workloads, c.Time)[turn]
	plan := s.schedule(int(turn), length-s.needs().calmTail(w.Name, length))
	if err := writeJSON(filepath.Join(dir, scheduleFile), c.scheduleOf(c.Seed+turn, began, length, plan)); err != nil {
		return report.Result{}, err
	}
	after := &model.Verdict{} // problems of the cluster itself
	c.watched(dir, began, rec, after, func() { s.play(ctx, w, env, plan, began, length, after) })
	if err := rec.Close(); err != nil {
		return report.Result{}, err
	}
	if err := writeJSON(filepath.Join(dir, clusterFile), after); err != nil {
		return report.Result{}, err
	}
	r, err := c.judge(dir, w, rec, s.target)
	if err == nil {
		r.Reigns = report.Reigns(c.Out, began, r.History)
		fmt.Fprintf(s.out, "%-10s %s\n", w.Name, report.Word(r.Verdict))
	}
	return r, err
}

// play runs the workers and the nemesis, and then inspects the cluster.
func (s *session) play(
	ctx context.Context,
	w *workload.Workload,
	env *workload.Env,
	plan []nemesis.Step,
	began time.Time,
	length time.Duration,
	after *model.Verdict,
) {
	p := w.New(env)
	workload.Once(ctx, env, 1, finalMax, p.Setup)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := nemesis.Watch(watching, s.target, env.History)
	field := &nemesis.Runner{
		Target: watched, History: env.History, Quiet: env.Quiet, Race: s.cmd.Race, NextLevel: s.nextLevel,
	}
	field.Pace, field.Idle = s.cmd.loads()
	env.Until = time.Now().Add(length + calm)
	timed, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	working, rest := context.WithCancel(ctx)
	defer rest()
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		field.Run(timed, plan)
		<-timed.Done()
		if len(plan) > 0 {
			wait(ctx, calm)
		}
		env.History.Record(history.Event{Process: history.Nemesis, Type: history.Info, Op: history.Rest,
			Value: []string{strconv.FormatInt(env.Until.Sub(began).Nanoseconds(), 10)}})
		rest()
	}()
	go s.progress(working, w.Name, time.Now().Add(length), env.History, field)
	p.Run(working, env)
	<-broken
	for _, f := range field.Found() {
		after.Add(f.Kind, nil, "%s", f.Text)
	}
	after.Count(field.AtStake())
	s.inspect(ctx, env.History, after)
	workload.Once(ctx, env, env.Workers, finalMax, p.Final)
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// inspect checks the cluster after the last fault.
func (s *session) inspect(ctx context.Context, rec *history.Recorder, v *model.Verdict) {
	if ctx.Err() != nil {
		v.Undecided = append(v.Undecided, "the run was interrupted")
		return
	}
	healthyIn, sameIn := healthyMax, convergeMax
	if s.cmd.Judge == judgeSafety {
		healthyIn, sameIn = patience, patience
	}
	healthy, cancel := context.WithTimeout(ctx, healthyIn)
	defer cancel()
	if err := s.target.Healthy(healthy); err != nil {
		s.dead = s.target.Dead()
		s.deaths(v)
		if len(s.dead) == 0 {
			v.Add("not healthy", nil, "%s after the last fault: %v", healthyIn, err)
		}
	}
	same, cancel := context.WithTimeout(ctx, sameIn)
	defer cancel()
	if nodes := len(s.target.Nodes()); len(s.dead) > (nodes-1)/2 {
		v.Undecided = append(v.Undecided, fmt.Sprintf("%d of %d nodes refuse to start: the others are not compared",
			len(s.dead), nodes))
		return
	}
	v.Stake(model.RuleHealthy, len(s.target.Nodes()))
	v.Stake(model.RuleProcesses, len(s.target.Nodes()))
	v.Stake(model.RuleStates, 1)
	if err := s.target.Converged(same); err != nil {
		v.Add("states differ", nil, "%v", err)
	}
	s.checkState(ctx, v)
	s.checkLevels(ctx, rec.Counts(), v)
	s.deaths(v)
	s.ends(rec, v)
	unreadStreams(v, s.target.Net().Unread())
	if s.cmd.Race {
		v.Stake(model.RuleRaces, 1)
	}
	for _, r := range s.target.Races() {
		v.Add("data race", nil, "%s", r)
	}
}

// unreadStreams makes a run undecided if its proxies met a message that they cannot read: nothing was caught on that
// connection from then on.
func unreadStreams(v *model.Verdict, n int) {
	if n > 0 {
		v.Undecided = append(v.Undecided, fmt.Sprintf("%d streams between nodes carried a message that jepsen-lite "+
			"cannot read: nothing was caught on them from there on", n))
	}
}

// ends records the ends of processes, and adds wrong reports of such ends to the verdict.
func (s *session) ends(rec *history.Recorder, v *model.Verdict) {
	e := s.target.Ends()
	rec.Record(history.Event{Process: history.Nemesis, Type: history.Info, Op: history.Ends,
		Value: []string{strconv.Itoa(e.Ended), strconv.Itoa(e.Noticed)}})
	v.Stake(model.RuleClaims, e.Ended)
	for _, w := range e.Wrong {
		v.Add("a living process called dead", nil, "%s", w)
	}
}

// deaths adds unexpected deaths to the verdict.
func (s *session) deaths(v *model.Verdict) {
	for _, d := range s.target.Deaths() {
		v.Add("a node died", nil, "%s", d)
	}
}

// progress prints a line now and then.
func (s *session) progress(ctx context.Context, name string, end time.Time, rec *history.Recorder, f *nemesis.Runner) {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n, left := rec.Counts(), "settling"
			if d := time.Until(end); d > 0 {
				left = fmt.Sprintf("%4.0f s left", d.Seconds())
			}
			fmt.Fprintf(s.out, "%-10s %-11s  %7d ok  %5d failed  %5d unknown  %4d faults  %s\n",
				name, left, n.OK, n.Fail, n.Info, n.Faults, f.Current())
		case <-ctx.Done():
			return
		}
	}
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
