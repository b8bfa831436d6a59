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
	var lost losses
	for i, l := range locks {
		if leases[i] = LeaseOf(keys, l); !leases[i].Held {
			lost.add(l, i)
		}
	}
	if lost.of == nil {
		return leases
	}
	events.EachOf(func(hash uint32) bool { return hash == 0 || lost.hashes[hash] }, lost.follow)
	for _, l := range lost.of {
		for _, i := range l.asked {
			leases[i] = l.lease
		}
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

// losses gathers how locks were lost: what ended the last hold that the token is known to have had. Each event costs
// the same, whatever the number of locks, as the end of a database visits only what it ends.
type losses struct {
	of     map[claim]*loss
	hashes map[uint32]bool        // of the keys
	open   map[int]map[*loss]bool // by database: what may be held, as no event has ended it
}

// claim is a lock that a token had, by whatever fence.
type claim struct {
	db         int
	key, token string
}

// loss describes a lost lock.
type loss struct {
	lease resp.Lease
	asked []int // the places at which it was asked for
}

// add adds a lock that is lost, and the place at which it was asked for.
func (s *losses) add(l resp.HeldLock, place int) {
	if s.of == nil {
		*s = losses{map[claim]*loss{}, map[uint32]bool{}, map[int]map[*loss]bool{}}
	}
	name := claim{l.DB, l.Key, l.Token}
	of := s.of[name]
	if of == nil {
		of = &loss{lease: resp.Lease{How: resp.LockUnknown}}
		s.of[name] = of
		s.hashes[history.Hash(l.Key)] = true
		s.begin(l.DB, of)
	}
	of.asked = append(of.asked, place)
}

// begin begins a hold of a lock.
func (s *losses) begin(db int, of *loss) {
	if s.open[db] == nil {
		s.open[db] = map[*loss]bool{}
	}
	s.open[db][of] = true
}

// follow adds the next event.
func (s *losses) follow(e *history.Event) {
	ended := resp.Lease{How: e.Kind.String(), Script: e.Script, Client: e.Client}
	if e.Kind.EndsAll() {
		for of := range s.open[e.DB] {
			of.lease = ended
		}
		delete(s.open, e.DB)
		return
	}
	switch of := s.of[claim{e.DB, e.Key, e.Token}]; {
	case of == nil:
	case e.Kind == history.Granted:
		s.begin(e.DB, of)
	case e.Kind.Ends():
		of.lease = ended
		delete(s.open[e.DB], of)
	}
}
