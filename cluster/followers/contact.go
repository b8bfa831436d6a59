package followers

import (
	"slices"
	"sync"
	"time"

	"lockd/cluster/clock"

	"github.com/hashicorp/raft"
)

// All members may hear a leader and none get its entries: a link with so few bytes per second that no entry arrives in
// time still passes heartbeats. Raft would let such a leader lead for ever without a commit. So a leader tracks, for
// each member, whether it answers and whether it takes entries.

// Contacts records the answers of the other members to this node as a leader. All methods may be called concurrently.
type Contacts struct {
	clock     clock.Clock
	self      raft.ServerID
	heartbeat time.Duration // timeout of an election
	opened    time.Duration // monotonic: when this was made, as this node was opened

	mu           sync.Mutex
	members      map[raft.ServerID]*contact
	ended        map[string]bool // members whose process has ended, as a majority has found
	patientUntil time.Duration   // monotonic: until then a message may take as long as a slow link needs
	restsUntil   time.Duration   // monotonic: until then this node does not stand for election
}

// NewContacts returns contacts of which none has answered yet. heartbeat is the timeout of an election.
func NewContacts(clock clock.Clock, self raft.ServerID, heartbeat time.Duration) *Contacts {
	return &Contacts{clock: clock, self: self, heartbeat: heartbeat, opened: clock.Monotonic()}
}

// contact records the answers of one member.
type contact struct {
	heard time.Duration // monotonic: when it last answered
	busy  bool          // it answered, but its Raft has not taken the last heartbeat: as a rule, it waits for its disk
	sent  delivery

	term     uint64        // of this leader, as of the last message after which the member had not heard of a later one
	followed time.Duration // monotonic: when that message was sent
}

// delivery is a message on its way to a member, including all attempts. The zero value is none.
type delivery struct {
	term  uint64
	since time.Duration // monotonic start of its time
	limit time.Duration // a member that answers, and is not busy, takes the message in this time over a good link
	more  time.Duration // further time granted
}

// end returns the time after which a delivery is late.
func (d delivery) end() time.Duration { return d.since + d.limit + d.more }

const (
	// secondTryMin is the least time that the limit of a delivery leaves for a second attempt, as the first connection
	// may be dead.
	secondTryMin = 500 * time.Millisecond
	// patientMax bounds the patience of a leader that resigned, and of the node that it has called, unless the links of
	// the next leader prove good (transport.tryLinks): otherwise leadership would only go round.
	patientMax = time.Minute
	// RestHeartbeats is the number of heartbeat timeouts for which a leader that resigned does not stand for election.
	RestHeartbeats = 3
)

// of returns the record of a member. mu is held.
func (c *Contacts) of(id raft.ServerID) *contact {
	m := c.members[id]
	if m == nil {
		m = &contact{heard: c.opened}
		if c.members == nil {
			c.members = map[raft.ServerID]*contact{}
		}
		c.members[id] = m
	}
	return m
}

// Sending records that a message to a member is under way, until Delivered.
func (c *Contacts) Sending(id raft.ServerID, msg *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.of(id)
	if m.sent.term > msg.Term {
		return // Raft still ends the replication of an older term
	}
	size := 0
	for _, e := range msg.Entries {
		size += len(e.Data)
	}
	d := delivery{term: msg.Term, since: c.clock.Monotonic(), limit: Patience(size) + c.secondTry()}
	if size > MessageBytes || d.since < c.patientUntil {
		d.more = Timeout // as long as logConn.call takes for writing, too
	}
	m.sent = d
}

// secondTry returns the time that the limit of a delivery leaves for a second attempt.
func (c *Contacts) secondTry() time.Duration { return max(secondTryMin, c.heartbeat/2) }

// Delivered records that a message of a term is no longer on its way to a member; answered: it was answered. A link
// that is slow but delivers is no reason to resign because of the next message.
func (c *Contacts) Delivered(id raft.ServerID, term uint64, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, now := c.of(id), c.clock.Monotonic()
	if m.sent.term != term {
		return
	}
	if answered && now > m.sent.since+m.sent.limit {
		c.patientUntil = now + patientMax
	}
	m.sent = delivery{}
}

