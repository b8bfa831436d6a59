//go:build unix

package hold

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that a command gets as if they had been sent to it.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// ends reports whether a signal ends who waits for a lock.
func ends(s syscall.Signal) bool {
	return s != syscall.SIGWINCH && s != syscall.SIGUSR1 && s != syscall.SIGUSR2
}

// group is a command with what it starts. At a terminal that is a part of the shell's job, which the
// terminal signals itself and which may read from it; then only the command is signalled. Elsewhere it
// is a process group of its own, so that nothing works on without the lock.
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

// signal sends a signal; to whom has ended it does nothing.
func (g group) signal(n syscall.Signal) {
	if g.own {
		_ = syscall.Kill(-g.child.Process.Pid, n)
		return
	}
	_ = g.child.Process.Signal(n)
}
