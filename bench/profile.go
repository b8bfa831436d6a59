package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lockd/cmd/lockd/bench"
)

// profileCmd makes the profile by which Go compiles lockd: in which functions three nodes spend their time, while
// clients do what lock programs do.
type profileCmd struct {
	Time   time.Duration `default:"8s" help:"Length of each load."`
	Out    string        `required:"" help:"Where it is written; go build finds it in cmd/lockd/default.pgo." type:"path" placeholder:"FILE"`
	Binary string        `help:"The lockd to profile (default: built from this repository)." type:"path" placeholder:"FILE"`
}

// profileLoads are alike in length, so each counts as much as the others.
var profileLoads = []struct {
	workload, options string
	clients, pipeline int
}{
	{"set", "?to=master", 50, 1},
	{"set", "", 50, 16},
	{"get", "", 50, 1},
	{"lock", "", 50, 1},
	{"reentrant", "", 50, 1},
	{"contend", "?to=master", 50, 1},
	{"mixed", "", 50, 1},
}

// profilePassword is that of the nodes: without one they show their profiles to nobody.
const profilePassword = "profile"

func (c *profileCmd) run(ctx context.Context, _, progress io.Writer) error {
	f, err := newFarm(ctx, c.Binary, progress)
	if err != nil {
		return err
	}
	defer f.close()
	pages, err := addrs(lockdNodes)
	if err != nil {
		return err
	}
	nodes, err := f.startLockd("lockd", lockdNodes, func(i int) []string {
		return []string{"--requirepass", profilePassword, "--http-listen", pages[i]}
	})
	if err != nil {
		return err
	}
	for i, p := range nodes {
		if err := p.await(ctx, func(ctx context.Context) error { return save(ctx, pages[i], "/readyz", os.DevNull) }); err != nil {
			return err
		}
	}
	var files []string
	for i := range profileLoads {
		these, err := c.profile(ctx, f, i, nodes, pages)
		if err != nil {
			return err
		}
		files = append(files, these...)
	}
	return merge(ctx, files, c.Out)
}

// profile has the nodes profiled under one of the loads, and returns the files of that.
func (c *profileCmd) profile(ctx context.Context, f *farm, i int, nodes []*proc, pages []string) ([]string, error) {
	l := profileLoads[i]
	cfg := &bench.Config{
		Target:   []string{target("lockd", "redis", l.options, nodes)},
		Workload: []string{l.workload}, Clients: []int{l.clients}, Pipeline: l.pipeline,
		Time: c.Time, Rounds: 1, Keys: 1000, ValueSize: valueSize, Login: bench.Login{Password: profilePassword},
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := cfg.Measure(ctx, f.progress)
		loaded <- err
	}()
	var files []string
	saved := make(chan error, len(nodes))
	for n := range nodes {
		file := filepath.Join(f.dir, fmt.Sprintf("%d-%d.pprof", i, n))
		files = append(files, file)
		go func() {
			path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(max(c.Time, time.Second).Seconds()))
			saved <- save(ctx, pages[n], path, file)
		}()
	}
	err := <-loaded
	for range nodes {
		err = errors.Join(err, <-saved)
	}
	return files, err
}

// save writes what a node's page answers to a file.
func save(ctx context.Context, addr, path, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth("default", profilePassword)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", path, res.Status, body)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o644)
}

// merge makes one profile of several.
func merge(ctx context.Context, files []string, out string) error {
	pprof := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-proto", "-output", out}, files...)...)
	if said, err := pprof.CombinedOutput(); err != nil {
		return fmt.Errorf("go tool pprof: %w: %s", err, said)
	}
	return nil
}
