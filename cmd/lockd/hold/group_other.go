//go:build !unix

package hold

import (
	"os"
	"os/exec"
	"syscall"
)

// passedOn are the signals that reach the command by the console; they do not end this process.
var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM}

// ends reports whether a signal ends the wait for a lock.
func ends(syscall.Signal) bool { return true }

// group is a command.
type group struct{ child *exec.Cmd }

func newGroup(child *exec.Cmd) group { return group{child} }

func (group) pass(os.Signal) {}

// signal ends the command: there is no asking here.
func (g group) signal(syscall.Signal) { _ = g.child.Process.Kill() }
