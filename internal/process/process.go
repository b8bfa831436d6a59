// Package process runs servers, for tests and for programs that try them, measure them or break them: it starts them,
// waits until they serve, signals them, and tells how they ended and what they said (process.go). It lays out clusters
// of lockd (cluster.go).
//
// Each process is in a process group of its own, so that the terminal's Ctrl-C does not reach it: this program ends it, in
// order. On Linux the kernel kills it when this program dies, however that happens. Nothing starts on systems without
// the signals of Unix.
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

// Command is a program that can be started again and again.
type Command struct {
	Name    string // of its processes, in errors
	Path    string // the program, or its name
	Args    []string
	Dir     string    // it runs in; "": the working directory of this process
	Env     []string  // nil: the environment of this process
	Stdin   io.Reader // nil: there is nothing to read
	Tied    bool      // instead of Stdin: a pipe to which nobody writes, and which ends with this process
	Log     string    // file to which its output is appended; needed
	Heading string    // a line for the log before that; "": none
}

// Process is a process that was started. Its methods may be called concurrently. Nil is a process that has never been:
// it does not run, and there is nothing to signal or to end.
type Process struct {
	name  string
	log   string
	from  int64 // where in the log its output begins
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// starts carries the starts of processes to one thread that never ends: the kernel
// ties a child's death signal to the thread that made it.
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

// logMode is that of a log: what servers say is nobody else's business.
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

// PID returns the number of the process.
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

// State returns how the process has ended; nil while it runs.
func (p *Process) State() *os.ProcessState {
	if p.Running() {
		return nil
	}
	return p.cmd.ProcessState
}

// Signal sends a signal; to a process that has ended it does nothing.
func (p *Process) Signal(sig syscall.Signal) {
	if p != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// Pause stops the process with SIGSTOP.
func (p *Process) Pause() { p.Signal(sigStop) }

// Resume lets it go on.
func (p *Process) Resume() { p.Signal(sigCont) }

// Kill ends the process with SIGKILL, and waits until it is gone.
func (p *Process) Kill() { p.Stop(syscall.SIGKILL, killMax) }

// killMax is longer than the kernel takes for a kill.
const killMax = 10 * time.Second

// Stop ends the process with a signal, and waits until it is gone. After patience it is killed, and Stop reports false.
func (p *Process) Stop(sig syscall.Signal, patience time.Duration) bool {
	return p.StopBy(func() { p.Signal(sig) }, patience)
}

// StopBy is Stop by an order of another kind.
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

// EndedError says that a process has ended by itself.
type EndedError struct {
	Name  string
	State *os.ProcessState
	Last  []string // lines of its log
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s ended by itself: %s: %s", e.Name, e.State, strings.Join(e.Last, " | "))
}

// lastLines is how many lines of its log an error shows.
const lastLines = 5

// Err returns nil while the process runs, and then an EndedError.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return &EndedError{p.name, p.State(), p.LastLines(lastLines)}
}

// Await asks the process again and again until it serves without an error. It fails when the process has ended, or ctx.
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

// lastBytesMax bounds how much of the end of a log is looked at for its last lines.
const lastBytesMax = 8 << 10

// LastLines returns the last n lines that the process has written, or fewer.
func (p *Process) LastLines(n int) []string {
	text := p.Said()
	text = text[max(0, len(text)-lastBytesMax):]
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// Said returns all that the process has written so far, with its heading.
func (p *Process) Said() string { return LogFrom(p.log, p.from) }

// LogFrom returns a log from an offset on; "" if there is none.
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
