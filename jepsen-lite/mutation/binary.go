package mutation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a run of tests with a mutant. A mutant that passes them counts as killed. The time of the processor tells
// sooner than real time whether a test ends, however busy the machine is.
const (
	patience      = 20 * time.Second // besides what follows
	patienceMore  = 10               // times as long as the tests took without a mutant
	processorTime = 3 * time.Second  // besides what follows
	processorMore = 5                // times as much as the tests took without a mutant
	memoryMax     = 4 << 20          // KiB of address space

	// A process that has used no processor for so long waits for what does not come, where the system tells that.
	idleMax = 10 * time.Second
)

// limits bound a process.
type limits struct {
	real, processor time.Duration
}

// unhurried bounds a run without a mutant.
func unhurried(most time.Duration) limits { return limits{most, time.Hour} }

// batchMax bounds the time of tests that one process runs: behind it a mutant that is killed early saves the rest.
const batchMax = 2 * time.Second

// binary has the tests of a package, over a package with mutants.
type binary struct {
	folder string
	dir    string
	path   string
	tests  []*test // that pass without a mutant, the short ones first
}

// test is a test of the top level.
type test struct {
	name    string
	took    limits
	reaches map[int]bool
}

// build builds the tests of a package; nil: it has none.
func build(ctx context.Context, root, overlay, folder, dir string) (*binary, error) {
	b := &binary{
		folder: folder, dir: filepath.Join(root, filepath.FromSlash(folder)),
		path: filepath.Join(dir, strings.ReplaceAll(folder, "/", "-")+".test"),
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.path, "./"+folder)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of %s with mutants: %w\n%s", folder, err, out)
	}
	if _, err := os.Stat(b.path); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return b, nil
}

// measure runs each test without a mutant, to learn how long it takes, and which mutants it reaches. It returns the
// tests that are left out: those that fail, and those that take longer than max.
func (b *binary) measure(ctx context.Context, most time.Duration) (out []string, err error) {
	listed, _, err := b.start(ctx, unhurried(time.Minute), nil, "-test.list", ".")
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", b.path, err, listed)
	}
	for _, name := range strings.Fields(listed) {
		if strings.HasPrefix(name, "Benchmark") {
			continue
		}
		t := &test{name: name}
		said, err := b.reach(ctx, t, most)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			out = append(out, name+": "+killer(said, err))
		default:
			b.tests = append(b.tests, t)
		}
	}
	slices.SortStableFunc(b.tests, func(x, y *test) int { return cmp.Compare(x.took.real, y.took.real) })
	return out, nil
}

// reach runs one test without a mutant.
func (b *binary) reach(ctx context.Context, t *test, most time.Duration) (said string, err error) {
	file := b.path + ".reached"
	_ = os.Remove(file)
	said, t.took, err = b.start(ctx, unhurried(most), []string{reachedVar + "=" + file}, only(t)...)
	t.reaches = map[int]bool{}
	text, readErr := os.ReadFile(file)
	if errors.Is(readErr, os.ErrNotExist) {
		return said, err
	}
	for _, word := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			t.reaches[n] = true
		}
	}
	return said, cmp.Or(err, readErr)
}

// only are the flags by which tests run, and no others.
func only(tests ...*test) []string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	return []string{"-test.run", "^(" + strings.Join(names, "|") + ")$", "-test.failfast", "-test.count", "1"}
}

// kill runs the tests that reach a mutant until one fails; "": none does. reached tells whether there are any.
func (b *binary) kill(ctx context.Context, m *Mutant) (by string, reached bool, err error) {
	var batch []*test
	var sum limits
	run := func() error {
		most := limits{patience + patienceMore*sum.real, processorTime + processorMore*sum.processor}
		said, _, err := b.start(ctx, most, []string{chosenVar + "=" + strconv.Itoa(m.number)}, only(batch...)...)
		if err != nil {
			by = b.folder + " " + cmp.Or(killer(said, err), batch[0].name)
		}
		batch, sum = nil, limits{}
		return ctx.Err()
	}
	for _, t := range b.tests {
		if !t.reaches[m.number] {
			continue
		}
		reached = true
		if len(batch) > 0 && sum.real+t.took.real > batchMax {
			if err := run(); err != nil || by != "" {
				return by, true, err
			}
		}
		batch, sum = append(batch, t), limits{sum.real + t.took.real, sum.processor + t.took.processor}
	}
	if len(batch) > 0 {
		err = run()
	}
	return by, reached, err
}

// start runs the binary within limits. It returns what it said, and what it took.
func (b *binary) start(
	ctx context.Context, most limits, env []string, args ...string,
) (said string, took limits, err error) {
	ctx, cancel := context.WithTimeout(ctx, most.real+10*time.Second)
	defer cancel()
	args = append([]string{b.path, "-test.timeout", most.real.String()}, args...)
	if runtime.GOOS != "windows" {
		bound := fmt.Sprintf(`ulimit -v %d; ulimit -t %.0f; exec "$0" "$@"`, memoryMax, most.processor.Seconds()+1)
		args = append([]string{"/bin/sh", "-c", bound}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Dir, cmd.Env, cmd.WaitDelay = b.dir, append(os.Environ(), env...), time.Second
	began := time.Now()
	if err = cmd.Start(); err == nil {
		go whenIdle(ctx, cmd.Process.Pid, idleMax, cancel)
		err = cmd.Wait()
	}
	took.real = time.Since(began)
	if state := cmd.ProcessState; state != nil {
		took.processor = state.UserTime() + state.SystemTime()
	}
	return out.String(), took, err
}

// whenIdle calls stop when a process has used no processor for so long.
func whenIdle(ctx context.Context, pid int, most time.Duration, stop func()) {
	tick := time.NewTicker(most / 5)
	defer tick.Stop()
	since, was := time.Now(), ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := processorTimes(pid)
		switch {
		case is == "" || is != was:
			since, was = time.Now(), is
		case time.Since(since) >= most:
			stop()
			return
		}
	}
}

// processorTimes returns what Linux knows of the processor time of a process; "": nothing.
func processorTimes(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return ""
	}
	return fields[11] + " " + fields[12] // utime and stime of proc_pid_stat(5)
}

var (
	failed  = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	endless = regexp.MustCompile(`(?m)^panic: test timed out after .*\n(?:\s+running tests:\n\s+(\S+))?`)
)

// killer names the test that failed, or says how the process ended.
func killer(said string, err error) string {
	if m := endless.FindStringSubmatch(said); m != nil {
		return strings.TrimSpace(m[1] + " (does not end)")
	}
	if all := failed.FindAllStringSubmatch(said, -1); all != nil {
		deepest := all[0][1] // a test is followed by the part of it that failed
		for _, m := range all {
			if strings.HasPrefix(m[1], deepest) {
				deepest = m[1]
			}
		}
		return deepest
	}
	if strings.Contains(err.Error(), "killed") {
		return "(does not end)"
	}
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return "(" + strings.TrimSpace(line) + ")"
		}
	}
	return ""
}
