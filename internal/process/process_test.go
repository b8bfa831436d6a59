//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is far longer than anything takes here.
const patience = time.Minute

// shell is a script. What the tests start is killed at their end.
func shell(t *testing.T, script string) Command {
	t.Helper()
	return Command{Name: "n1", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")}
}

func start(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// says returns a condition for Await: the process has printed a line.
func says(p *Process, line string) func(context.Context) error {
	return func(context.Context) error {
		if !slices.Contains(p.LastLines(100), line) {
			return errors.New("it does not say " + line)
		}
		return nil
	}
}

// await waits until a process has said a line.
func await(t *testing.T, p *Process, line string) {
	t.Helper()
	if err := p.Await(t.Context(), time.Millisecond, says(p, line)); err != nil {
		t.Fatal(err)
	}
}

// A process has its folder, its environment, no input, and a log that keeps the output of earlier processes.
func TestStart(t *testing.T) {
	c := shell(t, "pwd; echo $WORD; read x || echo nothing; echo on its error >&2")
	c.Dir, c.Env, c.Heading = t.TempDir(), []string{"WORD=one"}, "first"
	p := start(t, c)
	<-p.Ended()
	c.Heading, c.Env = "second", []string{"WORD=two"}
	c.Stdin = strings.NewReader("x\n")
	q := start(t, c)
	<-q.Ended()
	dir, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	first := "first\n" + dir + "\none\nnothing\non its error\n"
	second := "second\n" + dir + "\ntwo\non its error\n"
	if got := LogFrom(c.Log, 0); got != first+second || q.Output() != second || p.Running() || !p.State().Success() {
		t.Errorf("the log %q, the second has said %q", got, q.Output())
	}
	if got := q.LastLines(2); !slices.Equal(got, []string{"two", "on its error"}) {
		t.Errorf("last lines %q", got)
	}
	if got := q.LastLines(9); len(got) != 4 {
		t.Errorf("last lines %q", got)
	}
}

// A process that ends instead of serving is an error with its last lines, at once; one that does not serve, at the end
// of the wait.
func TestAwait(t *testing.T) {
	p := start(t, shell(t, "echo the disk is on fire; exit 3"))
	never := func(context.Context) error { return errors.New("no answer") }
	err := p.Await(t.Context(), time.Millisecond, never)
	var ended *EndedError
	if !errors.As(err, &ended) || err.Error() != "n1 ended by itself: exit status 3: the disk is on fire" || p.Err().Error() != err.Error() {
		t.Errorf("it has ended: %v", err)
	}
	p = start(t, shell(t, "echo up; exec sleep 60"))
	await(t, p, "up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Await(ctx, time.Hour, never); err == nil || err.Error() != "n1 does not serve: no answer: up" {
		t.Errorf("it runs: %v", err)
	}
	if err := p.Err(); err != nil || p.State() != nil {
		t.Errorf("it runs: %v, %v", err, p.State())
	}
}

// A process that obeys ends on its own; another one is killed after a while.
func TestStop(t *testing.T) {
	const script = "trap 'echo obeyed; exit 4' TERM; echo up; while :; do sleep 0.01; done"
	p := start(t, shell(t, script))
	await(t, p, "up")
	if !p.Stop(syscall.SIGTERM, patience) || p.State().ExitCode() != 4 || p.LastLines(1)[0] != "obeyed" {
		t.Errorf("%v, %q", p.State(), p.Output())
	}
	p = start(t, shell(t, "trap '' TERM; echo up; while :; do sleep 0.01; done"))
	await(t, p, "up")
	if p.Stop(syscall.SIGTERM, time.Millisecond) || p.Running() || p.State().String() != "signal: killed" {
		t.Errorf("a stubborn process: %v", p.State())
	}
	if !p.Stop(syscall.SIGTERM, 0) {
		t.Error("one that has ended does not obey")
	}
	var never *Process
	never.Kill()
	if never.Running() || !never.Stop(syscall.SIGTERM, 0) {
		t.Error("one that has never been runs")
	}
}

// A process that is paused says nothing until it goes on.
func TestPause(t *testing.T) {
	c := shell(t, "trap 'echo signalled' USR1; echo up; while :; do sleep 0.01; done")
	p := start(t, c)
	await(t, p, "up")
	p.Pause()
	p.Signal(syscall.SIGUSR1)
	other := start(t, shell(t, "sleep 0.2")) // long enough for one that is not paused
	<-other.Ended()
	if p.LastLines(1)[0] != "up" {
		t.Errorf("paused, it has said %q", p.Output())
	}
	p.Resume()
	await(t, p, "signalled")
}

// A tied process can read as long as this one lives, and so waits.
func TestTied(t *testing.T) {
	c := shell(t, "cat; echo the end")
	c.Tied = true
	p := start(t, c)
	other := start(t, shell(t, "sleep 0.2")) // as above
	<-other.Ended()
	if !p.Running() {
		t.Errorf("it has said %q", p.Output())
	}
}

// It is not in the group of this process, which a terminal signals.
func TestGroup(t *testing.T) {
	p := start(t, shell(t, "exec sleep 60"))
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		t.Errorf("its group is %d, it is %d: %v", group, p.PID(), err)
	}
}

// What cannot be started says so.
func TestNotStarted(t *testing.T) {
	c := shell(t, "")
	c.Path = "no-such-program-at-all"
	if _, err := c.Start(); err == nil || !strings.Contains(err.Error(), "n1: no-such-program-at-all is not installed") {
		t.Errorf("error %v", err)
	}
	c = shell(t, "")
	c.Log = filepath.Join(t.TempDir(), "no", "log")
	if _, err := c.Start(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// The nodes of a cluster agree on its members, and share no address and no folder.
func TestCluster(t *testing.T) {
	nodes, err := Cluster("/data", "n", 3)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, n := range nodes {
		flag := func(name string) string { return n.Args[slices.Index(n.Args, name)+1] }
		if n.ID != []string{"n1", "n2", "n3"}[i] || flag("--id") != n.ID || flag("--listen") != n.Addr || flag("--dir") != n.Dir ||
			n.Dir != "/data/"+n.ID || flag("--cluster") != nodes[0].Args[slices.Index(nodes[0].Args, "--cluster")+1] ||
			!slices.Contains(strings.Split(flag("--cluster"), ","), n.ID+"="+flag("--peer-listen")) {
			t.Errorf("%+v", n)
		}
		for _, own := range []string{n.Addr, flag("--peer-listen")} {
			if seen[own] {
				t.Errorf("%s is given twice", own)
			}
			seen[own] = true
		}
	}
}
