package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Exit statuses of an EndError that are not the command's; the last three are a shell's.
const (
	StatusFault       = 1  // the server refuses, or the command's output could not be written
	StatusNotAcquired = 75 // EX_TEMPFAIL: another try may succeed
	StatusLost        = 76

	statusCannotRun = 126
	statusNoCommand = 127
	statusSignalled = 128 // and the signal's number
)

// EndError is an end other than the command's with status 0.
type EndError struct {
	Status int
	Why    string // "": there is nothing to say
}

func (e EndError) Error() string { return e.Why }

// fenceVariable tells the command the fence of its lock.
const fenceVariable = "LOCKD_FENCE"

const (
	releaseMax = 5 * time.Second // how long a release is tried
	silentMax  = time.Second     // a longer wait for the lock is reported
)

// Command is a program that runs while a lock is held.
type Command struct {
	Holder *Holder
	Lock   string        // its key, as errors name it
	Wait   time.Duration // how long to wait in line for the lock
	Grace  time.Duration // from SIGTERM to SIGKILL once the lock is lost, at most
	Args   []string      // the program and its arguments

	Stdout, Stderr io.Writer // the program's; Stderr also gets what Run reports
}

// Run takes the lock, runs the program, and releases the lock. While it runs, the signals that this process gets are
// passed on to the program. An error is an EndError.
func (c *Command) Run() error {
	path, err := exec.LookPath(c.Args[0])
	switch {
	case errors.Is(err, os.ErrPermission):
		return EndError{statusCannotRun, err.Error()}
	case err != nil:
		return EndError{statusNoCommand, err.Error()}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	fence, err := c.acquire(signals)
	if err != nil {
		_ = c.release() // there is nothing, or a place in line that the server ends by itself
		return err
	}
	child := exec.Command(path)
	child.Args = c.Args
	child.Env = append(os.Environ(), fenceVariable+"="+strconv.FormatInt(fence, 10))
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, c.Stdout, c.Stderr
	err = c.watch(child, signals)
	released := c.release()
	if errors.Is(released, ErrNotHeld) && !errors.As(err, &LostError{}) {
		err = LostError{Why: released}
	}
	if errors.As(err, &LostError{}) {
		return EndError{StatusLost, err.Error()}
	}
	return err
}

// acquire waits for the lock, or for a signal.
func (c *Command) acquire(signals <-chan os.Signal) (fence int64, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fence, err = c.Holder.Acquire(ctx, c.Wait)
	}()
	waits := time.After(silentMax)
	for {
		select {
		case <-done:
			switch {
			case errors.Is(err, ErrNotHeld):
				err = EndError{StatusNotAcquired, fmt.Sprintf("the lock %s did not become free within %s", c.Lock, c.Wait)}
			case errors.As(err, &RefusedError{}):
				err = EndError{StatusFault, "the server refuses: " + err.Error()}
			case err != nil:
				err = EndError{StatusNotAcquired, fmt.Sprintf("the lock %s was not acquired within %s: %v", c.Lock, c.Wait, err)}
			}
			return fence, err
		case <-waits:
			fmt.Fprintf(c.Stderr, "lockd: waiting for the lock %s\n", c.Lock)
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok && ends(n) {
				cancel()
				<-done
				return 0, EndError{statusSignalled + int(n), ""}
			}
		}
	}
}

// release gives the lock back, or the place in line.
func (c *Command) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseMax)
	defer cancel()
	return c.Holder.Release(ctx)
}

// watch runs the command to its end and keeps the lock meanwhile. It returns a LostError if the lock was lost before
// the end.
func (c *Command) watch(child *exec.Cmd, signals <-chan os.Signal) (lost error) {
	group := newGroup(child)
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the command dies with the thread that has started it
		err := child.Start()
		started <- err
		if err == nil {
			ended <- child.Wait()
		}
	}()
	if err := <-started; err != nil {
		return EndError{statusCannotRun, err.Error()}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kept := make(chan error, 1)
	go func() { kept <- c.Holder.Keep(ctx, c.Grace) }()
	for kill := (<-chan time.Time)(nil); ; {
		select {
		case s := <-signals:
			group.pass(s)
		case lost = <-kept:
			fmt.Fprintf(c.Stderr, "lockd: %v: the command is told to end\n", lost)
			group.signal(syscall.SIGTERM)
			kill = time.After(c.Holder.patience(lost, c.Grace))
		case <-kill:
			group.signal(syscall.SIGKILL)
		case err := <-ended:
			cancel()
			if lost == nil {
				lost = <-kept
			}
			if lost != nil {
				group.signal(syscall.SIGKILL) // what the command has left behind
				return lost
			}
			return ofChild(child, err)
		}
	}
}

// ofChild returns the exit status of an ended command, by the rules of a shell.
func ofChild(child *exec.Cmd, err error) error {
	state := child.ProcessState
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return EndError{statusSignalled + int(status.Signal()), ""}
	}
	if code := state.ExitCode(); code != 0 {
		return EndError{code, ""}
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return EndError{StatusFault, err.Error()} // its output could not be written
	}
	return nil
}
