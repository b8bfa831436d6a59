package followers

import (
	"sync"
	"time"

	"lockd/cluster/clock"

	"github.com/hashicorp/raft"
)

// A leader may be heard by all and get its entries to nobody: a link that carries so few bytes a second that no entry
// arrives in time still passes heartbeats. Raft would let it lead for ever, and nothing would be committed. So a
// leader knows of each member whether it is heard, and whether it takes what it is sent.

// Contacts keeps how the other members answer this node while it leads. All methods may be called concurrently.
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

// contact holds how one member answers.
type contact struct {
	heard time.Duration // monotonic: when it last answered
	busy  bool          // its Raft has not taken the last heartbeat: it waits, as a rule for its disk
	sent  delivery
}

// delivery is a message on its way to a member, with as many tries as it takes. The zero value is none.
type delivery struct {
	term  uint64
	since time.Duration // monotonic: from when on its time counts
	limit time.Duration // within this time a member that is heard, and not busy, answers over a good link
	more  time.Duration // that is granted besides
}

// end returns the time from which on a delivery is late.
func (d delivery) end() time.Duration { return d.since + d.limit + d.more }

const (
	// secondTryMin is the least time that the limit of a delivery leaves for another try: the first connection may be dead.
	secondTryMin = 500 * time.Millisecond
	// patientMax bounds the patience of a leader that resigned and of the node that it has called, unless the links of the
	// next leader prove good (transport.tryLinks): where they do not, leadership should not go round.
	patientMax = time.Minute
	// RestHeartbeats is the number of heartbeat timeouts for which a leader that resigned does not stand for election.
	RestHeartbeats = 3
)

// of returns what is known of a member. mu is held.
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
		return // Raft has not ended an older term's replication yet
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

// secondTry returns the time that the limit of a delivery leaves for another try.
func (c *Contacts) secondTry() time.Duration { return max(secondTryMin, c.heartbeat/2) }

// Delivered records that a message of a term is not on its way to a member any more; answered says why. A link that is
// slow, and carries what it is given, is no reason to resign for the next message.
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

// Answered records that a member has answered this leader; busy says that it did so for its Raft. Time in which it
// was busy does not count for what is on its way; one that was not heard for a while, as it was stopped or this node
// was, may be asked a second time first.
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

// Silent returns for how long a member has not answered this leader; at most the time since this node was opened.
func (c *Contacts) Silent(id raft.ServerID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Monotonic() - c.of(id).heard
}

// Gone reports whether the process of a member has ended, as a majority of the voters has found, and no other process of it
// has been heard of. Any node may know, and a node that begins to lead does of the leader before it, if that ended so.
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

// Back records that a process of a member has been heard of.
func (c *Contacts) Back(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ended, id)
}

// Called records that another node has this one stand for election; resigned says that it did so since its entries did
// not arrive.
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

// Rests reports whether this node leaves it to the others to stand for election.
func (c *Contacts) Rests() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Monotonic() < c.restsUntil
}

// Unserved returns those of the voters that could do without this leader, if it can commit nothing in its term: they
// hear it, their disks are well and they are a majority, but too few take what they are sent. Otherwise none. A member
// that is being sent a snapshot counts as one that takes.
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
