package keyspace

import (
	"syscall"
	"time"
)

// cpuTime is what the calling thread has used of a processor: a busy machine does not
// add to it.
func cpuTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
