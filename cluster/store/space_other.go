//go:build !linux

package store

import (
	"errors"
	"os"
)

// diskSpace is not told here: there is no ballast then, and no disk is called nearly full.
func diskSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }
