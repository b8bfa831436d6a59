package wait

import (
	"sync"

	"lockd/cluster/clock"
	"lockd/cluster/replica"
	"lockd/resp"
)

// A client that has waited may be told what it was given only after the leader has agreed (resp.BlockClaim). The leader
// agrees after a confirmed round, so the answer is true at a moment after it was asked; and what it has agreed to, it
// never takes back. What it has not, it may: so nothing stays with a client whose node died before it could answer.

// Claims records what this leader has let nodes tell their clients. All methods may be called concurrently.
type Claims struct {
	state *replica.State

	mu      sync.Mutex
	term    uint64 // the term of these
	granted map[resp.BlockID]struct{}
	refused map[resp.BlockID]struct{}
}

// NewClaims returns the claims of a node that has not led.
func NewClaims(s *replica.State) *Claims { return &Claims{state: s} }

// claimsKept is how many claims are remembered before those that are settled are forgotten.
const claimsKept = 4096

// begin forgets what belongs to an earlier term. mu is held.
func (c *Claims) begin(term uint64) {
	if c.term != term || c.granted == nil {
		c.term, c.granted, c.refused = term, map[resp.BlockID]struct{}{}, map[resp.BlockID]struct{}{}
	}
}

// Judge answers a claim, after a confirmed round.
func (c *Claims) Judge(lead *clock.Leadership, step *resp.BlockStep) resp.Reply {
	verdicts := make([]resp.Reply, 0, len(step.Undelivered)+len(step.Locks))
	c.mu.Lock()
	c.begin(lead.Term)
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

// Refuse returns what this leader has given in its term to clients of a session that nobody was told of. From now on
// no claim to it is granted.
func (c *Claims) Refuse(lead *clock.Leadership, session uint64) (unclaimed []resp.BlockID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(lead.Term)
	for _, id := range c.state.Gifts(session, lead.From) {
		if _, granted := c.granted[id]; !granted {
			c.refused[id] = struct{}{}
			unclaimed = append(unclaimed, id)
		}
	}
	return unclaimed
}

// forget drops the claims that the machine does not remember any more. mu is held.
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