// Answered records that a member has answered this leader; busy: it did so for its Raft, which waits. The time in which
// it was busy does not count against a message on its way. After a silence, of either side, a second attempt comes
// first.
func (c *Contacts) Answered(id raft.ServerID, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, now := c.of(id), c.clock.Monotonic()
	switch {
	case busy:
		m.sent.since = now
	case now-m.heard > c.heartbeat/2:
		m.sent.since += max(0, now+c.secondTry()-m.sent.end())
	}
	m.heard, m.busy = now, busy
}

// Heard records that a member has answered a question of this node that was not a leader's.
func (c *Contacts) Heard(id raft.ServerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(id).heard = c.clock.Monotonic()
}

// Followed records that a member has answered a message that was sent at a monotonic time, and knew of no later term
// then.
func (c *Contacts) Followed(id raft.ServerID, term uint64, sent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.of(id)
	if term > m.term {
		m.term, m.followed = term, 0
	}
	if term == m.term {
		m.followed = max(m.followed, sent)
	}
}

// FollowedUntil returns the last monotonic time up to which there was certainly no leader of a later term than this
// one's; 0 if none is known. A majority of the voters had not heard of a later term when it answered what was sent at
// that time, and nobody is elected without one of them.
func (c *Contacts) FollowedUntil(term uint64, voters []raft.Server) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sent []time.Duration
	for _, v := range voters {
		switch m := c.of(v.ID); {
		case v.ID == c.self:
			sent = append(sent, c.clock.Monotonic())
		case m.term == term:
			sent = append(sent, m.followed)
		}
	}
	majority := len(voters)/2 + 1
	if len(voters) == 0 || len(sent) < majority {
		return 0
	}
	slices.Sort(sent)
	return sent[len(sent)-majority]
}

// Silent returns the time since a member last answered this leader; at most the time since this node was opened.
func (c *Contacts) Silent(id raft.ServerID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Monotonic() - c.of(id).heard
}

// Gone reports whether the process of a member has ended, as a majority of the voters has found, and no later process
// of it was heard. Any node may know; a node that begins to lead after the death of the leader does.
func (c *Contacts) Gone(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended[id]
}

// Lost records that the process of a member has ended.
func (c *Contacts) Lost(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = map[string]bool{}
	}
	c.ended[id] = true
}

// Back records that a process of a member was heard.
func (c *Contacts) Back(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ended, id)
}

// Called records that another node has asked this one to stand for election; resigned: because its own entries did not
// arrive.
func (c *Contacts) Called(resigned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restsUntil = 0
	if resigned {
		c.patientUntil = c.clock.Monotonic() + patientMax
	}
}

// Resigned records that this leader has given up its term.
func (c *Contacts) Resigned() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Monotonic()
	c.patientUntil, c.restsUntil = now+patientMax, now+RestHeartbeats*c.heartbeat
}

// Patient reports whether messages have more time; LinksAreGood ends that.
func (c *Contacts) Patient() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Monotonic() < c.patientUntil
}

// LinksAreGood ends the patience.
func (c *Contacts) LinksAreGood() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patientUntil = 0
}

// Rests reports whether this node leaves the next election to the others.
func (c *Contacts) Rests() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Monotonic() < c.restsUntil
}

// Unserved returns the voters that could replace this leader if it can commit nothing in its term: they are a majority
// that hears it and has healthy disks, but too few members take its entries. Otherwise it returns none. A member that
// is being sent a snapshot counts as one that takes entries.
func (c *Contacts) Unserved(term uint64, voters []raft.Server) []raft.Server {
	majority := len(voters)/2 + 1
	c.mu.Lock()
	defer c.mu.Unlock()
	now, take := c.clock.Monotonic(), 0
	var able []raft.Server
	for _, v := range voters {
		m := c.of(v.ID)
		switch late := m.sent.term == term && m.heard > m.sent.end(); {
		case v.ID == c.self:
			take++
		case now-m.heard >= c.heartbeat, c.ended[string(v.ID)]:
		case m.busy:
			take++
		default:
			able = append(able, v)
			if !late {
				take++
			}
		}
	}
	if take >= majority || len(able) < majority {
		return nil
	}
	return able
}
