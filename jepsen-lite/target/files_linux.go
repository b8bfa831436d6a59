package target

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// limitFiles gives the process so many file descriptors more than it has open; 0: as many
// as it may have at all.
func (p *proc) limitFiles(room int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs {
		return errNotRunning
	}
	pid := p.now.PID()
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

// forgetPeak has the kernel forget the most memory that a process had.
const forgetPeak = "5"

// memory is how many bytes of memory the process has, and the most that it had since the last call.
func (p *proc) memory() (now, most int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs {
		return 0, 0, errNotRunning
	}
	dir := fmt.Sprintf("/proc/%d/", p.now.PID())
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return 0, 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "VmRSS":
			_, err = fmt.Sscanf(text, "%d kB", &now)
		case "VmHWM":
			_, err = fmt.Sscanf(text, "%d kB", &most)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if now == 0 {
		return 0, 0, errors.New("the kernel does not tell") // it has just ended
	}
	return now << 10, most << 10, os.WriteFile(dir+"clear_refs", []byte(forgetPeak), 0)
}
