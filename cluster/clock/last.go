package clock

import (
	"sync"
	"time"
)

// LastLeader records which other node led when this node last heard a leader, and when. Raft's LastContact does not say
// that: a vote that is granted moves it, too, and the end of this node's own leadership. All times are monotonic; all
// methods may be called concurrently.
type LastLeader struct {
	mu    sync.Mutex
	term  uint64 // the latest one in which a leader was heard, or in which this node led
	id    string // who led in it; "": this node
	heard time.Duration
	sure  time.Duration
}

// Heard records that the leader of a term was heard at now, and that it led at a moment not before sure; 0: that is not
// known of any moment.
func (l *LastLeader) Heard(term uint64, id string, now, sure time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sure = max(l.sure, sure); term < l.term {
		return
	}
	if term > l.term {
		l.term, l.id, l.heard = term, id, 0
	}
	l.heard = max(l.heard, now)
}

// Led records that this node leads in a term, and returns the leader before it and when that was heard; "" if it was
// this node, too, or none is known.
func (l *LastLeader) Led(term uint64) (former string, heard time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	former, heard = l.id, l.heard
	l.term, l.id, l.heard = max(l.term, term), "", 0
	return former, heard
}

// Sure returns the last moment at which another node is known to have led; 0 if there is none.
func (l *LastLeader) Sure() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sure
}
