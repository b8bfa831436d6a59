package followers

import (
	"testing"

	"github.com/hashicorp/raft"
)

// A member that confirms the newest entry after the leader has applied it is told at once; a member that knows already,
// or lacks the entry, is not.
func TestAnnouncerWakesUp(t *testing.T) {
	for _, tt := range []struct {
		has, knows uint64
		want       bool
	}{{5, 4, true}, {5, 5, false}, {4, 4, false}} {
		a := NewAnnouncer(nil, nil, nil, nil)
		a.applied.Store(&raft.Log{Index: 5, Term: 1})
		a.Answered("n2", "n2:1", &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: tt.has, LeaderCommitIndex: tt.knows})
		if got := len(a.wake) > 0; got != tt.want {
			t.Errorf("a member has %d of 5 and knows of %d: it is told: %v", tt.has, tt.knows, got)
		}
	}
}
