// Package face describes the cluster to clients: as a Redis Sentinel, as one shard of a Redis Cluster, and in the
// sections of INFO. It asks a node through Host, and changes nothing.
//
//	sentinel.go  Sentinel: the commands and events of a Redis Sentinel
//	shard.go     Shard: the cluster as one shard of Redis Cluster
//	topology.go  Topology: the leader, the members, and how long each has been silent
//	info.go      the sections and values of INFO
package face

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

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/wake"
)

// Topology keeps the view of the cluster that clients get: the leader, the nodes and their addresses. Raft names a
// leader too early, since an elected node may still have entries to apply. Clients therefore see a leader once it
// reports that it serves, and the previous leader until then. One goroutine runs Watch, another one Listen; the other
// methods may be called concurrently.
type Topology struct {
	Host
	tell func(was, now *View) // tells the sentinel's subscribers; nil: there is no sentinel

	Current atomic.Pointer[View]
	missing time.Duration // monotonic time since which no leader serves; only Watch uses it
	misses  bool

	mu    sync.Mutex
	heard map[string]LastSeen // by id: the last answer of each member
}

// Host provides what a Topology uses of its node.
type Host struct {
	Clock   clock.Clock
	Raft    *group.Group
	Lead    *clock.CurrentTerm
	Changed *wake.Broadcast // the leader or the members have changed
	Stop    <-chan struct{}
	Peers   *peer.Port
	Clocks  *clock.Members
	Members Members
	Applied func() uint64 // the last entry that is applied here

	Heartbeat  time.Duration // how long a leader may take to say that it serves
	LeaderWait time.Duration // how long requests wait for a leader
}

// Members describes the members and their client addresses.
type Members interface {
	// MemberOf returns the known facts about a member.
	MemberOf(id string) membership.Member
	// ClientHostPort returns the client address of a member, or its peer address while no client address is known.
	ClientHostPort(s raft.Server) (host, port string)
	// AppliedBy asks all members, and returns the last applied entry of each member that answers, by id.
	AppliedBy() map[string]uint64
}

// LastSeen holds the last answer of a member.
type LastSeen struct {
	at      time.Duration // monotonic
	wall    int64         // milliseconds since 1970
	Since   int64         // milliseconds since 1970 at which its answers without a gap began
	Applied uint64
}

// View is the cluster as clients see it. It never changes.
type View struct {
	Master *Node         // the last leader that served; nil before the first
	Term   uint64        // its term
	since  time.Duration // monotonic time since which Master leads, or is lost
	Vacant bool          // no leader serves now
	Nodes  []Node        // the voters and this node, by id, without nodes whose client address is unknown
}

// Node is one node as clients see it.
type Node struct {
	Id         string
	RunID      string // 40 hex digits: Redis's name for a node
	Host, Port string // for clients
	Plain      string // port for clients without TLS; "": there is none
	Tls        string // host:port for clients with TLS; "": there is none
	bus        string // port for the other nodes
	peer       string // its peer address
	sentinel   string // host:port of its sentinel; "" if it has none
	sentinelID string
	Down       bool // has not answered this node for some time
}

const (
	// SurveyEvery is the interval at which members are asked for their status.
	SurveyEvery = time.Second
	// DownAfter is the silence after which a member counts as down.
	DownAfter = 3 * SurveyEvery
	// vacantAfter is the time without a leader after which clients learn of it. It covers a transfer of leadership.
	vacantAfter = 100 * time.Millisecond
	// servesPause is the first pause between two questions whether a new leader serves.
	servesPause = 10 * time.Millisecond
)

// New returns the topology of a node and its sentinel, which is nil if s is nil.
func New(h Host, s *SentinelConfig) (*Topology, *Sentinel) {
	t := &Topology{Host: h, heard: map[string]LastSeen{}}
	if s == nil {
		return t, nil
	}
	t.tell = news{*s}.announce
	return t, &Sentinel{self: string(h.Raft.Self), cfg: *s, topology: t}
}

// Start builds the first view, once the peers can be asked.
func (t *Topology) Start() {
	t.Current.Store(&View{Vacant: true, since: t.Clock.Monotonic()})
	t.refresh()
}

