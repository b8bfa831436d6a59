//go:build unix

package hold

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that are passed on to the command.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// ends reports whether a signal ends the wait for a lock.
func ends(s syscall.Signal) bool {
	return s != syscall.SIGWINCH && s != syscall.SIGUSR1 && s != syscall.SIGUSR2
}

// group is a command with all processes that it starts. At a terminal the group is a part of the shell's job: the
// terminal signals the job itself and lets it read, so only the command is signalled. Elsewhere it is a separate
// process group, so that no process works on without the lock.
type group struct {
	child *exec.Cmd
	own   bool
}

// newGroup prepares a command that is to be started.
func newGroup(child *exec.Cmd) group {
	foreground, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	g := group{child: child, own: err != nil || foreground != unix.Getpgrp()}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: g.own}
	dieWithParent(child.SysProcAttr)
	return g
}

// pass sends a signal that this process has got.
func (g group) pass(s os.Signal) {
	n, ok := s.(syscall.Signal)
	if !ok || !g.own && (n == syscall.SIGINT || n == syscall.SIGQUIT || n == syscall.SIGWINCH) {
		return // the terminal has sent it to both
	}
	g.signal(n)
}

// signal sends a signal; it does nothing if the group has ended.
func (g group) signal(n syscall.Signal) {
	if g.own {
		_ = syscall.Kill(-g.child.Process.Pid, n)
		return
	}
	_ = g.child.Process.Signal(n)
}
