//go:build unix && !linux

package hold

import "syscall"

// dieWithParent does nothing: only Linux ends a command together with its parent.
func dieWithParent(*syscall.SysProcAttr) {}
