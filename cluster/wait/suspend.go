package wait

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/followers"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/resp"
)

// Suspender suspends the waiters of nodes that this leader does not hear, and takes back gifts of which these nodes
// cannot have told their clients. A live node learns of it from the log, and resumes its session, whose waiters have
// kept their places: so the suspender may be wrong about a node.
type Suspender struct {
	SuspenderConfig

	Due chan struct{} // capacity 1: look now, as this node leads, or a member has died
}

// suspendEvery divides the heartbeat timeout: the suspender looks at that interval.
const suspendEvery = 5

// SuspenderConfig provides what a suspender uses of its node.
type SuspenderConfig struct {
	State     *replica.State
	Claims    *Claims
	Contacts  *followers.Contacts
	Raft      *group.Group
	Lead      *clock.CurrentTerm
	Clock     clock.Clock
	Log       *slog.Logger
	Stop      <-chan struct{}
	Self      string // id of this node
	Starts    uint64 // of this node's data folder
	Heartbeat time.Duration
	Roster    func() *membership.Roster
	Met       func(id string) (who peer.Identity, ok bool) // a member's account of itself
	// Propose has a request logged in the term of this leader, or not at all; done: it was.
	Propose func(ctx context.Context, lead *clock.Leadership, req resp.Request) (done bool)
}

// NewSuspender returns a suspender that looks again at once when due is signalled.
func NewSuspender(c SuspenderConfig, due chan struct{}) *Suspender {
	return &Suspender{SuspenderConfig: c, Due: due}
}

// Run looks at the nodes with waiters until this node stops.
func (s *Suspender) Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-s.Stop
		cancel()
	}()
	tick := time.NewTicker(s.Heartbeat / suspendEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.Due:
		case <-s.Stop:
			return
		}
		if lead := s.Lead.Load(); lead != nil {
			s.look(ctx, lead)
		}
	}
}

// look suspends the sessions of the nodes that this leader does not hear.
func (s *Suspender) look(ctx context.Context, lead *clock.Leadership) {
	var sessions []uint64
	var returns []resp.BlockID
	for _, session := range s.State.Sessions() {
		if session.Node == "" || !s.isLost(lead, &session) {
			continue
		}
		unclaimed := s.Claims.Refuse(lead, session.ID)
		if session.Suspended && len(unclaimed) == 0 {
			continue
		}
		sessions, returns = append(sessions, session.ID), append(returns, unclaimed...)
	}
	if len(sessions) == 0 {
		return
	}
	// A step that fails is repeated at the next look, by this leader or by another.
	req := resp.BlockSuspending(sessions, returns)
	if s.Propose(ctx, lead, req) {
		s.Log.Info("the clients that wait at nodes which are not heard from are passed over",
			"sessions", len(sessions), "returned", len(returns))
	}
}

// isLost reports whether a session's node is not heard, or its process has ended.
func (s *Suspender) isLost(lead *clock.Leadership, session *resp.BlockSession) bool {
	if session.Node == s.Self {
		return session.Process != s.Starts
	}
	if who, ok := s.Met(session.Node); ok && session.Process > 0 && who.Starts > session.Process {
		return true
	}
	if !s.isMember(session.Node) {
		return true
	}
	return s.Contacts.Gone(session.Node) || s.silent(lead, session.Node) >= s.Heartbeat
}

// isMember reports whether a node is a member. Raft knows a new one before the roster does.
func (s *Suspender) isMember(id string) bool {
	_, known := s.Roster().Members[id]
	return known || slices.ContainsFunc(s.Raft.Servers(), func(m raft.Server) bool { return string(m.ID) == id })
}

// silent returns the time since a node was last heard. This leader asks the others from the beginning of its term on;
// the leader before it was last heard when it led.
func (s *Suspender) silent(lead *clock.Leadership, id string) time.Duration {
	since := lead.Origin
	if id == lead.Former {
		since = lead.Heard
	}
	return min(s.Contacts.Silent(raft.ServerID(id)), s.Clock.Monotonic()-since)
}
