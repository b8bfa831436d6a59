package target

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// proc is one server process that can be started again and again. Its methods may
// be called concurrently.
type proc struct {
	name    string
	path    string
	args    []string
	logPath string

	mu      sync.Mutex
	cmd     *exec.Cmd     // nil: not running
	exited  chan struct{} // closed when cmd has ended
	told    bool          // it was told to end
	deaths  []string      // ends nobody asked for
	paused  bool
	started int
}

// starts carries the starts of processes to one thread that never ends: the
// kernel ties a child's death signal to the thread that made it.
var starts = sync.OnceValue(func() chan<- func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

func startOnThread(cmd *exec.Cmd) error {
	err := make(chan error)
	starts() <- func() { err <- cmd.Start() }
	return <-err
}

// setArgs changes what the next start is told.
func (p *proc) setArgs(args []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.args = args
}

// start starts the process if it does not run.
func (p *proc) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return nil
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.started++
	fmt.Fprintf(log, "---- start %d ----\n", p.started)
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr()
	if err := startOnThread(cmd); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.cmd, p.exited, p.told, p.paused = cmd, make(chan struct{}), false, false
	go p.watch(cmd, p.exited)
	return nil
}

func (p *proc) watch(cmd *exec.Cmd, exited chan struct{}) {
	_ = cmd.Wait()
	p.mu.Lock()
	if !p.told {
		p.deaths = append(p.deaths, fmt.Sprintf("%s ended by itself: %s (see its log)", p.name, cmd.ProcessState))
	}
	p.cmd = nil
	p.mu.Unlock()
	close(exited)
}

// end ends the process with a signal and waits until it is gone; after patience
// it is killed.
func (p *proc) end(sig syscall.Signal, patience time.Duration) {
	p.mu.Lock()
	cmd, exited := p.cmd, p.exited
	if cmd == nil {
		p.mu.Unlock()
		return
	}
	p.told = true
	_ = cmd.Process.Signal(sig)
	p.mu.Unlock()
	select {
	case <-exited:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-exited
	}
}

// kill ends the process with SIGKILL.
func (p *proc) kill() { p.end(syscall.SIGKILL, 10*time.Second) }

// pause stops the process, or lets it go on.
func (p *proc) pause(stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.paused == stop {
		return
	}
	sig := syscall.SIGCONT
	if stop {
		sig = syscall.SIGSTOP
	}
	_ = p.cmd.Process.Signal(sig)
	p.paused = stop
}

// takeDeaths returns the ends that nobody asked for, and forgets them.
func (p *proc) takeDeaths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.deaths
	p.deaths = nil
	return d
}

// running reports whether the process runs and is not paused.
func (p *proc) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && !p.paused
}
