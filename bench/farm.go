package main

import (
	"context"
	"errors"
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

// farm is all the processes of a run, and their folder.
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

// buildLockd builds lockd in the folder of its own module, whose go.mod says of what
// versions it is made; this process runs there, or in that of module bench.
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
		ending.Go(func() { p.end(syscall.SIGTERM) })
	}
	ending.Wait()
}

// proc is one server process.
type proc struct {
	name   string
	addr   string // for clients
	dir    string
	path   string
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}

	patience time.Duration // with one that was told to end
}

// add starts a process; its data folder is there.
func (f *farm) add(name, addr, path string, args func(dir string) []string) (*proc, error) {
	p := &proc{name: name, addr: addr, path: path, dir: filepath.Join(f.dir, name), patience: f.patience}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return nil, err
	}
	p.args = args(p.dir)
	if err := p.start(); err != nil {
		return nil, err
	}
	f.procs = append(f.procs, p)
	return p, nil
}

func (p *proc) logPath() string { return p.dir + ".log" }

func (p *proc) start() error {
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, log, log
	if err := process.Start(p.cmd); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s is not installed: %w", p.path, err)
		}
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}(p.cmd, p.exited)
	return nil
}

// end sends a signal and waits until the process is gone; one that does not go is
// killed.
func (p *proc) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // it may be gone
	select {
	case <-p.exited:
	case <-time.After(p.patience):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// readyMax bounds how long a started server may take until it serves.
const readyMax = 60 * time.Second

// await polls until serving has no error.
func (p *proc) await(ctx context.Context, serving func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	for {
		err := serving(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended by itself: %s", p.name, p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w: %s", p.name, err, p.lastWords())
		case <-time.After(pollEvery):
		}
	}
}

// pollEvery is how often is asked whether something has come.
const pollEvery = 5 * time.Millisecond

// lastWords are the last lines of its log.
func (p *proc) lastWords() string {
	text, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " | ")
}

// addrs are n addresses for servers, which no other server has.
func addrs(n int) ([]string, error) { return freeport.Addrs("127.0.0.1", n) }
