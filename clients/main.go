package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Suite  []string      `default:"all" help:"Suites to run." placeholder:"NAME,..."`
	Scene  string        `help:"The only scene to show: of the suites go, node, java and python." placeholder:"NAME"`
	Target []string      `default:"redis,lockd" help:"Servers to run them against, one after the other: redis, lockd." placeholder:"NAME,..."`
	Time   time.Duration `default:"20m" help:"Most time that one suite may take against one target."`
	Write  bool          `help:"Write the sections of the suites that run into clients/README.md."`
	Serve  bool          `help:"Start the last target, print the environment of a suite, and wait: to run one by hand."`
	List   bool          `help:"List the suites, and do nothing."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("clients"), kong.UsageOnError(),
		kong.Description("Runs the suites of real client libraries against lockd and against redis-server."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := c.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(2)
	}
	if !passed {
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context) (passed bool, err error) {
	if c.List {
		for _, s := range suites {
			fmt.Fprintf(os.Stdout, "%-8s %s\n", s.name, s.summary)
		}
		return true, nil
	}
	chosen, err := choose(c.Suite)
	if err != nil {
		return false, err
	}
	if c.Scene != "" {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(s *suite) bool { return !s.byScene })
	}
	if err := inRepository(); err != nil {
		return false, err
	}
	if c.Serve {
		chosen, c.Target = nil, c.Target[len(c.Target)-1:]
	}
	for _, name := range c.Target {
		if targets[name] == nil {
			return false, fmt.Errorf("there is no target %q: choose from redis, lockd", name)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	prepared := prepareAll(ctx, chosen)
	defer func() { // what they have started ends with them
		cancel()
		for _, s := range chosen {
			_ = prepared.wait(s)
		}
	}()
	m := &matrix{}
	for _, name := range c.Target {
		if err := c.against(ctx, name, chosen, prepared, m); err != nil {
			return false, fmt.Errorf("target %s: %w", name, err)
		}
	}
	if c.Serve {
		return true, nil
	}
	m.summary(os.Stdout)
	if c.Write {
		if err := m.writeReadme(ctx); err != nil {
			return false, err
		}
	}
	return m.passed(), ctx.Err()
}

// against starts a target and runs the suites on it.
func (c *cli) against(ctx context.Context, name string, chosen []*suite, prepared preparation, m *matrix) error {
	t, err := targets[name](ctx)
	if err != nil {
		return err
	}
	defer t.stop()
	control, err := t.serveControl()
	if err != nil {
		return err
	}
	env := append(t.environment(), "CLIENTS_TARGET="+name, "CLIENTS_CONTROL="+control, "CLIENTS_SCENE="+c.Scene)
	if c.Serve {
		for _, e := range env {
			fmt.Fprintln(os.Stdout, "export", e)
		}
		<-ctx.Done()
		return nil
	}
	for _, s := range chosen {
		if err := prepared.wait(s); err != nil {
			return fmt.Errorf("suite %s: %w", s.name, err)
		}
		if err := t.heal(ctx); err != nil {
			return fmt.Errorf("before suite %s: %w", s.name, err)
		}
		m.results = append(m.results, s.run(ctx, c.Time, name, env)...)
		examined, err := t.examine(ctx, s, name)
		if err != nil {
			return fmt.Errorf("after suite %s: %w", s.name, err)
		}
		for _, r := range examined {
			fmt.Fprintf(os.Stdout, "%-5s RESULT %s %s %s %s %s %s\n", name, r.client, r.version, r.mode, r.scene, r.verdict, r.words)
		}
		m.results = append(m.results, examined...)
	}
	return nil
}

// choose resolves names of suites.
func choose(names []string) ([]*suite, error) {
	var chosen []*suite
	for _, n := range names {
		if n == "all" {
			return suites, nil
		}
		i := slices.IndexFunc(suites, func(s *suite) bool { return s.name == n })
		if i < 0 {
			return nil, fmt.Errorf("there is no suite %q: see --list", n)
		}
		chosen = append(chosen, suites[i])
	}
	return chosen, nil
}

func inRepository() error {
	if _, err := os.Stat("clients/doc.go"); err != nil {
		return errors.New("run it in the root of the repository: go run ./clients")
	}
	return nil
}
