package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockd/internal/freeport"
	"lockd/internal/process"
)

// farm holds the processes of a run, and their folder.
type farm struct {
	dir      string
	binary   string // of lockd
	progress io.Writer
	procs    []*proc
	patience time.Duration // with a process that was told to end
}

// newFarm makes the folder, and builds lockd unless there is a binary.
func newFarm(ctx context.Context, binary string, progress io.Writer) (*farm, error) {
	dir, err := os.MkdirTemp("", "lockd-bench-")
	if err != nil {
		return nil, err
	}
	f := &farm{dir: dir, binary: binary, progress: progress, patience: stopMax}
	if binary == "" {
		f.binary = filepath.Join(dir, "lockd")
		if err := buildLockd(ctx, f.binary); err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

// buildLockd builds lockd in the folder of its module, whose go.mod determines the versions of its dependencies. This
// process runs there or in the folder of module bench.
func buildLockd(ctx context.Context, binary string) error {
	var said strings.Builder
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "lockd")
	list.Stderr = &said
	root, err := list.Output()
	if err == nil {
		build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-o", binary,
			"./cmd/lockd")
		build.Stderr = &said
		err = build.Run()
	}
	if err != nil {
		return fmt.Errorf("building lockd, within its sources: %w: %s", err, said.String())
	}
	return nil
}

// stopMax bounds the orderly end of a process; then it is killed.
const stopMax = 10 * time.Second

// close ends all processes and removes their data.
func (f *farm) close() {
	f.stop(f.procs...)
	_ = os.RemoveAll(f.dir) // a temporary folder
}

// stop ends processes, all at the same time.
func (f *farm) stop(procs ...*proc) {
	var ending sync.WaitGroup
	for _, p := range procs {
		ending.Go(func() { p.Stop(syscall.SIGTERM, p.patience) })
	}
	ending.Wait()
}

// proc is one server process.
type proc struct {
	*process.Process
	command  process.Command
	name     string
	addr     string // for clients
	dir      string
	patience time.Duration // with one that was told to end
}

// add starts a process with a new data folder.
func (f *farm) add(name, addr, path string, args func(dir string) []string) (*proc, error) {
	dir := filepath.Join(f.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &proc{name: name, addr: addr, dir: dir, patience: f.patience, command: process.Command{
		Name: name, Path: path, Args: args(dir), Dir: dir, Log: dir + ".log",
	}}
	if err := p.start(); err != nil {
		return nil, err
	}
	f.procs = append(f.procs, p)
	return p, nil
}

func (p *proc) start() (err error) {
	p.Process, err = p.command.Start()
	return err
}

// readyMax bounds how long a started server may take until it serves.
const readyMax = 60 * time.Second

// pollEvery is the interval of polling.
const pollEvery = 5 * time.Millisecond

// await polls until serving has no error.
func (p *proc) await(ctx context.Context, serving func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	return p.Await(ctx, pollEvery, serving)
}

// addrs returns n addresses for servers that no other server has.
func addrs(n int) ([]string, error) { return freeport.Addrs("127.0.0.1", n) }
