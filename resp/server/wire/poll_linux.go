package wire

import "golang.org/x/sys/unix"

// pollHangUp is the event that the client has closed its sending side.
const pollHangUp = unix.POLLRDHUP
