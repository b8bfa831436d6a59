package target

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// limitFiles gives the process so many file descriptors more than it has open; 0: as many
// as it may have at all.
func (p *proc) limitFiles(room int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errNotRunning
	}
	pid := p.cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if room > 0 {
		limit.Cur = min(limit.Max, uint64(len(open)+room))
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)
}
