package stats

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OSName returns the system's name, release and machine.
func OSName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " +
		unix.ByteSliceToString(u.Machine[:])
}

// systemBytes returns the machine's memory in bytes.
func systemBytes() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
