package server

import (
	"container/heap"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockd/resp"
)

// A RESP3 client that takes locks by LOCK gets a push when it loses one, and before that when a third of the lease is
// left. Every node learns from the log, in order, which locks are granted and lost: the client's node stores the
// grants, and pushes the losses.

// holders stores the locks of this node's clients for which the clients get pushes. The hub's lock guards it.
type holders struct {
	inUse   atomic.Int64       // number of clients: Publish reads it first
	clients map[int64]*session // clients that have asked for a lock in RESP3
	locks   map[lockID][]*holding
	kept    int            // number of holdings
	perDB   [databases]int // number of holdings of each database
	checks  checkQueue
}

// lockID names a lock and a token that may hold it.
type lockID struct {
	db         int
	key, token string
}

// holding is a lock that a client holds.
type holding struct {
	lockID
	of     *session
	fence  uint64
	check  time.Time // when to check how much of the lease is left
	place  int       // its index in checks
	warned int64     // the end of the lease for which the client was warned
}

// heldLocks are the holdings of a session. The hub's lock guards them, except seen.
type heldLocks struct {
	list      map[lockID]*holding
	asking    bool   // the answer of a request that may take a lock is on its way to the client
	waiting   []byte // pushes to send after that answer
	forgotten uint64 // grants up to this entry of the log are ignored
	seen      uint64 // log index of the last such answer; only the session's goroutine uses it
}

func newHolders() holders {
	return holders{clients: map[int64]*session{}, locks: map[lockID][]*holding{}}
}

// takesLock reports whether commands may take a lock for which the client gets pushes.
func (s *session) takesLock(cmds []resp.Cmd) bool {
	isLock := func(c resp.Cmd) bool { return c.Spec != nil && c.Spec.Name == resp.LockCommand }
	if s.proto.Load() < 3 || !slices.ContainsFunc(cmds, isLock) {
		return false
	}
	_, lib, version := s.names.get()
	return !confusesPushes(lib, version)
}

// confusesPushes reports whether a library takes an unknown push for the reply to its command, and each later reply
// for that to the next command. Jedis 5 to 7 do.
func confusesPushes(lib, version string) bool {
	major, _, _ := strings.Cut(version, ".")
	return strings.HasPrefix(lib, "jedis") && (len(major) == 0 || len(major) == 1 && major < "8")
}

// asksForLock is called before commands run. If they may take a lock for which the client gets pushes, pushes wait
// for the replies, so that the grant arrives before the loss.
func (s *session) asksForLock(cmds []resp.Cmd) {
	if s.takesLock(cmds) {
		s.srv.hub.enterHolders(s, true)
	}
}

// noteIndex records the log index of an answer.
func (s *session) noteIndex(res resp.Result) {
	if s.locks.asking {
		s.locks.seen = max(s.locks.seen, res.Index)
	}
}

// waitsForLock is asksForLock for a blocking command. If it reports true, the reply goes through the outbox when this
// node applies the grant: then no push has to wait for it.
func (s *session) waitsForLock(cmd resp.Cmd) bool {
	takes := s.takesLock([]resp.Cmd{cmd})
	if takes {
		s.srv.hub.enterHolders(s, false)
	}
	return takes
}

func (h *Hub) enterHolders(s *session, asking bool) {
	h.broker.Lock()
	defer h.broker.Unlock()
	if h.holders.clients[s.id] == nil {
		h.holders.clients[s.id] = s
		h.holders.inUse.Add(1)
	}
	s.locks.asking = asking
}

// flushAll writes the pending replies, then the pushes that waited for them.
func (s *session) flushAll() error {
	err := s.flush()
	if s.locks.asking {
		s.srv.hub.sendWaiting(s)
	}
	return err
}

func (h *Hub) sendWaiting(s *session) {
	h.broker.Lock()
	defer h.broker.Unlock()
	form := s.locks.waiting
	s.locks.asking, s.locks.waiting = false, nil
	if len(form) > 0 {
		s.sub.Send(form)
	}
}

