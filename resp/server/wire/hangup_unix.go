//go:build unix

package wire

import "golang.org/x/sys/unix"

// asksKernel tells whether hungUp works on this system.
const asksKernel = true

// hungUp polls the descriptor, without waiting.
func hungUp(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: pollHangUp}}
	if _, err := unix.Poll(poll, 0); err != nil {
		return false
	}
	return poll[0].Revents&(pollHangUp|unix.POLLHUP|unix.POLLERR) != 0
}
