//go:build !linux

package server

import "runtime"

func osName() string { return runtime.GOOS + " " + runtime.GOARCH }

// systemBytes is not known here.
func systemBytes() int64 { return 0 }
