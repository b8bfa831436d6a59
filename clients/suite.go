package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// suite is the programs of one language.
type suite struct {
	name, summary string
	install       []string // run once in its folder; fetches what the lock file names
	command       []string // runs all its scenes
}

// prepare installs what the suite needs.
func (s *suite) prepare(ctx context.Context) error {
	if len(s.install) == 0 {
		return nil
	}
	cmd := s.exec(ctx, s.install)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// exec is a command in the suite's folder. It gets a process group of its own, so
// that all it has started ends with it.
func (s *suite) exec(ctx context.Context, command []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = filepath.Join("clients", s.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs the suite and notes its results. What the suite could not even say is
// a failed result of the suite itself.
func (s *suite) run(ctx context.Context, most time.Duration, target string, env []string, m *matrix) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	// A suite of many processes must not keep the servers from running, which it is
	// to look at: it comes after them.
	cmd := s.exec(ctx, append([]string{"nice", "-n", "5"}, s.command...))
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	broken := func(err error) {
		m.add(result{suite: s.name, target: target, client: s.name, version: "-", mode: "-", scene: "suite", verdict: verdictFail, words: err.Error()})
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		broken(err)
		return
	}
	fmt.Fprintf(os.Stdout, "== %s against %s\n", s.name, target)
	seen := s.follow(out, target, m)
	if err := cmd.Wait(); err != nil {
		broken(fmt.Errorf("%s: %w", strings.Join(s.command, " "), err))
	} else if seen == 0 {
		broken(fmt.Errorf("%s: it printed no result", strings.Join(s.command, " ")))
	}
}

// follow reads what the suite prints, and counts the results.
func (s *suite) follow(out io.Reader, target string, m *matrix) (seen int) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(os.Stdout, lines.Text())
		if r, ok := parseResult(lines.Text()); ok {
			r.suite, r.target = s.name, target
			m.add(r)
			seen++
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line too long to read
	return seen
}

// The words of a verdict.
const (
	verdictOK   = "ok"
	verdictFail = "fail"
	verdictNone = "none"
)

// result is what one client showed in one scene.
type result struct {
	suite, target                         string
	client, version, mode, scene, verdict string
	words                                 string
}

// parseResult reads a line that a suite has printed.
func parseResult(line string) (result, bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[0] != "RESULT" || !slices.Contains([]string{verdictOK, verdictFail, verdictNone}, f[5]) {
		return result{}, false
	}
	return result{client: f[1], version: f[2], mode: f[3], scene: f[4], verdict: f[5], words: strings.Join(f[6:], " ")}, true
}
