// Package process starts servers, for programs that measure them or break them.
package process

import (
	"os/exec"
	"runtime"
	"sync"
)

// starts carries the starts of processes to one thread that never ends: the kernel
// ties a child's death signal to the thread that made it.
var starts = sync.OnceValue(func() chan<- func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

// Start starts a command in a process group of its own, so that the terminal's Ctrl-C does
// not reach it: its user ends it in order. On Linux the kernel kills it when this process
// dies, however that happens. It fails on systems without the signals of Unix. It may be
// called concurrently.
func Start(cmd *exec.Cmd) (err error) {
	if cmd.SysProcAttr, err = attributes(); err != nil {
		return err
	}
	started := make(chan error)
	starts() <- func() { started <- cmd.Start() }
	return <-started
}
