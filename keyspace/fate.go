package keyspace

import (
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// What becomes of locks is noted here: put tells every change of a key, and its cause says whose it is.

// Limits of what counts as a lock; what is longer is data.
const (
	lockKeyBytesMax     = 1024
	lockReasonBytesMax  = 1024
	lockPatternBytesMax = 512
)

// cause is why something changes: the command that runs, and who sent it. A ctx has that of its command.
type cause struct {
	by        string // the command; "": none, something has ended by itself
	script    bool   // a script calls it
	condition bool   // it takes what is free, or compares the token; a script may have
	compared  bool   // it knows the string that it replaces
	client    resp.Sender
	how       history.Kind // what becomes of the lock, where the change does not show it
	reason    string       // of LOCKS FORCE
	waitedMs  int64        // the command had waited
}

// leaseIsOver is the cause of what ends by itself.
var leaseIsOver = cause{how: history.Expired}

// causeOf is the cause of what a waiter is served.
func causeOf(w *wait.Waiter, now int64) cause {
	return cause{by: strings.ToLower(w.Args[0]), client: w.Client, waitedMs: w.WaitedMs(now)}
}

// namesLock reports whether a key may be a lock, by its name.
func (m *Machine) namesLock(key string) bool {
	pattern := m.settings.lockPattern
	switch {
	case !m.applying || len(key) > lockKeyBytesMax:
		return false
	case pattern == "*":
		return true
	}
	g := arg.NewGlob(pattern)
	return m.meter.Matches(g, key) && !g.Exceeded()
}

// markOf is the mark of a key that comes into being under a condition.
func (m *Machine) markOf(why *cause, key string, v value.Value) store.Mark {
	if v.Aggregate() != nil || v.Str() == "" || len(v.Str()) > lockTokenBytesMax || !m.namesLock(key) ||
		why.script && helpsRedisson(key) {
		return store.NoLock
	}
	return store.MayBeLock
}

// stampLease notes that the lease of a holder begins, or begins anew; its key may be new.
func (m *Machine) stampLease(why *cause, key string, h *lock.Holder) {
	switch {
	case !m.applying:
	case h.LeaseMs != 0:
		h.Renew(h.Tick, m.tick)
	case m.namesLock(key) && h.Tick != lock.NoLease:
		h.Facts = m.newFacts(why, h.Tick)
	}
}

// lockName is the lock of an event, and why that comes.
type lockName struct {
	why     *cause
	db      int
	key     string
	permits int64 // see history.Event
}

// withLock returns next, complete with the facts of the lock that its key is, and reports whether that has a new holder
// who needs a fence of his own, though the key stays.
func (m *Machine) withLock(why *cause, was, next *store.Entry) (complete *store.Entry, raises bool) {
	if next.IsLockedString() {
		return next.WithFacts(m.factsOf(why, was, next)), false
	}
	return next, m.applying && m.completeHash(why, was, next)
}

// factsOf returns the facts of a lock that is a string: it goes on, is renewed, or is granted now.
func (m *Machine) factsOf(why *cause, was, next *store.Entry) (facts lock.Facts) {
	if was != nil && was.Mark() == store.IsLock {
		facts = was.Facts()
	}
	switch {
	case !m.applying:
	case !was.IsLockedString(), was.Str() != next.Str():
		facts = m.newFacts(why, next.Tick)
	case was.Deadline() != next.Deadline():
		facts.Renew(next.Tick, m.tick)
	}
	return facts
}

// noteLock notes who has lost a lock, and to whom it was granted.
func (m *Machine) noteLock(why *cause, c store.Change) {
	if !m.applying {
		return
	}
	of, was, next := lockName{why: why, db: c.DB, key: c.Key}, c.Was, c.Next
	if was.HashLock() != nil || next.HashLock() != nil {
		m.noteHash(of, was, next)
	}
	had, has := was.IsLockedString(), next.IsLockedString()
	kept := had && has && was.Str() == next.Str()
	if had && !kept {
		h := heldBy(was)
		m.recordLoss(of, &h, next != nil)
	}
	if has && !kept {
		h := heldBy(next)
		m.recordGrant(of, &h)
	}
	if before, after := was.Lock(), next.Lock(); before != nil || after != nil {
		m.recordHolders(of, before, after, next != nil)
	}
}

// newFacts are those of a lock that is granted now, until a tick.
func (m *Machine) newFacts(why *cause, until int64) lock.Facts {
	f := lock.Facts{SinceTick: m.tick, SinceMs: m.wallUs / 1000, LeaseMs: -1, Client: clientHash(why.client)}
	if until != lock.NoLease {
		f.LeaseMs = until - m.tick
	}
	return f
}

// heldBy is the holder of an exclusive lock, as one of many.
func heldBy(e *store.Entry) lock.Holder {
	h := lock.Holder{
		Token: e.Str(), Fence: e.Fence, Tick: e.Tick, WallMs: e.Deadline().WallMs, Facts: e.Facts(),
	}
	if t := e.Tag(); t != nil {
		h.Owner, h.Note = t.Owner, t.Note
	}
	return h
}

// recordHolders compares who held a lock of many with who does now.
func (m *Machine) recordHolders(of lockName, before, after *lock.Many, there bool) {
	m.meter.Spend(value.VisitWork * int64(before.Len()+after.Len()))
	of.permits = permitsOf(before)
	before.Missing(after, func(h *lock.Holder) {
		if h.LeaseMs != 0 {
			m.recordLoss(of, h, there && after == nil)
		}
	})
	of.permits = permitsOf(after)
	after.Missing(before, func(h *lock.Holder) {
		if h.LeaseMs != 0 {
			m.recordGrant(of, h)
		}
	})
}

func permitsOf(l *lock.Many) int64 {
	if l == nil {
		return 0
	}
	return int64(l.Mode())
}

func (m *Machine) recordGrant(of lockName, h *lock.Holder) {
	if len(of.key) > lockKeyBytesMax {
		return
	}
	m.recordEvent(of.why, &history.Event{
		Kind: history.Granted, DB: of.db, Tick: m.tick, Key: of.key, Token: h.Token, Owner: h.Owner, Note: h.Note,
		Fence: h.Fence, Permits: of.permits, WaitedMs: of.why.waitedMs, LeaseMs: h.LeaseMs,
	})
}

// recordLoss notes that a holder has lost a lock, perhaps to something else at its key. What the client deletes that was
// granted the lock is released.
func (m *Machine) recordLoss(of lockName, h *lock.Holder, overwritten bool) {
	if len(of.key) > lockKeyBytesMax {
		return
	}
	kind, tick := of.why.how, m.tick
	switch {
	case kind == history.Expired:
		tick = min(tick, h.Tick)
	case kind != history.None:
	case overwritten:
		kind = history.Overwritten
	case of.why.condition, h.Client != 0 && h.Client == clientHash(of.why.client):
		kind = history.Released
	default:
		kind = history.Deleted
	}
	m.recordEvent(of.why, &history.Event{
		Kind: kind, DB: of.db, Tick: tick, Key: of.key, Token: h.Token, Owner: h.Owner, Fence: h.Fence,
		Permits: of.permits, Reason: of.why.reason,
		HeldMs: max(0, tick-h.SinceTick), LeaseMs: h.LeaseMs, Renewals: uint64(h.Renewals), RenewedMs: renewedMs(h),
	})
}

// renewedMs is the wall time at which a lease was begun anew, the last time; 0: never, or it has none.
func renewedMs(h *lock.Holder) int64 {
	if h.Renewals == 0 || h.LeaseMs < 0 {
		return 0
	}
	return h.WallMs - h.LeaseMs
}

// recordWaitEnd notes how a wait in line has ended, other than by the lock.
func (m *Machine) recordWaitEnd(w *wait.Waiter, how resp.Ending, reply resp.Reply) {
	want := w.Lock()
	if want == nil || !m.namesLock(w.Name().Key) {
		return
	}
	e := &history.Event{
		Kind: history.Gone, DB: w.DB, Tick: m.tick, Key: w.Name().Key, Token: want.Token, Owner: want.Owner,
		Permits: int64(want.Mode),
	}
	switch {
	case how == resp.BlockTimedOut:
		e.Kind, e.Tick = history.GaveUp, min(m.tick, w.End)
	case how != resp.BlockServed:
	case reply.Str == errTokenElsewhere:
		e.Kind = history.Replaced
	case reply.IsErr():
		e.Kind, e.Reason = history.Refused, reply.Str
	default:
		e.Kind = history.Left
	}
	e.WaitedMs = w.WaitedMs(e.Tick)
	m.recordEvent(&cause{client: w.Client}, e)
}

// recordLocksOf notes what becomes of all locks of a database.
func (m *Machine) recordLocksOf(why *cause, kind history.Kind, db, other int) {
	if m.applying && m.keys.DBs[db].Keys.Len() > 0 {
		m.recordEvent(why, &history.Event{Kind: kind, DB: db, OtherDB: other, Tick: m.tick})
	}
}

// recordEvent adds an event to the history, and emits it.
func (m *Machine) recordEvent(why *cause, e *history.Event) {
	m.complete(why, e)
	record := m.events.Add(e)
	if m.journal == nil {
		m.events.Trim(m.settings.historyMax)
	}
	m.meter.Spend(meter.EventWork + value.CopyWork*int64(len(record)))
	m.digest.event(record)
	m.emitLock(resp.MessageLock, record)
}

// complete says whose doing an event is, and when it was.
func (m *Machine) complete(why *cause, e *history.Event) {
	e.By, e.Script, e.Client = why.by, why.script, why.client
	e.WallMs = m.wallUs/1000 - (m.tick - e.Tick)
}

// emitLock emits an event in its place in the entry: of kind MessageLock for subscribers and for clients that hold
// locks, of kind MessageHeld for the latter only.
func (m *Machine) emitLock(kind resp.MessageKind, record []byte) {
	m.out.Emit(resp.Message{Kind: kind, Index: m.index, Event: record, Form: history.FormOf(m.settings.showTokens)})
}

// A cluster that was restored from a backup knows nothing of the locks that were granted after it was made. So for a
// while, which the setting lock-hold-until says in the log clock, it grants no lock that it does not know: whoever
// holds one goes on, renews it and releases it. What would grant one is taken back as a whole.

// A command that refuses for it answers this, with the milliseconds that are left. LOADING is what clients try again.
const errHoldFmt = "LOADING this cluster was restored from a backup: for %d ms it grants no lock that the backup does " +
	"not know"

// embargo is the part of a running command that is about this.
type embargo struct {
	guards  bool // what the command does can be taken back
	watched bool // its request is a transaction that has watched keys
	met     bool // it would have granted a lock
}

// embargoed reports whether no lock is granted yet.
func (m *Machine) embargoed() bool { return m.tick <= m.settings.holdUntil }

func (m *Machine) embargoError() resp.Reply {
	return resp.Errf(errHoldFmt, m.settings.holdUntil-m.tick+1)
}

// checkEmbargo notes that the running command grants somebody a lock, if a change makes next of was.
func (m *Machine) checkEmbargo(why *cause, key string, was, next *store.Entry) {
	if m.embargo.guards && next != nil && (m.grantsNew(why, key, was, next) || handedOver(was, next) || grantsMore(was, next)) {
		m.embargo.met = true
	}
}

// handedOver reports whether the token of a lock has changed, or of what becomes one by its first lease.
func handedOver(was, next *store.Entry) bool {
	return was != nil && next.Mark() != store.NoLock && store.ChangesToken(was, next)
}

// createsIf are commands that make a key only if it is absent, and are no locks as LOCKS has them.
var createsIf = map[string]bool{"lock": true, "hsetnx": true, "renamenx": true, "copy": true, "move": true}

// grantsNew reports whether a key that comes into being may be a lock: it does so under a condition, or in a script,
// which may have looked. Of what a script makes only a string or a hash is one.
func (m *Machine) grantsNew(why *cause, key string, was, next *store.Entry) bool {
	switch {
	case was != nil:
		return false
	case next.Lock() != nil:
		return true
	case why.script:
		plain := next.Aggregate() == nil || next.Aggregate().Kind() == value.HashKind
		return plain && !helpsRedisson(key)
	}
	return why.condition || m.embargo.watched || createsIf[why.by]
}

// grantsMore reports whether somebody holds a lock of many who did not before.
func grantsMore(was, next *store.Entry) (more bool) {
	if before, after := was.Lock(), next.Lock(); after != nil {
		after.Missing(before, func(*lock.Holder) { more = true })
		return more
	}
	before, after := was.HashLock(), next.HashLock()
	if before == nil || after == nil {
		return false
	}
	return stayed(before.Holders, after.Holders, func(*store.HashHolder) {}) < len(after.Holders)
}

// Clients that hold locks get the events of them (history/news.go). What else they need is below.

// emitHeld answers the fence of a LOCK. If the token had the lock before, it also emits a grant: the client may be
// another one now, and has to learn of the loss, too. In the history such a LOCK is a renewal.
func (c *ctx) emitHeld(l *lockRequest, again bool, fence resp.Reply) resp.Reply {
	held := resp.HeldLock{DB: c.db, Key: l.key, Token: l.Token, Fence: uint64(fence.Int)}
	if again && c.m.applying && c.m.leaseOf(held).Held {
		e := history.Event{Kind: history.Granted, DB: c.db, Tick: c.m.tick, Key: l.key, Token: l.Token, Fence: held.Fence}
		e.LeaseMs = l.leaseMs
		c.m.complete(&c.why, &e)
		c.m.emitLock(resp.MessageHeld, history.Append(nil, &e))
	}
	return fence
}

// Leases are those of locks; see cluster.Machine.
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

// leaseOf is the lease of a lock as it is stored: one that is over is held until an entry ends it.
func (m *Machine) leaseOf(l resp.HeldLock) (lease resp.Lease) {
	if l.DB < 0 || l.DB >= store.Databases {
		return lease
	}
	e, ok := m.keys.DBs[l.DB].Keys.Get(l.Key)
	if !ok {
		return lease
	}
	var h lock.Holder
	switch held := e.Lock(); {
	case held != nil && held.Holder(l.Token) != nil:
		h = *held.Holder(l.Token)
	case e.Mark() == store.IsLock && e.Str() == l.Token:
		h = heldBy(e)
	}
	if h.LeaseMs == 0 || max(h.Fence, e.Fence, m.keys.DBs[l.DB].Floor) != l.Fence {
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

// clientHash is what is kept of a client in the facts.
func clientHash(by resp.Sender) uint32 {
	if by == "" {
		return 0
	}
	c := by.Client()
	return max(1, uint32(xxh3.HashString(c.Addr)^xxh3.HashString(c.Node)*31^c.ID*0x9e3779b97f4a7c15))
}
