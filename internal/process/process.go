// Package process runs servers, for tests and for programs that try them, measure them or break them: it starts them,
// waits until they serve, signals them, and returns how they ended and what they wrote (process.go). It lays out
// clusters of lockd (cluster.go).
//
// Each process is in a process group of its own, so that the terminal's Ctrl-C does not reach it: this program ends it,
// in order. On Linux the kernel kills it when this program dies, however that happens. On systems without the signals
// of Unix nothing starts.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is a program that can be started several times.
type Command struct {
	Name    string // of the processes, in errors
	Path    string // the program, or its name
	Args    []string
	Dir     string    // working directory; "": that of this process
	Env     []string  // nil: that of this process
	Stdin   io.Reader // nil: empty
	Tied    bool      // instead of Stdin: a pipe without data that closes with this process
	Log     string    // file to which the output is appended; required
	Heading string    // a line in the log before the output; "": none
}

// Process is a process that was started. Its methods may be called concurrently. A nil Process was never started: it
// does not run, and signals do nothing.
type Process struct {
	name  string
	log   string
	from  int64 // offset of its output in the log
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// starts carries the starts of processes to one thread that never ends: the kernel ties the death signal of a child to
// the thread that started it.
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

// logMode is the mode of a log, which only this user may read.
const logMode = 0o600

// Start starts a process whose output is appended to the log. It may be called concurrently.
func (c Command) Start() (*Process, error) {
	p := &Process{name: c.Name, log: c.Log, ended: make(chan struct{})}
	if err := p.start(c); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%s is not installed: %w", c.Path, err)
		}
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says how it ended
		close(p.ended)
	}()
	return p, nil
}

func (p *Process) start(c Command) error {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, logMode)
	if err != nil {
		return err
	}
	defer log.Close()
	if p.from, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if c.Heading != "" {
		if _, err := fmt.Fprintln(log, c.Heading); err != nil {
			return err
		}
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.Dir, c.Env, c.Stdin, log, log
	if c.Tied {
		p.cmd.Stdin = nil
		if _, err := p.cmd.StdinPipe(); err != nil { // Wait closes it
			return err
		}
	}
	if p.cmd.SysProcAttr, err = attributes(); err != nil {
		return err
	}
	started := make(chan error)
	starts() <- func() { started <- p.cmd.Start() }
	return <-started
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// State returns how the process has ended, or nil while it runs.
func (p *Process) State() *os.ProcessState {
	if p.Running() {
		return nil
	}
	return p.cmd.ProcessState
}

// Signal sends a signal. It does nothing to a process that has ended.
func (p *Process) Signal(sig syscall.Signal) {
	if p != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Pause stops the process with SIGSTOP.
func (p *Process) Pause() { p.Signal(sigStop) }

// Resume continues the process with SIGCONT.
func (p *Process) Resume() { p.Signal(sigCont) }

// Kill ends the process with SIGKILL, and waits until it is gone.
func (p *Process) Kill() { p.Stop(syscall.SIGKILL, killMax) }

// killMax is longer than the kernel takes to kill a process.
const killMax = 10 * time.Second

// Stop ends the process with a signal, and waits until it is gone. After patience it is killed, and Stop reports false.
func (p *Process) Stop(sig syscall.Signal, patience time.Duration) bool {
	return p.StopBy(func() { p.Signal(sig) }, patience)
}

// StopBy ends the process by order instead of a signal, as Stop does.
func (p *Process) StopBy(order func(), patience time.Duration) bool {
	if p == nil {
		return true
	}
	order()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.ended:
		return true
	case <-late.C:
		obeyed := !p.Running()
		p.Signal(syscall.SIGKILL)
		<-p.ended
		return obeyed
	}
}

// EndedError reports that a process has ended, and how.
type EndedError struct {
	Name  string
	State *os.ProcessState
	Last  []string // last lines of the output
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s ended by itself: %s: %s", e.Name, e.State, strings.Join(e.Last, " | "))
}

// lastLines bounds how many lines of the output an error shows.
const lastLines = 5

// Err returns nil while the process runs, and then an EndedError.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return &EndedError{p.name, p.State(), p.LastLines(lastLines)}
}

// Await calls serves again and again until it returns no error. It fails when the process has ended, or ctx.
func (p *Process) Await(ctx context.Context, every time.Duration, serves func(context.Context) error) error {
	for {
		err := serves(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.Err()
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w: %s", p.name, err, strings.Join(p.LastLines(lastLines), " | "))
		case <-time.After(every):
		}
	}
}

// lastBytesMax bounds how much of the end of the output is searched for its last lines.
const lastBytesMax = 8 << 10

// LastLines returns the last n lines that the process has written, or fewer.
func (p *Process) LastLines(n int) []string {
	text := p.Output()
	text = text[max(0, len(text)-lastBytesMax):]
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// Output returns all that the process has written so far, with its heading.
func (p *Process) Output() string { return LogFrom(p.log, p.from) }

// LogFrom returns the text of a log from an offset on, or "" without a log.
func LogFrom(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return ""
	}
	text, _ := io.ReadAll(f)
	return string(text)
}
