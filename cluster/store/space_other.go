//go:build !linux

package store

import (
	"errors"
	"os"
)

// diskSpace is not available: there is no ballast, and no disk counts as nearly full.
func diskSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }
