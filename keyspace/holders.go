package keyspace

import (
	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What clients that hold locks ask of them, besides what they are told: see news.go.

// tellAgain tells of a LOCK that answers a fence to a token that had the lock before, and answers that. Its client may be
// another one, and is to hear of the loss, too; in the history it is a renewal like others.
func (c *ctx) tellAgain(l *lockRequest, again bool, fence resp.Reply) resp.Reply {
	lock := resp.HeldLock{DB: c.db, Key: l.key, Token: l.token, Fence: uint64(fence.Int)}
	if again && c.m.applying && c.m.leaseOf(lock).Held {
		e := history.Event{Kind: history.Granted, DB: c.db, Tick: c.m.now, Key: l.key, Token: l.token, Fence: lock.Fence}
		e.LeaseMs = l.leaseMs
		c.m.complete(&c.why, &e)
		c.m.tellLock(resp.MessageHeld, history.Append(nil, &e))
	}
	return fence
}

// Leases looks at locks; see cluster.Machine.
func (m *Machine) Leases(locks []resp.HeldLock) []resp.Lease {
	leases := make([]resp.Lease, len(locks))
	lost := map[uint32][]int{} // by the hash of the key
	for i, l := range locks {
		if leases[i] = m.leaseOf(l); !leases[i].Held {
			leases[i].How = resp.LockUnknown
			hash := history.Hash(l.Key)
			lost[hash] = append(lost[hash], i)
		}
	}
	if len(lost) > 0 {
		m.findLosses(locks, leases, lost)
	}
	return leases
}

// leaseOf looks at a lock as it is stored: one whose lease is over is held until an entry says so.
func (m *Machine) leaseOf(l resp.HeldLock) (lease resp.Lease) {
	if l.DB < 0 || l.DB >= databases {
		return lease
	}
	e, ok := m.dbs[l.DB].keys.get(l.Key)
	if !ok {
		return lease
	}
	var h value.Holder
	switch held := e.lock(); {
	case held != nil && held.Holder(l.Token) != nil:
		h = *held.Holder(l.Token)
	case e.mark() == isLock && e.str() == l.Token:
		h = heldBy(e)
	}
	if h.LeaseMs == 0 || max(h.Fence, e.fence, m.dbs[l.DB].floor) != l.Fence {
		return lease
	}
	return resp.Lease{Held: true, Until: h.Tick, LeaseMs: h.LeaseMs}
}

// findLosses looks in the history for how locks were lost: what ended the last that the token is
// known to have had.
func (m *Machine) findLosses(locks []resp.HeldLock, leases []resp.Lease, lost map[uint32][]int) {
	ended := make([]bool, len(locks))
	end := func(i int, e *history.Event) {
		leases[i].How, leases[i].Script, leases[i].Client = e.Kind.String(), e.Script, e.Client
		ended[i] = true
	}
	wanted := func(hash uint32) bool { return hash == 0 || lost[hash] != nil }
	m.events.EachOf(wanted, func(e *history.Event) {
		if e.Key == "" {
			for i, l := range locks {
				if !leases[i].Held && !ended[i] && l.DB == e.DB {
					end(i, e)
				}
			}
			return
		}
		for _, i := range lost[history.Hash(e.Key)] {
			switch l := locks[i]; {
			case e.DB != l.DB || e.Key != l.Key || e.Token != l.Token:
			case e.Kind == history.Granted:
				ended[i] = false
			case e.Kind.Ends():
				end(i, e)
			}
		}
	})
}
