package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// suite is the programs of one language.
type suite struct {
	name, summary string
	install       []string // run once in its folder; fetches what the lock file names
	command       []string // runs all its scenes
	runtime       []string // prints the version of the runtime
	byScene       bool     // it can show one scene alone
}

// prepare installs the suite's dependencies, while other suites run.
func (s *suite) prepare(ctx context.Context) error {
	if len(s.install) == 0 {
		return nil
	}
	cmd := s.exec(ctx, append([]string{"nice", "-n", "15"}, s.install...))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(s.install, " "), err)
	}
	return nil
}

// preparation holds the pending installs of suites.
type preparation map[*suite]chan error

// preparedAtOnce is the number of suites that are prepared at the same time: one mostly downloads while another
// builds.
const preparedAtOnce = 2

// prepareAll begins to prepare the suites, in their order.
func prepareAll(ctx context.Context, chosen []*suite) preparation {
	p := preparation{}
	for _, s := range chosen {
		p[s] = make(chan error, 1)
	}
	go func() {
		places := make(chan struct{}, preparedAtOnce)
		for _, s := range chosen {
			places <- struct{}{}
			go func() {
				began := time.Now()
				err := s.prepare(ctx)
				fmt.Fprintf(os.Stdout, "== %s is prepared after %s\n", s.name, time.Since(began).Round(time.Second))
				p[s] <- err
				<-places
			}()
		}
	}()
	return p
}

// wait waits until a suite is prepared.
func (p preparation) wait(s *suite) error {
	err := <-p[s]
	p[s] <- err
	return err
}

// exec returns a command in the suite's folder. All processes that it starts end with it.
func (s *suite) exec(ctx context.Context, command []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = filepath.Join("clients", s.name)
	group(cmd)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs the suite and returns its results. If the suite cannot report, a failed result stands for it.
func (s *suite) run(ctx context.Context, most time.Duration, target string, env []string) (results []result) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	// Suites of many processes must not starve the servers under test, so they run at lower priority.
	cmd := s.exec(ctx, append([]string{"nice", "-n", "5"}, s.command...))
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return []result{s.broken(target, err)}
	}
	results = s.follow(out, target)
	if err = cmd.Wait(); err == nil && len(results) == 0 {
		err = errors.New("it printed no result")
	}
	if err != nil {
		results = append(results, s.broken(target, fmt.Errorf("%s: %w", strings.Join(s.command, " "), err)))
	}
	fmt.Fprintf(os.Stdout, "== %s against %s took %s\n", s.name, target, time.Since(began).Round(time.Second))
	return results
}

// broken returns the result of a suite that could not report.
func (s *suite) broken(target string, err error) result {
	return result{
		suite:   s.name,
		target:  target,
		client:  s.name,
		version: "-",
		mode:    "-",
		scene:   "suite",
		verdict: verdictFail,
		words:   err.Error(),
	}
}

// follow reads what the suite prints.
func (s *suite) follow(out io.Reader, target string) (results []result) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintf(os.Stdout, "%-5s %s\n", target, lines.Text())
		if r, ok := parseResult(lines.Text()); ok {
			r.suite, r.target = s.name, target
			results = append(results, r)
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line too long to read
	return results
}

// The words of a verdict.
const (
	verdictOK   = "ok"
	verdictFail = "fail"
	verdictNone = "none"
)

// result is the result of one client in one scene.
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
	return result{
		client:  f[1],
		version: f[2],
		mode:    f[3],
		scene:   f[4],
		verdict: f[5],
		words:   strings.Join(f[6:], " "),
	}, true
}
