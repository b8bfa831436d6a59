//go:build unix

package nemesis

import (
	"math"
	"syscall"
)

// filesMax returns how many files this process may have open.
func filesMax() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt
	}
	return int(min(files.Cur, math.MaxInt))
}
