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

	"lockd/cluster/membership"
	"lockd/cluster/peer"
)

// topology keeps what clients are told of the cluster: the leader, the nodes and their addresses.
// Raft names a leader too early: an elected node may still have entries to apply. So clients are
// told of a leader once it reports itself that it serves; until then they are told of the last one.
type topology struct {
	*core
	members *members
	state   *state
	peers   *peer.Port
	tell    func(was, now *view) // tells the sentinel's subscribers; nil if there is none

	current atomic.Pointer[view]
	missing time.Duration // monotonic time since which no leader serves; only watch uses it
	misses  bool

	mu    sync.Mutex
	heard map[string]lastSeen // by id: the last answer of each member
}

// lastSeen is what a member last answered.
type lastSeen struct {
	at      time.Duration // monotonic
	wall    int64         // milliseconds since 1970
	since   int64         // likewise: the start of its answers without a gap
	applied uint64
}

// view is the cluster as clients are told of it. It is immutable.
type view struct {
	master *advertisedNode  // the last leader that served; nil before the first
	term   uint64           // its term
	since  time.Duration    // monotonic time since which it leads, or is lost
	vacant bool             // no leader serves now
	nodes  []advertisedNode // the voters and this node, by id; without those whose client address is unknown
}

// advertisedNode is one node as clients are told of it.
type advertisedNode struct {
	id         string
	runID      string // 40 hex digits: Redis's name for a node
	host, port string // for clients
	plain      string // port for those without TLS; "": there is none
	tls        string // host:port for those with it; "": there is none
	bus        string // port for the other nodes
	peer       string // its peer address
	sentinel   string // host:port of its sentinel; "" if it has none
	sentinelID string
	down       bool // has not answered this node for some time
}

const (
	// surveyEvery is how often members are asked for their status.
	surveyEvery = time.Second
	// downAfter is the silence after which a member counts as down.
	downAfter = 3 * surveyEvery
	// vacantAfter is how long there may be no leader before clients are told so. It covers a
	// hand-over of leadership.
	vacantAfter = 100 * time.Millisecond
	// servesPause is the first pause between two questions whether a new leader serves.
	servesPause = 10 * time.Millisecond
)

func newTopology(c *core, peers *peer.Port, m *members, s *state, tell func(was, now *view)) *topology {
	return &topology{core: c, peers: peers, members: m, state: s, tell: tell, heard: map[string]lastSeen{}}
}

// start takes the first look, once the peers can be asked.
func (t *topology) start() {
	t.current.Store(&view{vacant: true, since: t.clock.Monotonic()})
	t.refresh()
}

