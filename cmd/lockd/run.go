package main

import (
	"context"
	"crypto/rand"
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

	"lockd/cmd/lockd/hold"
)

// Exit statuses of lockd run that are not the command's; the last three are a shell's.
const (
	exitNotAcquired = 75 // EX_TEMPFAIL: later it may be another's turn no more
	exitLost        = 76
	exitCannotRun   = 126
	exitNoCommand   = 127
	exitSignalled   = 128 // and the signal's number
)

// exitError is a command's end with a status of its own.
type exitError struct {
	status int
	why    string // "": there is nothing to say
}

func (e exitError) Error() string { return e.why }

// runCmd runs a program while it holds a lock.
type runCmd struct {
	Lock  string        `required:"" help:"Key of the lock." placeholder:"KEY"`
	Px    time.Duration `default:"30s" help:"Lease of the lock, which is begun anew three times within it (default: ${default})."`
	Wait  time.Duration `default:"1m" help:"How long to wait in line for the lock (default: ${default})."`
	Grace time.Duration `default:"10s" help:"When the lock is lost the command gets SIGTERM, and after this time SIGKILL; if the servers do not answer, so early that its lease still lasts (default: ${default})."`

	Shared bool `help:"Hold the lock beside others that run with --shared; who runs without waits for all of them."`
	Limit  int  `help:"Hold the lock beside others, of whom there are so many at most; all say the same number (default: alone)." placeholder:"N"`

	clusterFlags `embed:""`

	Command []string `arg:"" passthrough:"" help:"The command and its arguments, behind --."`
}

// fenceVariable tells the command the fence of its lock.
const fenceVariable = "LOCKD_FENCE"

func (c *runCmd) check() error {
	if err := c.clusterFlags.check(); err != nil {
		return err
	}
	if c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	switch {
	case len(c.Command) == 0:
		return usagef("there is no command behind --")
	case c.Px < runLeaseMin:
		return usagef("--px %s is less than %s", c.Px, runLeaseMin)
	case c.Limit < 0:
		return usagef("--limit %d is negative", c.Limit)
	case c.Shared && c.Limit > 0:
		return usagef("--shared and --limit are two kinds of lock")
	case c.Wait < 0:
		return usagef("--wait %s is negative", c.Wait)
	case c.Grace < 0 || c.Grace > c.Px/2:
		return usagef("--grace %s is not between 0s and half of --px %s: the lock could not be renewed in time",
			c.Grace, c.Px)
	}
	return nil
}

const (
	runLeaseMin   = time.Second     // of --px
	runReleaseMax = 5 * time.Second // how long a release is tried
	runSilentMax  = time.Second     // who waits for longer for a lock is told so
)

// holder returns who is to hold the lock, under a token that nobody else has.
func (c *runCmd) holder() *hold.Holder {
	host, _ := os.Hostname() // "" will do
	name := fmt.Sprintf("lockd-run:%s:%d", host, os.Getpid())
	return hold.New(&hold.Cluster{
		Addrs: c.Addr, User: c.User, Password: c.Auth, TLS: c.secured, Name: name,
		Key: c.Lock, Token: rand.Text() + "@" + name, Lease: c.Px, Options: c.options(),
	}, c.Px)
}

// options are the words of LOCK that say beside whom it is held.
func (c *runCmd) options() []string {
	switch {
	case c.Shared:
		return []string{"SHARED"}
	case c.Limit > 0:
		return []string{"LIMIT", strconv.Itoa(c.Limit)}
	}
	return nil
}

// run takes the lock, runs the command, and releases the lock.
func (c *runCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	path, err := exec.LookPath(c.Command[0])
	switch {
	case errors.Is(err, os.ErrPermission):
		return exitError{exitCannotRun, err.Error()}
	case err != nil:
		return exitError{exitNoCommand, err.Error()}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	h := c.holder()
	fence, err := c.acquire(h, signals, stderr)
	if err != nil {
		_ = c.release(h) // there is nothing, or a place in line that the server ends by itself
		return err
	}
	child := exec.Command(path)
	child.Args = c.Command
	child.Env = append(os.Environ(), fenceVariable+"="+strconv.FormatInt(fence, 10))
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, stdout, stderr
	err = c.watch(h, child, signals, stderr)
	released := c.release(h)
	if errors.Is(released, hold.ErrNotHeld) && !errors.As(err, &hold.LostError{}) {
		err = hold.LostError{Why: released}
	}
	if errors.As(err, &hold.LostError{}) {
		return exitError{exitLost, err.Error()}
	}
	return err
}

// acquire waits for the lock, or for a signal.
func (c *runCmd) acquire(h *hold.Holder, signals <-chan os.Signal, stderr io.Writer) (fence int64, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fence, err = h.Acquire(ctx, c.Wait)
	}()
	waits := time.After(runSilentMax)
	for {
		select {
		case <-done:
			switch {
			case errors.Is(err, hold.ErrNotHeld):
				err = exitError{exitNotAcquired, fmt.Sprintf("the lock %s did not become free within %s", c.Lock, c.Wait)}
			case errors.As(err, &hold.RefusedError{}):
				err = exitError{exitFault, "the server refuses: " + err.Error()}
			case err != nil:
				err = exitError{exitNotAcquired, fmt.Sprintf("the lock %s was not acquired within %s: %v", c.Lock, c.Wait, err)}
			}
			return fence, err
		case <-waits:
			fmt.Fprintf(stderr, "lockd: waiting for the lock %s\n", c.Lock)
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok && ends(n) {
				cancel()
				<-done
				return 0, exitError{exitSignalled + int(n), ""}
			}
		}
	}
}

// release gives the lock back, or the place in line.
func (c *runCmd) release(h *hold.Holder) error {
	ctx, cancel := context.WithTimeout(context.Background(), runReleaseMax)
	defer cancel()
	return h.Release(ctx)
}

// watch runs the command to its end and keeps the lock meanwhile. A LostError says that the lock was
// lost before the end.
func (c *runCmd) watch(h *hold.Holder, child *exec.Cmd, signals <-chan os.Signal, stderr io.Writer) (lost error) {
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
		return exitError{exitCannotRun, err.Error()}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kept := make(chan error, 1)
	go func() { kept <- h.Keep(ctx, c.Grace) }()
	for kill := (<-chan time.Time)(nil); ; {
		select {
		case s := <-signals:
			group.pass(s)
		case lost = <-kept:
			fmt.Fprintf(stderr, "lockd: %v: the command is told to end\n", lost)
			group.signal(syscall.SIGTERM)
			kill = time.After(c.Grace)
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

// ofChild is the exit status of a command that has ended, as a shell has it.
func ofChild(child *exec.Cmd, err error) error {
	state := child.ProcessState
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitError{exitSignalled + int(status.Signal()), ""}
	}
	if code := state.ExitCode(); code != 0 {
		return exitError{code, ""}
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		return exitError{exitFault, err.Error()} // its output could not be written
	}
	return nil
}
