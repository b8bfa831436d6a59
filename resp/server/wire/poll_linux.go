package wire

import "golang.org/x/sys/unix"

// pollHangUp is the event of a client that has closed its sending side.
const pollHangUp = unix.POLLRDHUP
