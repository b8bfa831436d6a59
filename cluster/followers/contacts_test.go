package followers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
)

// contactsOf returns the contacts of a leader with two members that answer heartbeats.
func contactsOf(heartbeat time.Duration) (c *Contacts, voters []raft.Server) {
	for _, id := range []raft.ServerID{"n1", "n2", "n3"} {
		voters = append(voters, raft.Server{ID: id})
	}
	return NewContacts(clock.NewSystem(), "n1", heartbeat), voters
}

// hear has the members answer heartbeats for a while, and reports whether they could have replaced the leader.
func (c *Contacts) hear(voters []raft.Server, d time.Duration, busy bool) (unserved bool) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(c.heartbeat / 10) {
		unserved = unserved || c.Unserved(2, voters) != nil
		c.Answered("n2", busy)
		c.Answered("n3", busy)
	}
	return unserved || c.Unserved(2, voters) != nil
}

// A delivery is late after its limit, not counting the time in which the member is silent or busy.
func TestDeliveryIsLate(t *testing.T) {
	entries := func(size int) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: 2, Entries: []*raft.Log{{Data: []byte(strings.Repeat("x", size))}}}
	}
	for _, tt := range []struct {
		name        string
		IsHeartbeat time.Duration
		size        int
		begin       func(c *Contacts, voters []raft.Server) bool
		limit       time.Duration // from then on
	}{
		{"small", 500 * time.Millisecond, 10, nil, AnswerPatience + secondTryMin},
		{"of a mebibyte", 500 * time.Millisecond, 1 << 20, nil, 2*time.Second + secondTryMin},
		{"larger than messages are", 500 * time.Millisecond, 2 * MessageBytes, nil, 2*Timeout + secondTryMin},
		{"the leader was stopped", 5 * time.Second, 10, func(c *Contacts, voters []raft.Server) bool {
			time.Sleep(4 * time.Second)
			return c.Unserved(2, voters) != nil
		}, 2500 * time.Millisecond},
		{"disks hang", 500 * time.Millisecond, 10, func(c *Contacts, voters []raft.Server) bool {
			return c.hear(voters, 10*time.Second, true)
		}, AnswerPatience + secondTryMin},
		{"replication of an older term ends late", 500 * time.Millisecond, 10,
			func(c *Contacts, voters []raft.Server) bool {
				late := c.hear(voters, time.Second, false)
				c.Sending("n2", &raft.AppendEntriesRequest{Term: 1})
				c.Delivered("n2", 1, true)
				return late
			}, AnswerPatience + secondTryMin - time.Second},
		{"after a leader that resigned", 500 * time.Millisecond, 10, func(c *Contacts, voters []raft.Server) bool {
			c.Called(true)
			c.Sending("n2", entries(10))
			return false
		}, AnswerPatience + secondTryMin + Timeout},
		{"a slow link has carried something", 500 * time.Millisecond, 10, func(c *Contacts, voters []raft.Server) bool {
			late := c.hear(voters, AnswerPatience+secondTryMin, false)
			time.Sleep(time.Millisecond)
			c.Delivered("n2", 2, true)
			c.Sending("n2", entries(10))
			return late
		}, AnswerPatience + secondTryMin + Timeout},
		{"nothing came of a message", 500 * time.Millisecond, 10, func(c *Contacts, voters []raft.Server) bool {
			late := c.hear(voters, AnswerPatience+secondTryMin, false)
			time.Sleep(time.Millisecond)
			c.Delivered("n2", 2, false)
			c.Sending("n2", entries(10))
			return late
		}, AnswerPatience + secondTryMin},
		{"that was long ago", 500 * time.Millisecond, 10, func(c *Contacts, voters []raft.Server) bool {
			c.Called(true)
			c.Delivered("n2", 2, true)
			c.Delivered("n3", 2, true)
			late := c.hear(voters, patientMax, false)
			c.Sending("n2", entries(10))
			c.Sending("n3", entries(10))
			return late
		}, AnswerPatience + secondTryMin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, voters := contactsOf(tt.IsHeartbeat)
				c.hear(voters, tt.IsHeartbeat, false)
				c.Sending("n2", entries(tt.size))
				c.Sending("n3", entries(tt.size))
				if tt.begin != nil && tt.begin(c, voters) {
					t.Error("it is late before its time")
				}
				if c.hear(voters, tt.limit, false) {
					t.Errorf("it is late within %s", tt.limit)
				}
				if !c.hear(voters, tt.IsHeartbeat/2, false) {
					t.Errorf("it is not late after %s", tt.limit+tt.IsHeartbeat/2)
				}
			})
		})
	}
}

// A leader was followed until the last moment at which it sent what a majority answered in its term.
func TestFollowedUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, voters := contactsOf(time.Second)
		time.Sleep(time.Minute)
		for _, tt := range []struct {
			id         raft.ServerID
			term       uint64
			sent, want time.Duration
			voters     int
		}{
			{"n2", 1, 9, 0, 3}, // of an earlier term
			{"n2", 2, 20, 20, 3},
			{"n3", 2, 30, 30, 3},
			{"n3", 2, 25, 30, 3}, // answered late
			{"n3", 2, 31, 20, 2}, // both must have answered
			{"n9", 2, 40, 31, 3}, // no voter
			{"n2", 1, 50, 31, 3},
			{"n2", 2, 45, 60, 1},
			{"n2", 3, 50, 31, 3}, // led again
			{"n2", 3, 50, 0, 0},
		} {
			c.Followed(tt.id, tt.term, tt.sent*time.Second)
			if got := c.FollowedUntil(2, voters[:tt.voters]); got != tt.want*time.Second {
				t.Errorf("%v: followed until %v", tt, got)
			}
		}
	})
}
