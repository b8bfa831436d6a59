//go:build !linux

package server

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// pollHangUp is the event of a client that has closed its connection: that it has closed
// its sending side only is heard of on Linux alone.
const pollHangUp = unix.POLLHUP

func osName() string { return runtime.GOOS + " " + runtime.GOARCH }

// systemBytes is not known here.
func systemBytes() int64 { return 0 }
