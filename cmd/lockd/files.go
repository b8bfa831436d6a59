package main

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"lockd/cluster/peer"
	"lockd/resp/server"
)

// filesReserved are the file descriptors of a node that clients do not get: those of
// the log, snapshots, peers and listeners, of which a node of three that is busy has 30 and
// one of five 50, those of browsers, who are 48 at most, those of strangers who connect to
// the port of the peers, and those of connections that are about to be closed.
const filesReserved = 128 + peer.UnprovenConnsMax

// clientsDefault is how many clients a process should have descriptors for where --maxclients does not say it: the
// default of the cluster's setting maxclients.
const clientsDefault = 10000

// files is the process's limit of open files, systemFiles; tests have their own.
type files struct {
	get, set func(*fileLimit) error
}

// seats fits the number of clients of all servers of a process to its limit of open files,
// which it raises if it must and may: wanted are the clients, reserved the descriptors that clients
// do not get. Go has raised the soft limit to the hard one. The
// number follows the limit, which can be changed from outside (prlimit).
func (f files) seats(wanted int64, reservedFiles int, log *slog.Logger) (*server.Seats, error) {
	reserved := uint64(reservedFiles)
	need := uint64(wanted) + reserved
	var have fileLimit
	if err := f.get(&have); err != nil {
		return nil, fmt.Errorf("the limit of open files cannot be read: %w", err)
	}
	if have.Cur < need {
		more := fileLimit{Cur: need, Max: max(need, have.Max)}
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
	return server.NewSeats(func() int64 {
		var now fileLimit
		if err := f.get(&now); err == nil {
			last.Store(now.Cur)
		}
		return max(0, int64(min(last.Load(), 1<<30))-int64(reserved))
	}), nil
}