// forgetLocks removes the locks of a client, also those whose grant this node has not applied yet. mu is held.
func (h *Hub) forgetLocks(s *session) {
	if h.holders.clients[s.id] != s {
		return
	}
	delete(h.holders.clients, s.id)
	h.holders.inUse.Add(-1)
	for _, l := range s.locks.list {
		h.holders.remove(l)
	}
	s.locks.list, s.locks.asking, s.locks.waiting, s.locks.forgotten = nil, false, nil, s.locks.seen
}

// publishLocks processes the grants and losses of an entry of the log.
func (h *Hub) publishLocks(msgs []resp.Message) {
	h.broker.Lock()
	defer h.broker.Unlock()
	for i := range msgs {
		m := &msgs[i]
		if m.Form == nil {
			continue
		}
		switch n := m.Form.News(m.Event); {
		case n.How == "":
		case n.How == resp.LockGranted:
			h.hold(m.Index, &n)
		case n.Token != "":
			for _, l := range slices.Clone(h.holders.locks[lockID{n.DB, n.Key, n.Token}]) {
				h.lose(l, n.How, n.Script, n.Client)
			}
		default:
			h.loseAll(&n)
		}
	}
}

// loseAll pushes the loss of all locks of a database. mu is held.
func (h *Hub) loseAll(n *resp.LockNews) {
	if h.holders.perDB[n.DB] == 0 {
		return
	}
	for _, l := range slices.Clone(h.holders.checks) {
		if l.db == n.DB {
			h.lose(l, n.How, n.Script, n.Client)
		}
	}
}

// hold stores a granted lock if its client is one of this node that gets pushes. mu is held.
func (h *Hub) hold(index uint64, n *resp.LockNews) {
	s := h.holders.clients[int64(n.Client.Client().ID)]
	if s == nil || !s.isClient(n.Client) || index <= s.locks.forgotten {
		return
	}
	id := lockID{n.DB, n.Key, n.Token}
	l := s.locks.list[id]
	if l == nil {
		if len(s.locks.list) >= heldLocksMax || h.holders.kept >= heldLocksOfAllMax {
			return
		}
		id.key, id.token = strings.Clone(id.key), strings.Clone(id.token)
		l = &holding{lockID: id, of: s}
		h.holders.add(l)
	}
	l.fence = n.Fence
	h.holders.checkIn(l, n.LeaseMs-n.LeaseMs/3, n.LeaseMs)
}

// isClient reports whether a sender is this client. The address counts, too: ids start again with each process.
func (s *session) isClient(by resp.Sender) bool {
	c := by.Client()
	return by != "" && c.ID == uint64(s.id) && c.Node == s.srv.node && c.Addr == s.addr
}

// lose removes a lost lock, and pushes the loss to its client, unless the client gave the lock up. mu is held.
func (h *Hub) lose(l *holding, how string, script bool, by resp.Sender) {
	h.holders.remove(l)
	if !l.of.gaveUp(how, script, by) {
		h.pushToHolder(l, "lock-lost", resp.Bulk(how))
	}
}

// gaveUp reports whether the holder gave a lock up: its token was compared, or this client did it in any way that
// LOCKS HISTORY calls released.
func (s *session) gaveUp(how string, script bool, by resp.Sender) bool {
	switch how {
	case resp.LockReleased:
		return !script || s.isClient(by)
	case resp.LockDeleted:
		return s.isClient(by)
	}
	return false
}

// pushToHolder pushes to the client that holds a lock. mu is held.
func (h *Hub) pushToHolder(l *holding, kind string, what resp.Reply) {
	form := resp.Push(
		resp.Bulk(kind), resp.Bulk(l.key), resp.Bulk(l.token), resp.Int(int64(l.fence)), what,
	).AppendTo(nil, 3)
	if s := l.of; s.locks.asking {
		s.locks.waiting = append(s.locks.waiting, form...)
	} else {
		s.sub.Send(form)
	}
}