// Watch follows the leader until the node stops.
func (t *Topology) Watch() {
	for {
		changed := t.Changed.Next()
		timer := time.NewTimer(t.refresh())
		select {
		case <-changed:
		case <-timer.C:
		case <-t.Stop:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// refresh updates the view, and returns the time until the next update.
func (t *Topology) refresh() time.Duration {
	was, mono := t.Current.Load(), t.Clock.Monotonic()
	now := &View{Master: was.Master, Term: was.Term, since: was.since, Vacant: was.Vacant, Nodes: t.nodes(mono)}
	if was.Master != nil && now.node(was.Master.Id) != nil {
		now.Master = now.node(was.Master.Id) // its address may have changed
	}
	addr, id := t.Raft.LeaderWithID()
	term, again := t.Raft.CurrentTerm(), SurveyEvery
	switch {
	case id != "" && now.node(string(id)) != nil && t.Serves(was, string(id), addr, term):
		t.misses = false
		if was.Vacant || !was.LedBy(string(id)) {
			now.since = mono
		}
		now.Master, now.Term, now.Vacant = now.node(string(id)), term, false
	case !t.misses:
		t.misses, t.missing, again = true, mono, servesPause
	default:
		again = min(max(mono-t.missing, servesPause), SurveyEvery)
		if !was.Vacant && mono-t.missing >= vacantAfter {
			now.Vacant, now.since = true, t.missing
		}
	}
	t.Current.Store(now)
	if t.tell != nil {
		t.tell(was, now)
	}
	return again
}

// Serves reports whether a leader says that it serves. It does not ask the leader of the present view again.
func (t *Topology) Serves(was *View, id string, addr raft.ServerAddress, term uint64) bool {
	if raft.ServerID(id) == t.Raft.Self {
		return t.Lead.Held()
	}
	if was.LedBy(id) && was.Term == term && !was.Vacant {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.Heartbeat)
	defer cancel()
	st, err := t.Clocks.Ask(ctx, raft.Server{ID: raft.ServerID(id), Address: addr})
	return err == nil && st.Leader
}

// Listen asks all members for their status and their clocks, until the node stops.
func (t *Topology) Listen() {
	tick := time.NewTicker(SurveyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.Stop:
			return
		}
		for id, applied := range t.Members.AppliedBy() {
			t.record(id, applied)
		}
		t.Clocks.Check()
	}
}

func (t *Topology) record(id string, applied uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.heard[id]
	now := LastSeen{at: t.Clock.Monotonic(), wall: t.Clock.Wall() / 1000, Since: last.Since, Applied: applied}
	if now.Since == 0 || now.at-last.at > DownAfter {
		now.Since = now.wall
	}
	t.heard[id] = now
}

// LastSeen returns the last answer of a member; for this node itself, its present status.
func (t *Topology) LastSeen(id string) LastSeen {
	if raft.ServerID(id) == t.Raft.Self {
		return LastSeen{at: t.Clock.Monotonic(), wall: t.Clock.Wall() / 1000, Applied: t.Applied()}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard[id]
}

// silence returns the time since a node last answered.
func (t *Topology) silence(p *Node) time.Duration {
	return max(t.Clock.Monotonic()-t.LastSeen(p.Id).at, 0)
}

// cut reports whether this node has no connection to another one. It reports that before the silence shows that the
// node is down, as Redis does: node-redis 5 then asks another sentinel, and would otherwise dial a lost master for
// ever.
func (t *Topology) cut(p *Node) bool {
	return p.Down || p.Id != string(t.Raft.Self) && t.Peers.Broken(p.peer)
}

// Age returns the time for which the leader of a view has led, or has been lost.
func (t *Topology) age(s *View) time.Duration { return t.Clock.Monotonic() - s.since }

// nodes lists the nodes. A member that this node has never heard has DownAfter to answer, like any other.
func (t *Topology) nodes(mono time.Duration) []Node {
	voters := t.Raft.Voters()
	self := func(s raft.Server) bool { return s.ID == t.Raft.Self }
	if !slices.ContainsFunc(voters, self) {
		voters = append(voters, raft.Server{ID: t.Raft.Self})
	}
	var nodes []Node
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range voters {
		known := t.Members.MemberOf(string(m.ID))
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
		nodes = append(nodes, Node{
			Id: known.ID, Host: host, Port: port, bus: bus, peer: string(m.Address), sentinel: known.SentinelAddr(),
			Plain: plain, Tls: known.TLSAddr(),
			RunID: RunID("node", known), sentinelID: RunID("sentinel", known),
			Down: !self(m) && mono-last.at > DownAfter,
		})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Id, b.Id) })
	return nodes
}

// RunID returns Redis's name for a node, which lasts as long as its data folder. Every node computes the same name.
func RunID(kind string, m membership.Member) string {
	sum := sha1.Sum([]byte(kind + "\x00" + m.ID + "\x00" + m.Incarnation))
	return hex.EncodeToString(sum[:])
}

// overTLS returns the view for clients that use TLS.
func (s *View) overTLS() *View {
	told := *s
	told.Nodes = slices.Clone(s.Nodes)
	for i := range told.Nodes {
		told.Nodes[i] = *told.Nodes[i].OverTLS()
	}
	if s.Master != nil {
		told.Master = s.Master.OverTLS()
	}
	return &told
}

// OverTLS returns the node with its address for clients that use TLS, if it has one.
func (p *Node) OverTLS() *Node {
	told := *p
	if host, port, err := net.SplitHostPort(p.Tls); err == nil {
		told.Host, told.Port = host, port
	}
	return &told
}

// LedBy reports whether a node is the leader of the view.
func (s *View) LedBy(id string) bool { return s.Master != nil && s.Master.Id == id }

// node returns a node by its id; nil if it has none.
func (s *View) node(id string) *Node {
	for i := range s.Nodes {
		if s.Nodes[i].Id == id {
			return &s.Nodes[i]
		}
	}
	return nil
}

// Addr returns the client address of a node as Redis writes it: without brackets around an IPv6 address.
func (p *Node) Addr() string { return p.Host + ":" + p.Port }

// LeaderHostPort returns the client address of the leader, and the state of the link to it, "up" or "down". If the link
// is down, it returns the address of the last leader.
func (t *Topology) LeaderHostPort() (host, port, link string) {
	addr, id := t.Raft.LeaderWithID()
	if addr != "" {
		host, port = t.Members.ClientHostPort(raft.Server{ID: id, Address: addr})
		return host, port, "up"
	}
	if last := t.Current.Load().Master; last != nil {
		return last.Host, last.Port, "down"
	}
	return "", "0", "down"
}
