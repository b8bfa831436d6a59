//go:build !linux

package stats

import "runtime"

// OSName returns the system's name and machine.
func OSName() string { return runtime.GOOS + " " + runtime.GOARCH }

// systemBytes returns 0: not known on this system.
func systemBytes() int64 { return 0 }
