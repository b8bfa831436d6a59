// Package system connects a process with the operating system: it fits the number of clients to the limit of open
// files, and tells systemd what a node does.
package system

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

// FileLimit is a limit of open files; tests have their own.
type FileLimit struct {
	get, set func(*rlimit) error
}

// Fit returns how many clients the process has descriptors for; the function may be called concurrently.
// It raises the soft limit if it must and may (Go has raised it to the hard one): wanted are the clients, reserved the
// descriptors that clients do not get. The number follows the limit, which can be changed from outside (prlimit).
func (f FileLimit) Fit(wanted int64, reservedFiles int, log *slog.Logger) (func() int64, error) {
	reserved := uint64(reservedFiles)
	need := uint64(wanted) + reserved
	var have rlimit
	if err := f.get(&have); err != nil {
		return nil, fmt.Errorf("the limit of open files cannot be read: %w", err)
	}
	if have.Cur < need {
		more := rlimit{Cur: need, Max: max(need, have.Max)}
		switch err := f.set(&more); {
		case err == nil:
			log.Info(fmt.Sprintf("Increased maximum number of open files to %d (it was originally set to %d).",
				need, have.Cur))
			have = more
		case have.Cur <= reserved:
			return nil, fmt.Errorf("your current 'ulimit -n' of %d is not enough for the server to start: increase "+
				"your open file limit to at least %d",
				have.Cur, need)
		default:
			log.Warn(fmt.Sprintf("You requested maxclients of %d requiring at least %d max file descriptors.",
				wanted, need))
			log.Warn(fmt.Sprintf("Server can't set maximum open files to %d because of OS error: %v.", need, err))
			log.Warn(fmt.Sprintf(
				"Current maximum open files is %d. maxclients has been reduced to %d to compensate for low ulimit. "+
					"If you need higher maxclients increase 'ulimit -n'.",
				have.Cur,
				have.Cur-reserved,
			))
		}
	}
	var last atomic.Uint64
	last.Store(have.Cur)
	return func() int64 {
		var now rlimit
		if err := f.get(&now); err == nil {
			last.Store(now.Cur)
		}
		return max(0, int64(min(last.Load(), 1<<30))-int64(reserved))
	}, nil
}
