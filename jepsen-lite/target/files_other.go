//go:build !linux

package target

import "errors"

func (p *proc) limitFiles(int) error {
	return errors.New("the file descriptors of another process can be limited on Linux only")
}
