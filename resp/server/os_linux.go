package server

import (
	"runtime"
	"syscall"
)

func osName() string {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	return cText(u.Sysname[:]) + " " + cText(u.Release[:]) + " " + cText(u.Machine[:])
}

func cText(chars []int8) string {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

// systemBytes asks the kernel how much memory the machine has.
func systemBytes() int64 {
	var si syscall.Sysinfo_t
	if syscall.Sysinfo(&si) != nil {
		return 0
	}
	return int64(si.Totalram) * int64(si.Unit)
}
