package cluster

import "lockd/resp"

// Leases says what this node knows of locks: by the entries that it has applied, and by the log clock
// as far as it can have run. While no leader is heard from that clock stands still, and so does what
// is left of a lease. It may be called concurrently.
func (n *Node) Leases(locks []resp.HeldLock) []resp.Lease {
	lead, heard := n.lead.Load(), n.raft.LastContact()
	s := n.state
	s.mu.Lock()
	tick := s.machine.Tick() + s.ledSinceApplied(heard).Milliseconds()
	leases := s.machine.Leases(locks)
	s.mu.Unlock()
	if lead != nil {
		tick = max(tick, lead.tick())
	}
	for i := range leases {
		if l := &leases[i]; l.Held && l.LeaseMs >= 0 {
			l.LeftMs = max(0, l.Until-tick)
		}
	}
	return leases
}
