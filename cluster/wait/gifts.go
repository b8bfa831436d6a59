package wait

import (
	"slices"

	"lockd/resp"
)

// gifts keeps what clients of a node were given, until the machine knows that they were told, or it was taken back. The
// blocker's lock guards it.
type gifts struct {
	untold    map[resp.BlockID]uint64 // of which no client has been told yet, with the entry that gave it
	unsettled map[uint64]uint64       // by session: the last entry that gave something
	returns   []resp.BlockID          // of which no client is told: to be taken back
	count     int                     // since the last step that settled
}

func newGifts() gifts {
	return gifts{untold: map[resp.BlockID]uint64{}, unsettled: map[uint64]uint64{}}
}

// add notes what an entry gave, and reports whether its delivery is to be reported early.
func (g *gifts) add(id resp.BlockID, index uint64) (due bool) {
	g.untold[id], g.unsettled[id.Session] = index, index
	g.count++
	return g.count >= settleAfter
}

// forget drops a gift of which the client was told, or which another one has taken the place of.
func (g *gifts) forget(id resp.BlockID) { delete(g.untold, id) }

func (g *gifts) giveBack(id resp.BlockID) { g.returns = append(g.returns, id) }

// nextReturns lists the gifts that the next step takes back.
func (g *gifts) nextReturns() []resp.BlockID {
	return slices.Clone(g.returns[:min(len(g.returns), CancelsMax)])
}

// settled returns the last entry up to delivered such that the gifts of it and of all before it were delivered.
func (g *gifts) settled(delivered uint64) uint64 {
	for _, entry := range g.untold {
		delivered = min(delivered, entry-1)
	}
	return delivered
}

// undecided lists the sessions of the gifts of which it is not known yet whether a client is told.
func (g *gifts) undecided() (sessions []uint64) {
	for id := range g.untold {
		if !slices.Contains(g.returns, id) {
			sessions = append(sessions, id.Session)
		}
	}
	return sessions
}

// tended handles a step that was logged, made after count gifts.
func (g *gifts) tended(step *resp.BlockStep, count int) {
	g.returns = g.returns[len(step.Undelivered):]
	for _, id := range step.Undelivered {
		g.forget(id)
	}
	if len(step.Sessions) == 0 {
		return
	}
	g.count -= count
	for _, session := range step.Sessions {
		if g.unsettled[session] <= step.Settled {
			delete(g.unsettled, session)
		}
	}
}
