package cluster

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// herald keeps what clients are told of the cluster: who leads, which nodes there
// are, and where. Raft's own word would be too early: a node that was elected may
// have entries to apply before it serves, so a leader is told of once it says itself
// that it serves. The last one stays until then.
type herald struct {
	n       *Node
	told    atomic.Pointer[standing]
	missing time.Duration // monotonic: since when no leader serves; only watch uses it
	misses  bool

	mu    sync.Mutex
	heard map[string]sighting // by id: the members that have answered this node
}

// sighting is what a member last answered.
type sighting struct {
	at      time.Duration // monotonic
	wall    int64         // milliseconds since 1970
	since   int64         // likewise: since when it has answered without a gap
	applied uint64
}

// standing is the cluster as clients are told of it. It does not change once it is
// made.
type standing struct {
	master *seat         // the last leader that served; nil before the first
	term   uint64        // its term
	since  time.Duration // monotonic: since when it leads, or is lost
	vacant bool          // no leader serves at the moment
	seats  []seat        // the voters, and this node, by id, as far as clients can be told where they are
}

// seat is one node as clients are told of it.
type seat struct {
	id         string
	runID      string // 40 hex digits: Redis's name for a node
	host, port string // for clients
	bus        string // port for the other nodes
	peer       string // where this node calls it
	sentinel   string // host:port of its sentinel; "" if it has none
	sentinelID string
	down       bool // has not answered this node for some time
}

const (
	// heraldEvery is how often members are asked how they are.
	heraldEvery = time.Second
	// downAfter is the silence after which a member counts as down.
	downAfter = 3 * heraldEvery
	// heraldPatience is how long there may be no leader before clients are told so: a
	// leadership that is handed over is not lost.
	heraldPatience = 100 * time.Millisecond
	// heraldPause is the first pause between two questions whether a new leader serves.
	heraldPause = 10 * time.Millisecond
)

func (h *herald) start(n *Node) {
	h.n = n
	h.heard = map[string]sighting{}
	h.told.Store(&standing{vacant: true, since: n.clock.Monotonic()})
	h.look()
	n.goroutines.Go(h.watch)
	if n.cfg.ClusterProtocol || n.cfg.Sentinel != nil {
		n.goroutines.Go(h.listen)
	}
}

// watch follows who leads until the node stops.
func (h *herald) watch() {
	for {
		changed := h.n.changed.next()
		t := time.NewTimer(h.look())
		select {
		case <-changed:
		case <-t.C:
		case <-h.n.stop:
			t.Stop()
			return
		}
		t.Stop()
	}
}

// look brings what is told up to date, and says when to look again.
func (h *herald) look() time.Duration {
	was, mono := h.told.Load(), h.n.clock.Monotonic()
	now := &standing{master: was.master, term: was.term, since: was.since, vacant: was.vacant, seats: h.seats(mono)}
	if was.master != nil && now.seat(was.master.id) != nil {
		now.master = now.seat(was.master.id) // what is told of it may have changed
	}
	addr, id := h.n.raft.LeaderWithID()
	term, again := h.n.raft.CurrentTerm(), heraldEvery
	switch {
	case id != "" && now.seat(string(id)) != nil && h.serves(was, string(id), addr, term):
		h.misses = false
		if was.vacant || !was.ledBy(string(id)) {
			now.since = mono
		}
		now.master, now.term, now.vacant = now.seat(string(id)), term, false
	case !h.misses:
		h.misses, h.missing, again = true, mono, heraldPause
	default:
		again = min(max(mono-h.missing, heraldPause), heraldEvery)
		if !was.vacant && mono-h.missing >= heraldPatience {
			now.vacant, now.since = true, h.missing
		}
	}
	h.told.Store(now)
	if s := h.n.sentinel; s != nil {
		s.announce(was, now)
	}
	return again
}

// serves reports whether a leader says that it serves. One that is told of already
// is not asked again.
func (h *herald) serves(was *standing, id string, addr raft.ServerAddress, term uint64) bool {
	if id == h.n.cfg.ID {
		return h.n.leads()
	}
	if was.ledBy(id) && was.term == term && !was.vacant {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.n.cfg.Heartbeat)
	defer cancel()
	st, err := h.n.peers.Status(ctx, string(addr))
	return err == nil && st.Leader
}

// listen asks all members how they are, again and again.
func (h *herald) listen() {
	tick := time.NewTicker(heraldEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.n.stop:
			return
		}
		for _, m := range h.n.survey(context.Background()) {
			if m.err == nil {
				h.hear(string(m.ID), m.Applied)
			}
		}
	}
}

func (h *herald) hear(id string, applied uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.heard[id]
	now := sighting{at: h.n.clock.Monotonic(), wall: h.n.clock.Wall() / 1000, since: last.since, applied: applied}
	if now.since == 0 || now.at-last.at > downAfter {
		now.since = now.wall
	}
	h.heard[id] = now
}

// sighting is the last answer of a member; for this node itself it is now.
func (h *herald) sighting(id string) sighting {
	if id == h.n.cfg.ID {
		return sighting{at: h.n.clock.Monotonic(), wall: h.n.clock.Wall() / 1000, applied: h.n.appliedNow.Load()}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard[id]
}

// seats lists the nodes. A member that this node has not heard of yet gets as long
// to answer as any other.
func (h *herald) seats(mono time.Duration) []seat {
	members := h.n.voters()
	self := func(s raft.Server) bool { return string(s.ID) == h.n.cfg.ID }
	if !slices.ContainsFunc(members, self) {
		members = append(members, raft.Server{ID: raft.ServerID(h.n.cfg.ID)})
	}
	var seats []seat
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range members {
		known := h.n.memberOf(string(m.ID))
		host, port, err := net.SplitHostPort(known.clientAddr())
		if err != nil {
			continue
		}
		_, bus, _ := net.SplitHostPort(known.PeerAddr)
		last, met := h.heard[known.ID]
		if !met {
			last.at = mono
			h.heard[known.ID] = last
		}
		seats = append(seats, seat{
			id: known.ID, host: host, port: port, bus: bus, peer: string(m.Address), sentinel: known.sentinelAddr(),
			runID: runID("node", known), sentinelID: runID("sentinel", known),
			down: !self(m) && mono-last.at > downAfter,
		})
	}
	slices.SortFunc(seats, func(a, b seat) int { return strings.Compare(a.id, b.id) })
	return seats
}

// memberOf is what is known of a member: by the roster, and before it is there by
// the member's own word.
func (n *Node) memberOf(id string) member {
	if m, ok := n.roster.Load().members[id]; ok {
		return m
	}
	who, _ := n.identityOf(id)
	return memberFrom(who)
}

// runID names a node for as long as its data folder lives, the same everywhere.
func runID(kind string, m member) string {
	sum := sha1.Sum([]byte(kind + "\x00" + m.ID + "\x00" + m.Incarnation))
	return hex.EncodeToString(sum[:])
}

func (s *standing) ledBy(id string) bool { return s.master != nil && s.master.id == id }

// seat is the seat of a node; nil if it has none.
func (s *standing) seat(id string) *seat {
	for i := range s.seats {
		if s.seats[i].id == id {
			return &s.seats[i]
		}
	}
	return nil
}

// addr is where clients reach a node, as Redis writes it: without brackets around an
// IPv6 address.
func (p *seat) addr() string { return p.host + ":" + p.port }
