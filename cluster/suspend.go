package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/followers"
	"lockd/cluster/replica"
	"lockd/resp"
)

// suspender has the waiters of nodes that this leader does not hear from passed over, and takes back what they were
// given and cannot have been told. A node that lives learns of it from the log, and resumes its session: its waiters
// have kept their places. So it may be wrong about a node, and it need not be exact.
type suspender struct {
	*core
	state    *replica.State
	members  *members
	contacts *followers.Contacts
	router   *router
	claims   *claims

	due chan struct{} // capacity 1: look now, as this node leads, or a member is known to be dead

	former string // the last leader that was another node
}

// suspendEvery is the part of a heartbeat timeout after which the suspender looks again.
const suspendEvery = 5

func newSuspender(
	c *core, s *replica.State, m *members, contacts *followers.Contacts, r *router, claims *claims, due chan struct{},
) *suspender {
	return &suspender{core: c, state: s, members: m, contacts: contacts, router: r, claims: claims, due: due}
}

// run looks at the nodes with waiters until this node stops.
func (s *suspender) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-s.stop
		cancel()
	}()
	tick := time.NewTicker(s.cfg.Heartbeat / suspendEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.due:
		case <-s.stop:
			return
		}
		if _, id := s.raft.LeaderWithID(); id != "" && string(id) != s.cfg.ID {
			s.former = string(id)
		}
		if lead := s.lead.Load(); lead != nil {
			s.look(ctx, lead)
		}
	}
}

// look suspends the sessions of the nodes that this leader does not hear from.
func (s *suspender) look(ctx context.Context, lead *clock.Leadership) {
	var sessions []uint64
	var returns []resp.BlockID
	for _, session := range s.state.Sessions() {
		if session.Node == "" || !s.isLost(lead, &session) {
			continue
		}
		unclaimed := s.claims.refuse(lead, session.ID)
		if session.Suspended && len(unclaimed) == 0 {
			continue
		}
		sessions, returns = append(sessions, session.ID), append(returns, unclaimed...)
	}
	if len(sessions) == 0 {
		return
	}
	// What is not done is seen again at the next look, by this leader or by another.
	req := resp.BlockSuspending(sessions, returns)
	if out := s.router.local(ctx, req, true, &attempt{term: lead.Term}); out.outcome == outcomeDone {
		s.log.Info("the clients that wait at nodes which are not heard from are passed over",
			"sessions", len(sessions), "returned", len(returns))
	}
}

// isLost reports whether a session's node is not heard from, or its process has ended.
func (s *suspender) isLost(lead *clock.Leadership, session *resp.BlockSession) bool {
	if session.Node == s.cfg.ID {
		return session.Process != s.members.starts
	}
	if who, ok := s.members.identityOf(session.Node); ok && session.Process > 0 && who.Starts > session.Process {
		return true
	}
	if _, member := s.members.roster.Load().Members[session.Node]; !member {
		return true
	}
	return s.contacts.Gone(session.Node) || s.silent(lead, session.Node) >= s.cfg.Heartbeat
}

// silent is how long a node has not been heard from. This leader asks the others from the beginning of its term on; the
// leader before it was last heard from when it led.
func (s *suspender) silent(lead *clock.Leadership, id string) time.Duration {
	asked := s.clock.Monotonic() - lead.Origin
	if heard := s.raft.LastContact(); id == s.former && !heard.IsZero() {
		asked = clock.Since(heard)
	}
	return min(s.contacts.Silent(raft.ServerID(id)), asked)
}
