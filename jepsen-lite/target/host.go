package target

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"lockd/internal/freeport"
	"lockd/internal/process"
)

// Host is where nodes run, and how they are reached: this machine, with its processes and sockets, or a simulation of
// both. Its methods may be called concurrently.
type Host interface {
	// Addrs returns n addresses at a host of the machine at which nobody else listens.
	Addrs(host string, n int) ([]string, error)
	// Listen opens a port. It has one listener at a time.
	Listen(addr string) (net.Listener, error)
	// Dial connects to a port. The error wraps syscall.ECONNREFUSED if nobody listens there.
	Dial(addr string, timeout time.Duration) (net.Conn, error)
	// Start starts a process.
	Start(c process.Command) (Process, error)
	// Run runs a command to its end, or until ctx ends, and returns its exit status and what it printed.
	Run(ctx context.Context, c process.Command) (status int, said string, err error)
	// Fill makes the disk of processes full that look for a file (fullVar), or gives it space again.
	Fill(file string, full bool) error
	// Folder returns the data folder of processes that have this path for it.
	Folder(dir string) Folder
	// LogFrom returns the text of a log from an offset on, or "" without a log.
	LogFrom(path string, offset int64) string
	// LogSize returns the length of a log; it fails without a log.
	LogSize(path string) (int64, error)
}

// Process is a process of a Host. Its methods may be called concurrently, and do nothing to a process that has ended.
type Process interface {
	// Ended returns a channel that is closed when the process has ended.
	Ended() <-chan struct{}
	// Exit returns how an ended process has ended, in the words of os.ProcessState, and its exit code: -1 after a
	// signal.
	Exit() (status string, code int)
	Signal(sig syscall.Signal)
	Pause()
	Resume()
	PID() int
	// Output returns all that the process has written to its log.
	Output() string
	// LastLines returns the last n lines of that, or fewer.
	LastLines(n int) []string
}

// thisMachine is the Host whose processes and sockets are real.
type thisMachine struct{}

func (thisMachine) Addrs(host string, n int) ([]string, error) { return freeport.Addrs(host, n) }

func (thisMachine) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

func (thisMachine) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, timeout)
}

func (thisMachine) Start(c process.Command) (Process, error) {
	c.Env = append(os.Environ(), c.Env...)
	p, err := c.Start()
	if err != nil {
		return nil, err
	}
	return realProcess{p}, nil
}

// runEnd bounds the wait for a command that is killed, and for its children to close its output.
const runEnd = 2 * time.Second

func (thisMachine) Run(ctx context.Context, c process.Command) (status int, said string, err error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.WaitDelay = runEnd
	out, err := cmd.CombinedOutput()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) && ctx.Err() == nil {
		return exited.ExitCode(), string(out), nil
	}
	return 0, string(out), err
}

func (thisMachine) Fill(file string, full bool) error {
	if full {
		return os.WriteFile(file, nil, 0o600)
	}
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (thisMachine) LogFrom(path string, offset int64) string { return process.LogFrom(path, offset) }

func (thisMachine) LogSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// realProcess is a Process of thisMachine.
type realProcess struct{ *process.Process }

// Exit implements Process.
func (p realProcess) Exit() (status string, code int) {
	state := p.State()
	return state.String(), state.ExitCode()
}

// stopBy ends a process by order, and waits until it is gone. After patience it is killed, and stopBy reports false.
func stopBy(p Process, order func(), patience time.Duration) bool {
	order()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.Ended():
		return true
	case <-late.C:
	}
	select {
	case <-p.Ended():
		return true
	default:
	}
	p.Signal(syscall.SIGKILL)
	<-p.Ended()
	return false
}

// LongLock is a lock that may be held while time passes, as until a node has stopped. Virtual time moves on while
// goroutines wait for it, and not while one waits for a sync.Mutex. The zero value is not held.
type LongLock struct {
	mu   sync.Mutex
	held bool
	free *sync.Cond // nil: it was never held
}

// Lock waits until nobody holds the lock, and takes it.
func (l *LongLock) Lock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free == nil {
		l.free = sync.NewCond(&l.mu)
	}
	for l.held {
		l.free.Wait()
	}
	l.held = true
}

// Unlock gives the lock back, which the caller holds.
func (l *LongLock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.free.Signal()
}
