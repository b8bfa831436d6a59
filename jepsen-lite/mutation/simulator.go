package mutation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// simulate looks for the mutants that are left in campaigns of jepsen-lite on simulated machines.
func (r *Runner) simulate(ctx context.Context, overlay, dir string, results []*Result) error {
	path := filepath.Join(dir, "jepsen-lite")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", path, "./jepsen-lite")
	cmd.Dir = r.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("jepsen-lite with mutants: %w\n%s", err, out)
	}
	began := time.Now()
	if problem, err := r.campaign(ctx, path, dir, 0, time.Hour+r.Sim); problem != "" || err != nil {
		return errors.Join(err, fmt.Errorf("a campaign without a mutant: %s", problem))
	}
	most := patience + patienceMore*time.Since(began)
	for _, one := range results {
		if one.Fate != Alive {
			continue
		}
		problem, err := r.campaign(ctx, path, dir, one.number, most)
		if err != nil {
			return err
		}
		if problem != "" {
			one.Fate, one.By = Caught, problem
			fmt.Fprintf(r.Out, "%s caught: %s\n", one.ID, problem)
		}
	}
	return nil
}

// campaign makes simulated runs with a mutant for a while, and returns the first problem that was found. In virtual time
// a mutant can make a run go on for ever: a campaign that takes longer than most is ended, and has found that.
func (r *Runner) campaign(
	ctx context.Context, path, dir string, number int, most time.Duration,
) (problem string, err error) {
	out := filepath.Join(dir, "sim-"+strconv.Itoa(number))
	defer func() { _ = os.RemoveAll(out) }()
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(limited, path, "marathon", "--target", "sim", "--nemesis", "all", "--seed", "1",
		"--each", "60s", "--time", r.Sim.String(), "--side", strconv.Itoa(r.Side), "--out", out)
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.Root, append(os.Environ(), chosenVar+"="+strconv.Itoa(number)), time.Second
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	for line := range strings.Lines(string(said)) {
		if err != nil && strings.HasPrefix(line, "seed ") {
			return strings.TrimSpace(line), nil
		}
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case limited.Err() != nil:
		return "a run does not end", nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return "a run failed", nil
	}
	return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said)
}
