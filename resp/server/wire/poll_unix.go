//go:build unix && !linux

package wire

import "golang.org/x/sys/unix"

// pollHangUp is the event that the client has closed its connection. Only Linux reports that a client has closed its
// sending side alone.
const pollHangUp = unix.POLLHUP
