package wait

import (
	"sync"

	"lockd/cluster/clock"
	"lockd/cluster/replica"
	"lockd/resp"
)

// A client that has waited may be told of its gift only after the leader has agreed (resp.BlockClaim). The leader
// agrees after a confirmed round, so the answer is true at a moment after the question; it never takes back a gift to
// which it has agreed. It may take back all others: so no gift stays with a client whose node died before it could
// answer.

// Claims records the gifts that this leader has let nodes tell their clients. All methods may be called concurrently.
type Claims struct {
	state *replica.State

	mu      sync.Mutex
	term    uint64 // the term of the claims
	granted map[resp.BlockID]struct{}
	refused map[resp.BlockID]struct{}
}

// NewClaims returns the claims of a node that has not led.
func NewClaims(s *replica.State) *Claims { return &Claims{state: s} }

// claimsKept is the number of claims at which settled ones are forgotten.
const claimsKept = 4096

// begin forgets the claims of an earlier term, and returns false if a later one has begun: a round that was confirmed
// in an earlier term may be judged as late as that. mu is held.
func (c *Claims) begin(term uint64) bool {
	if c.term < term || c.granted == nil {
		c.term, c.granted, c.refused = term, map[resp.BlockID]struct{}{}, map[resp.BlockID]struct{}{}
	}
	return c.term == term
}

// errPastTerm answers a claim that is judged in a later term: the node asks again.
const errPastTerm = "ERR this node leads in a later term by now"

// Judge answers a claim, after a confirmed round.
func (c *Claims) Judge(lead *clock.Leadership, step *resp.BlockStep) resp.Reply {
	verdicts := make([]resp.Reply, 0, len(step.Undelivered)+len(step.Locks))
	c.mu.Lock()
	if !c.begin(lead.Term) {
		c.mu.Unlock()
		return resp.Err(errPastTerm)
	}
	for _, id := range step.Undelivered {
		_, refused := c.refused[id]
		if refused || !c.state.Given(id) {
			verdicts = append(verdicts, resp.Int(resp.ClaimRefused))
			continue
		}
		c.granted[id] = struct{}{}
		verdicts = append(verdicts, resp.Int(resp.ClaimGranted))
	}
	c.forget()
	c.mu.Unlock()
	for _, age := range c.state.LeaseAges(step.Locks, lead.Tick()) {
		verdicts = append(verdicts, resp.Int(age))
	}
	return resp.Array(verdicts...)
}

// Refuse returns the gifts of this leader's term to clients of a session that were not told. No claim to them is
// granted from now on.
func (c *Claims) Refuse(lead *clock.Leadership, session uint64) (unclaimed []resp.BlockID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begin(lead.Term) {
		return nil
	}
	for _, id := range c.state.Gifts(session, lead.From) {
		if _, granted := c.granted[id]; !granted {
			c.refused[id] = struct{}{}
			unclaimed = append(unclaimed, id)
		}
	}
	return unclaimed
}

// forget drops the claims whose gifts the machine has forgotten. mu is held.
func (c *Claims) forget() {
	for _, kept := range []map[resp.BlockID]struct{}{c.granted, c.refused} {
		if len(kept) < claimsKept {
			continue
		}
		for id := range kept {
			if !c.state.Given(id) {
				delete(kept, id)
			}
		}
	}
}
