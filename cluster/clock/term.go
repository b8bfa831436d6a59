package clock

import (
	"sync/atomic"
	"time"
)

// Leadership is the term of a leader with the log clock of that term. A node makes one when it is ready to stamp
// entries, and drops it when it loses the leadership. It never changes.
type Leadership struct {
	Term   uint64
	Base   int64         // the log clock, in milliseconds, when all earlier entries had been applied
	Origin time.Duration // monotonic time at which Base was taken
	From   uint64        // index of the last entry before those of the term
	Clock  Clock
	Wall   *Wall // of the cluster
	Alone  bool  // this node was the only voter when the term began

	Former string        // the node that led before, if that was another one and this node heard it
	Heard  time.Duration // monotonic: when Former was heard last
}

// CurrentTerm holds this node's leadership; nil while it does not lead, and while it is elected but not ready.
type CurrentTerm struct{ atomic.Pointer[Leadership] }

// Held reports whether this node leads.
func (t *CurrentTerm) Held() bool { return t.Load() != nil }

// Takes reports whether a request bound to a term may be logged in this one; 0 binds to none.
func (l *Leadership) Takes(term uint64) bool {
	return term == 0 || term == l.Term
}

// Tick returns the leader's estimate of the log clock, in milliseconds. It excludes the time without a leader, so an
// election makes a lease end late, never early.
func (l *Leadership) Tick() int64 { return l.TickAt(l.Clock.Monotonic()) }

// TickAt returns Tick as of a monotonic time.
func (l *Leadership) TickAt(now time.Duration) int64 { return l.Base + (now - l.Origin).Milliseconds() }

// Until returns the time that the log clock takes to pass a deadline, at most IdleMax.
func (l *Leadership) Until(deadline int64) time.Duration {
	elapsed := l.Clock.Monotonic() - l.Origin
	if deadline-l.Base > (elapsed + IdleMax).Milliseconds() {
		return IdleMax
	}
	return time.Duration(deadline+1-l.Base)*time.Millisecond - elapsed
}

// LagMax bounds the lag of the replicated clock behind the leader's while leases run and nothing is written. A restart
// of all nodes prolongs leases by as much, because only the replicated clock survives it.
const LagMax = 5 * time.Second

// IdleMax bounds the sleep of an idle proposer.
const IdleMax = time.Hour