// checkLeases gets from the backend the leases of which a third may be left, and warns their clients. The janitor
// calls it, without a lock.
func (h *Hub) checkLeases(b Backend, now time.Time) {
	for {
		due, asked := h.dueChecks(now)
		if len(due) == 0 {
			return
		}
		leases := b.Leases(asked)
		h.broker.Lock()
		for i, l := range due {
			if l.of.locks.list[l.lockID] == l && l.fence == asked[i].Fence {
				h.takeLease(l, &leases[i])
			}
		}
		h.broker.Unlock()
	}
}

// dueChecks takes up to leaseChecksAtOnceMax holdings whose check is due.
func (h *Hub) dueChecks(now time.Time) (due []*holding, asked []resp.HeldLock) {
	h.broker.Lock()
	defer h.broker.Unlock()
	for checks := &h.holders.checks; len(due) < leaseChecksAtOnceMax && len(*checks) > 0; {
		l := (*checks)[0]
		if l.check.After(now) {
			break
		}
		due = append(due, l)
		asked = append(asked, resp.HeldLock{DB: l.db, Key: l.key, Token: l.token, Fence: l.fence})
		h.holders.checkIn(l, math.MaxInt64, 0)
	}
	return due, asked
}

// takeLease handles the current state of a lease: it pushes to the client, or schedules the next check. mu is held.
func (h *Hub) takeLease(l *holding, lease *resp.Lease) {
	third := lease.LeaseMs / 3
	switch {
	case !lease.Held: // the entries that ended it were in a snapshot, or its end is about to be published
		h.lose(l, lease.How, lease.Script, lease.Client)
	case lease.LeaseMs < 0:
	case lease.LeftMs > third:
		h.holders.checkIn(l, lease.LeftMs-third, lease.LeaseMs)
	default:
		if l.warned != lease.Until {
			l.warned = lease.Until
			h.pushToHolder(l, "lock-expiring", resp.Int(lease.LeftMs))
		}
		h.holders.checkIn(l, lease.LeftMs, lease.LeaseMs)
	}
}

func (h *holders) add(l *holding) {
	h.kept++
	h.perDB[l.db]++
	h.locks[l.lockID] = append(h.locks[l.lockID], l)
	if l.of.locks.list == nil {
		l.of.locks.list = map[lockID]*holding{}
	}
	l.of.locks.list[l.lockID] = l
	heap.Push(&h.checks, l)
}

func (h *holders) remove(l *holding) {
	h.kept--
	h.perDB[l.db]--
	rest := slices.DeleteFunc(h.locks[l.lockID], func(o *holding) bool { return o == l })
	if h.locks[l.lockID] = rest; len(rest) == 0 {
		delete(h.locks, l.lockID)
	}
	delete(l.of.locks.list, l.lockID)
	heap.Remove(&h.checks, l.place)
}

// checkIn schedules the check of a lease in ms milliseconds: not so soon that a clock which stands still causes much
// work, and not so late that a shortened lease is long over.
func (h *holders) checkIn(l *holding, ms, leaseMs int64) {
	ms = min(max(ms, leaseMs/leaseChecksPerLease), leaseCheckEveryMax.Milliseconds())
	l.check = l.of.srv.clock().Add(time.Duration(ms) * time.Millisecond)
	heap.Fix(&h.checks, l.place)
}

// checkAll schedules the check of all leases for the janitor's next round.
func (h *holders) checkAll() {
	for _, l := range h.checks {
		l.check = time.Time{} // equal times keep the heap valid
	}
}

// checkQueue is a heap of holdings by the time of their checks.
type checkQueue []*holding

// Len implements heap.Interface.
func (q checkQueue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q checkQueue) Less(i, j int) bool { return q[i].check.Before(q[j].check) }

// Swap implements heap.Interface.
func (q checkQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *checkQueue) Push(x any) {
	l := x.(*holding)
	l.place = len(*q)
	*q = append(*q, l)
}

// Pop implements heap.Interface.
func (q *checkQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return l
}
