//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

// group makes the command fail to start, because processes that a suite starts could not be ended with it.
func group(cmd *exec.Cmd) {
	cmd.Err = errors.New("suites are ended with all that they have started: that takes process groups, " +
		"which this system does not have")
}
