package fault

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The faults that can be armed at a point.
const (
	ActKill  = "kill"  // the process dies on the spot, its files as they are
	ActDrop  = "drop"  // it dies, and everything unsynced is lost
	ActTear  = "tear"  // it dies, and a part of what was unsynced survives
	ActError = "error" // the operation fails with EIO
	ActFull  = "full"  // the operation fails with ENOSPC
	ActStall = "stall" // the operation waits
	ActSlow  = "slow"  // the operation waits between a quarter of the time and all of it, each time
)

var acts = []string{ActKill, ActDrop, ActTear, ActError, ActFull, ActStall, ActSlow}

// Set holds the faults that are armed at the points of one simulated node. nil is the set of this process: that of its
// control port in a test build, none in a normal build. The zero value is an empty set. Its methods may be called
// concurrently.
type Set struct {
	Die  func(how string)        // ends the node as a kill, a drop or a tear does; it returns
	Told func(act, point string) // hears of each strike; nil: nobody does
	Draw func(n int) int         // draws how long a slow point waits, below n; nil: by chance
	Gone <-chan struct{}         // closed when the node has ended: nothing waits at a point any more; nil: never

	isArmed atomic.Bool // a point is armed, or was since the last Reset
	mu      sync.Mutex
	points  map[string]*armed
}

// armed is the fault that waits at a point.
type armed struct {
	act    string
	stall  time.Duration
	skip   int // times to let pass before
	struck chan struct{}
}

// At is called at a point and returns the error of a fault there. An armed point strikes once, unless it is slow.
func (s *Set) At(point string) error {
	if s == nil {
		return At(point)
	}
	return s.strike(point)
}

func (s *Set) strike(point string) error {
	a := s.due(point)
	if a == nil {
		return nil
	}
	if s.Told != nil {
		s.Told(a.act, point)
	}
	switch a.act {
	case ActError:
		return syscall.EIO
	case ActFull:
		return syscall.ENOSPC
	case ActStall:
		s.wait(a.stall)
	case ActSlow:
		s.wait(a.stall/4 + s.upTo(a.stall*3/4))
	default:
		s.Die(a.act)
	}
	return nil
}

// wait waits for a time, or until the node has ended.
func (s *Set) wait(length time.Duration) {
	t := time.NewTimer(length)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.Gone:
	}
}

// upTo draws a time.
func (s *Set) upTo(most time.Duration) time.Duration {
	if s.Draw == nil {
		return rand.N(most + 1)
	}
	return time.Duration(s.Draw(int(most) + 1))
}

// due returns the fault that strikes at a point now, or nil.
func (s *Set) due(point string) *armed {
	if !s.isArmed.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.points[point]
	switch {
	case a == nil:
		return nil
	case a.skip > 0:
		a.skip--
		return nil
	case a.act != ActSlow:
		delete(s.points, point)
		close(a.struck)
	}
	return a
}

// Arm arms a fault at a point, instead of the one that is armed there. struck is closed when it strikes; a slow point
// never closes it. The fault strikes after skip passes of the point.
func (s *Set) Arm(point, act string, stall time.Duration, skip int) (struck <-chan struct{}, err error) {
	if !slices.Contains(Points, point) || !slices.Contains(acts, act) {
		return nil, errors.New("no such point or action")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.points == nil {
		s.points = map[string]*armed{}
	}
	a := &armed{act: act, stall: stall, skip: skip, struck: make(chan struct{})}
	s.points[point] = a
	s.isArmed.Store(true)
	return a.struck, nil
}

// Reset disarms all points.
func (s *Set) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = nil
	s.isArmed.Store(false)
}
