//go:build unix && !linux

package hold

import "syscall"

// dieWithParent does nothing: only Linux ends a command with the process that has started it.
func dieWithParent(*syscall.SysProcAttr) {}
