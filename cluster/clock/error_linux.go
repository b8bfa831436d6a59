package clock

import (
	"errors"
	"syscall"
	"time"
)

// unsynchronized is the bit STA_UNSYNC in the kernel's status of its clock.
const unsynchronized = 0x40

// WallError returns the possible error of this machine's wall clock, as the program that synchronizes it has told the
// kernel. Its error says why that is not known.
func WallError() (time.Duration, error) {
	var t syscall.Timex
	if _, err := syscall.Adjtimex(&t); err != nil || t.Status&unsynchronized != 0 {
		return 0, errors.New("the clock of this machine is not synchronized, as far as its system knows")
	}
	return time.Duration(t.Maxerror) * time.Microsecond, nil
}
