//go:build !linux

package stats

import "runtime"

// OSName is the system's name and machine.
func OSName() string { return runtime.GOOS + " " + runtime.GOARCH }

// systemBytes is not known here.
func systemBytes() int64 { return 0 }
