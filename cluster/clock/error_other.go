//go:build !linux

package cluster

import (
	"errors"
	"time"
)

// SystemWallError is by how much the wall clock of this machine may be off. Its error says why that is not known.
func SystemWallError() (time.Duration, error) {
	return 0, errors.New("this system does not say by how much its clock may be off")
}
