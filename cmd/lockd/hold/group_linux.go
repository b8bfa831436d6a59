package hold

import "syscall"

// dieWithParent makes the kernel end the command if this process is killed, because nothing would renew the lock.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
