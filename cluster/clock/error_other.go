//go:build !linux

package clock

import (
	"errors"
	"time"
)

// WallError returns the possible error of this machine's wall clock. Its error says why that is not known.
func WallError() (time.Duration, error) {
	return 0, errors.New("this system does not say by how much its clock may be off")
}
