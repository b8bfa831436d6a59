package hold

import "syscall"

// dieWithParent has the kernel end the command if this process is killed: nobody would renew its lock.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
