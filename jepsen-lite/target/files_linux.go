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

// limitFiles lets a process open room more file descriptors than it has open; 0 sets its limit back to the most that it
// may have.
func limitFiles(pid, room int) error {
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

// forgetPeak, written to /proc/PID/clear_refs, makes the kernel forget the most memory that a process had.
const forgetPeak = "5"

// memoryOf returns the bytes of memory that a process uses now, and the most that it used since the last call.
func memoryOf(pid int) (now, most int64, err error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
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
		return 0, 0, errors.New("the kernel does not tell") // the process has just ended
	}
	return now << 10, most << 10, os.WriteFile(dir+"clear_refs", []byte(forgetPeak), 0)
}
