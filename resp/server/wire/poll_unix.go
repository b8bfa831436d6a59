//go:build unix && !linux

package wire

import "golang.org/x/sys/unix"

// pollHangUp is the event of a client that has closed its connection. Only Linux tells when a
// client has closed nothing but its sending side.
const pollHangUp = unix.POLLHUP