// watch follows the leader until the node stops.
func (t *topology) watch() {
	for {
		changed := t.changed.Next()
		timer := time.NewTimer(t.refresh())
		select {
		case <-changed:
		case <-timer.C:
		case <-t.stop:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// refresh brings the view up to date, and returns when to do so again.
func (t *topology) refresh() time.Duration {
	was, mono := t.current.Load(), t.clock.Monotonic()
	now := &view{master: was.master, term: was.term, since: was.since, vacant: was.vacant, nodes: t.nodes(mono)}
	if was.master != nil && now.node(was.master.id) != nil {
		now.master = now.node(was.master.id) // its address may have changed
	}
	addr, id := t.raft.LeaderWithID()
	term, again := t.raft.CurrentTerm(), surveyEvery
	switch {
	case id != "" && now.node(string(id)) != nil && t.serves(was, string(id), addr, term):
		t.misses = false
		if was.vacant || !was.ledBy(string(id)) {
			now.since = mono
		}
		now.master, now.term, now.vacant = now.node(string(id)), term, false
	case !t.misses:
		t.misses, t.missing, again = true, mono, servesPause
	default:
		again = min(max(mono-t.missing, servesPause), surveyEvery)
		if !was.vacant && mono-t.missing >= vacantAfter {
			now.vacant, now.since = true, t.missing
		}
	}
	t.current.Store(now)
	if t.tell != nil {
		t.tell(was, now)
	}
	return again
}

// serves reports whether a leader says that it serves. The leader of the present view is not
// asked again.
func (t *topology) serves(was *view, id string, addr raft.ServerAddress, term uint64) bool {
	if id == t.cfg.ID {
		return t.lead.Held()
	}
	if was.ledBy(id) && was.term == term && !was.vacant {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.Heartbeat)
	defer cancel()
	st, err := t.members.clocks.Ask(ctx, raft.Server{ID: raft.ServerID(id), Address: addr})
	return err == nil && st.Leader
}

// listen asks all members for their status, and with it for their clocks, until the node stops.
func (t *topology) listen() {
	tick := time.NewTicker(surveyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.stop:
			return
		}
		for _, m := range t.members.survey(context.Background()) {
			if m.err == nil {
				t.record(string(m.ID), m.Applied)
			}
		}
		t.members.clocks.Check()
	}
}

func (t *topology) record(id string, applied uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.heard[id]
	now := lastSeen{at: t.clock.Monotonic(), wall: t.clock.Wall() / 1000, since: last.since, applied: applied}
	if now.since == 0 || now.at-last.at > downAfter {
		now.since = now.wall
	}
	t.heard[id] = now
}

// lastSeen returns the last answer of a member; for this node itself, its present status.
func (t *topology) lastSeen(id string) lastSeen {
	if id == t.cfg.ID {
		return lastSeen{at: t.clock.Monotonic(), wall: t.clock.Wall() / 1000, applied: t.state.appliedNow.Load()}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard[id]
}

// silence is for how long a node has not answered.
func (t *topology) silence(p *advertisedNode) time.Duration {
	return max(t.clock.Monotonic()-t.lastSeen(p.id).at, 0)
}

// cut reports whether this node has no connection to another one. It says so before
// anybody can know that the other is down, as Redis does: node-redis 5 asks another
// sentinel then, and would try to reach a master without that word for ever.
func (t *topology) cut(p *advertisedNode) bool {
	return p.down || p.id != t.cfg.ID && t.peers.Broken(p.peer)
}

// age is for how long the leader of a view has led, or has been lost.
func (t *topology) age(s *view) time.Duration { return t.clock.Monotonic() - s.since }

// nodes lists the nodes. A member that this node has never heard gets downAfter to answer, like any
// other.
func (t *topology) nodes(mono time.Duration) []advertisedNode {
	voters := t.raft.Voters()
	self := func(s raft.Server) bool { return string(s.ID) == t.cfg.ID }
	if !slices.ContainsFunc(voters, self) {
		voters = append(voters, raft.Server{ID: raft.ServerID(t.cfg.ID)})
	}
	var nodes []advertisedNode
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range voters {
		known := t.members.memberOf(string(m.ID))
		host, port, err := net.SplitHostPort(known.ClientAddr())
		if err != nil {
			continue
		}
		_, bus, _ := net.SplitHostPort(known.PeerAddr)
		plain := port
		if known.ClientAddr() == known.TLSAddr() {
			plain = ""
		}
		last, met := t.heard[known.ID]
		if !met {
			last.at = mono
			t.heard[known.ID] = last
		}
		nodes = append(nodes, advertisedNode{
			id: known.ID, host: host, port: port, bus: bus, peer: string(m.Address), sentinel: known.SentinelAddr(),
			plain: plain, tls: known.TLSAddr(),
			runID: runID("node", known), sentinelID: runID("sentinel", known),
			down: !self(m) && mono-last.at > downAfter,
		})
	}
	slices.SortFunc(nodes, func(a, b advertisedNode) int { return strings.Compare(a.id, b.id) })
	return nodes
}

// runID names a node as long as its data folder lives. Every node computes the same name.
func runID(kind string, m membership.Member) string {
	sum := sha1.Sum([]byte(kind + "\x00" + m.ID + "\x00" + m.Incarnation))
	return hex.EncodeToString(sum[:])
}

// overTLS is the view as clients are told it that speak TLS.
func (s *view) overTLS() *view {
	told := *s
	told.nodes = slices.Clone(s.nodes)
	for i := range told.nodes {
		told.nodes[i] = *told.nodes[i].overTLS()
	}
	if s.master != nil {
		told.master = s.master.overTLS()
	}
	return &told
}

// overTLS is the advertisedNode with the address for such clients, if the node has one.
func (p *advertisedNode) overTLS() *advertisedNode {
	told := *p
	if host, port, err := net.SplitHostPort(p.tls); err == nil {
		told.host, told.port = host, port
	}
	return &told
}

func (s *view) ledBy(id string) bool { return s.master != nil && s.master.id == id }

// node returns a node by its id; nil if it has none.
func (s *view) node(id string) *advertisedNode {
	for i := range s.nodes {
		if s.nodes[i].id == id {
			return &s.nodes[i]
		}
	}
	return nil
}

// addr is a node's client address as Redis writes it: without brackets around an IPv6 address.
func (p *advertisedNode) addr() string { return p.host + ":" + p.port }

func (t *topology) leaderHostPort() (host, port, link string) {
	addr, id := t.raft.LeaderWithID()
	if addr != "" {
		host, port = t.members.clientHostPort(raft.Server{ID: id, Address: addr})
		return host, port, "up"
	}
	if last := t.current.Load().master; last != nil {
		return last.host, last.port, "down"
	}
	return "", "0", "down"
}
