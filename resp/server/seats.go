package server

import (
	"math"
	"sync/atomic"
)

// Seats are the connections for which a process has file descriptors. The servers of a
// process share them, whatever maxclients says: what the log, snapshots and peers need is
// left to them. Its methods may be called concurrently; a nil Seats has no bound.
type Seats struct {
	most  func() int64
	taken atomic.Int64
}

// NewSeats makes seats for as many connections as most says, which is asked for each of
// them, from several goroutines: the limit of a process can change while it runs.
func NewSeats(most func() int64) *Seats { return &Seats{most: most} }

// Max is how many there are now. More may be taken, if there were more before.
func (s *Seats) Max() int64 {
	if s == nil {
		return math.MaxInt64
	}
	return s.most()
}

func (s *Seats) take() bool {
	if s == nil {
		return true
	}
	if s.taken.Add(1) > s.most() {
		s.taken.Add(-1)
		return false
	}
	return true
}

func (s *Seats) free() {
	if s != nil {
		s.taken.Add(-1)
	}
}
