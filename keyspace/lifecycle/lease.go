package lifecycle

import (
	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/resp"
)

// Leases returns the leases of locks; of one that is lost it says how, if the history knows.
func Leases(keys *store.Store, events *history.Log, locks []resp.HeldLock) []resp.Lease {
	leases := make([]resp.Lease, len(locks))
	lost := map[uint32][]int{} // by the hash of the key
	for i, l := range locks {
		if leases[i] = LeaseOf(keys, l); !leases[i].Held {
			leases[i].How = resp.LockUnknown
			hash := history.Hash(l.Key)
			lost[hash] = append(lost[hash], i)
		}
	}
	if len(lost) > 0 {
		findLosses(events, locks, leases, lost)
	}
	return leases
}

// LeaseOf returns the lease of a lock as it is stored: one that is over is held until an entry ends it.
func LeaseOf(keys *store.Store, l resp.HeldLock) (lease resp.Lease) {
	if l.DB < 0 || l.DB >= store.Databases {
		return lease
	}
	e, ok := keys.DBs[l.DB].Keys.Get(l.Key)
	if !ok {
		return lease
	}
	var h lock.Holder
	switch held := e.Lock(); {
	case held != nil && held.Holder(l.Token) != nil:
		h = *held.Holder(l.Token)
	case e.Mark() == store.IsLock && e.Str() == l.Token:
		h = HeldBy(e)
	}
	if h.LeaseMs == 0 || max(h.Fence, e.Fence, keys.DBs[l.DB].Floor) != l.Fence {
		return lease
	}
	return resp.Lease{Held: true, Until: h.Tick, LeaseMs: h.LeaseMs}
}

// findLosses looks in the history for how locks were lost: what ended the last that the token is
// known to have had.
func findLosses(events *history.Log, locks []resp.HeldLock, leases []resp.Lease, lost map[uint32][]int) {
	ended := make([]bool, len(locks))
	end := func(i int, e *history.Event) {
		leases[i].How, leases[i].Script, leases[i].Client = e.Kind.String(), e.Script, e.Client
		ended[i] = true
	}
	wanted := func(hash uint32) bool { return hash == 0 || lost[hash] != nil }
	events.EachOf(wanted, func(e *history.Event) {
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
