package keyspace

import (
	"lockd/keyspace/value"
	"lockd/resp"
)

// What the clients that hold locks hear of them: every entry tells every node which LOCKs it has
// granted, and which locks were lost in it. The node that has the client knows whom that concerns.

// lockNewsMax bounds the news of one entry. Where there are more, nodes look for themselves.
const lockNewsMax = 1 << 14

func (m *Machine) addLockNews(n resp.LockNews) {
	switch len(m.lockNews) {
	case lockNewsMax:
		n = resp.LockNews{How: resp.LockUnknown}
	case lockNewsMax + 1:
		return
	}
	m.lockNews = append(m.lockNews, n)
}

// tellLockNews tells the news of an entry, behind all else. The digest has them already, as events.
func (m *Machine) tellLockNews() {
	if len(m.lockNews) > 0 {
		m.emit(resp.Message{Kind: resp.MessageLocks, Index: m.index, Locks: m.lockNews})
	}
	m.lockNews = nil
}

// tellLoss tells that a holder has lost a lock.
func (m *Machine) tellLoss(of lockName, h *value.Holder, kind eventKind) {
	m.addLockNews(resp.LockNews{
		HeldLock: resp.HeldLock{DB: of.db, Key: of.key, Token: h.Token},
		How:      eventNames[kind], Script: m.cause.script, Client: m.cause.client,
	})
}

// tellGrant tells of a LOCK that is answered a fence, and answers that. Of a lock that is not noted
// there would be no news when it is lost; what a script takes is the script's affair.
func (c *ctx) tellGrant(l *lockRequest, reply resp.Reply) resp.Reply {
	m := c.m
	if !m.applying || m.cause.client == "" || m.cause.script || reply.Kind != resp.KindInt {
		return reply
	}
	lock := resp.HeldLock{DB: c.db, Key: l.key, Token: l.token, Fence: uint64(reply.Int)}
	if m.leaseOf(lock).Held {
		m.addLockNews(resp.LockNews{
			HeldLock: lock, How: resp.LockGranted, LeaseMs: l.leaseMs, Client: m.cause.client,
		})
	}
	return reply
}

// Leases looks at locks; see cluster.Machine.
func (m *Machine) Leases(locks []resp.HeldLock) []resp.Lease {
	leases := make([]resp.Lease, len(locks))
	lost := map[uint32][]int{} // by the hash of the key
	for i, l := range locks {
		if leases[i] = m.leaseOf(l); !leases[i].Held {
			leases[i].How = resp.LockUnknown
			hash := eventHash(l.Key)
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
	end := func(i int, e *lockEvent) {
		leases[i].How, leases[i].Script, leases[i].Client = eventNames[e.kind], e.script, e.client
		ended[i] = true
	}
	wanted := func(hash uint32) bool { return hash == 0 || lost[hash] != nil }
	m.events.eachOf(wanted, func(e *lockEvent) {
		if e.key == "" {
			for i, l := range locks {
				if !leases[i].Held && !ended[i] && l.DB == e.db {
					end(i, e)
				}
			}
			return
		}
		for _, i := range lost[eventHash(e.key)] {
			switch l := locks[i]; {
			case e.db != l.DB || e.key != l.Key || e.token != l.Token:
			case e.kind == eventGranted:
				ended[i] = false
			case e.kind.ends():
				end(i, e)
			}
		}
	})
}
