package keyspace

import (
	"cmp"
	"slices"
	"strings"

	"lockd/keyspace/value"
	"lockd/resp"
)

// lockLine is what those in line for a lock wait for: a key that may hold a string, as it holds nothing.
var lockLine = &value.Kind{Name: "string", Image: value.KindString}

// lineWork is the work of looking whether somebody waits for a lock.
const lineWork = 2 * value.FindWork

// lineKey is a lock that somebody waits for, lineToken one who does.
type (
	lineKey struct {
		db  int
		key string
	}
	lineToken struct {
		lineKey
		token string
	}
)

func (w *waiter) line() lineKey        { return lineKey{w.db, w.keys[0]} }
func (w *waiter) lineToken() lineToken { return lineToken{w.line(), w.lock.token} }

func (k lineKey) ready() readyKey { return readyKey{k.db, k.key, lockLine} }

// enterLine and leaveLine keep what is derived of those in line.
func (b *blocked) enterLine(w *waiter) {
	b.lines[w.line()]++
	b.tokens[w.lineToken()] = w
	b.owners.Set(w.own())
}

func (b *blocked) leaveLine(w *waiter) {
	delete(b.tokens, w.lineToken())
	b.owners.Delete(w.own())
	if b.lines[w.line()]--; b.lines[w.line()] == 0 {
		delete(b.lines, w.line())
	}
}

// noteFreed marks a lock that somebody waits for, because its key has gone, has fewer holders, or
// holds what is no lock.
func (m *Machine) noteFreed(db int, key string) {
	if len(m.blocked.lines) == 0 {
		return
	}
	m.spend(lineWork)
	if k := (lineKey{db, key}); m.blocked.lines[k] > 0 {
		m.markReady(k.ready())
	}
}

// noteTaken marks a lock that somebody waits for, because a token that waits has come to hold it in another way than by
// its LOCK: by SET, or by a script.
func (m *Machine) noteTaken(db int, next *entry) {
	if len(m.blocked.lines) == 0 {
		return
	}
	m.spend(lineWork)
	if k := (lineKey{db, next.key()}); m.blocked.lines[k] > 0 && m.holdingWaiter(k) != nil {
		m.markReady(k.ready())
	}
}

// holdingWaiter returns one in line for a lock whose token holds it; nil: there is none.
func (m *Machine) holdingWaiter(k lineKey) *waiter {
	waits := func(token string) *waiter {
		m.spend(lineWork)
		if w := m.blocked.tokens[lineToken{k, token}]; w != nil && !m.blocked.session(w.id.Session).Suspended {
			return w
		}
		return nil
	}
	e, ok := m.dbs[k.db].keys.get(k.key)
	switch {
	case !ok || m.due(e):
	case e.agg() == nil && len(e.str()) <= lockTokenBytesMax:
		return waits(e.str())
	case e.lock() != nil:
		for h := range e.lock().Each {
			if w := waits(h.Token); w != nil {
				return w
			}
		}
	}
	return nil
}

// noteLeft marks a lock whose line somebody has left, or asks otherwise in: those behind may share it
// with its holders.
func (m *Machine) noteLeft(k lineKey) {
	if e, _ := m.dbs[k.db].keys.get(k.key); e.lock() != nil {
		m.noteFreed(k.db, k.key)
	}
}

// givesWay reports whether a lock has lost holders, and has some left.
func givesWay(was, next *entry) bool {
	before, after := was.lock(), next.lock()
	return before != nil && after != nil && after.Len() < before.Len()
}

// noteAllFreed marks the locks of a database whose content was replaced.
func (m *Machine) noteAllFreed(db int) {
	for _, key := range m.linesOf(db) {
		if e, ok := m.dbs[db].keys.get(key); !ok || e.agg() != nil {
			m.noteFreed(db, key)
		}
	}
}

// linesOf lists the keys of a database that somebody stands in line for, in their order.
func (m *Machine) linesOf(db int) (keys []string) {
	if len(m.blocked.lines) == 0 {
		return nil
	}
	m.spend((value.VisitWork + value.TreeWork(m.dbs[db].keys.len())) * int64(m.blocked.places.Len()))
	m.blocked.places.Ascend(waitPlace{db: db}, func(p waitPlace) bool {
		if p.db == db && p.kind == lockLine.Image && (len(keys) == 0 || keys[len(keys)-1] != p.key) {
			keys = append(keys, p.key)
		}
		return p.db == db
	})
	return keys
}

// sweepLines ends the leases and the waits that are over of keys that somebody stands in line for,
// however many: or else a command of this entry might find one of them over, and take the lock before
// those in line.
func (m *Machine) sweepLines(at resp.Stamp) {
	for db := range m.dbs {
		for _, key := range m.linesOf(db) {
			m.sweepLine(at, lineKey{db, key})
		}
	}
}

func (m *Machine) sweepLine(at resp.Stamp, k lineKey) {
	over := m.overdue(k)
	for {
		e, ok := m.dbs[k.db].keys.get(k.key)
		switch {
		case ok && m.due(e) && (len(over) == 0 || e.ends() <= over[0].end):
			m.expireLock(at, k.db, e)
		case len(over) == 0:
			return
		default:
			if m.blocked.waiter(over[0].id) == over[0] {
				m.timeOut(at, over[0])
			}
			over = over[1:]
		}
	}
}

// overdue lists those in a line whose time is over, in the order in which it ended.
func (m *Machine) overdue(k lineKey) (over []*waiter) {
	for w := m.blocked.next(k.ready(), 0); w != nil; w = m.blocked.next(k.ready(), w.seq) {
		if w.end < m.tick {
			over = append(over, w)
		}
	}
	slices.SortStableFunc(over, func(a, b *waiter) int { return int(min(max(a.end-b.end, -1), 1)) })
	return over
}

// expireLock ends the next lease of a key, at its moment, and lets those in line have what it frees.
func (m *Machine) expireLock(at resp.Stamp, db int, e *entry) {
	freed := e.ends() + 1
	m.moment(freed, func() {
		m.endLeases(db, e)
		m.serveFreed(at, lineKey{db, e.key()}.ready(), freed)
	})
}

// timeOut ends a wait whose time is over, at its moment. Those behind may share the lock then.
func (m *Machine) timeOut(at resp.Stamp, w *waiter) {
	freed := w.end + 1
	m.moment(freed, func() {
		m.endWait(w, resp.BlockTimedOut, resp.Reply{})
		if w.kind == lockLine {
			m.serveFreed(at, w.line().ready(), freed)
		}
	})
}

// moment turns the clock back to a tick while do runs: what has ended since then is still there.
func (m *Machine) moment(tick int64, do func()) {
	now := m.tick
	m.tick = tick
	do()
	m.tick = now
}

// serveFreed serves a line whose lock was the last to be marked, if it was.
func (m *Machine) serveFreed(at resp.Stamp, k readyKey, freed int64) {
	if _, waits := m.readySet[k]; waits {
		m.unmarkReady()
		m.serveLine(at, k, freed)
	}
}

// serveLine gives a lock that is free since a tick to the first in line, and to those behind who may
// share it. Whose time was over before that gets nothing. Nobody waits any longer for what is no lock.
func (m *Machine) serveLine(at resp.Stamp, k readyKey, freed int64) {
	m.serving = true
	defer func() { m.serving = false }()
	c := &ctx{m: m, at: at, db: k.db}
	for w := m.blocked.next(k, 0); w != nil; w = m.blocked.next(k, 0) {
		state, err := c.stateFor(w.lock)
		if state == lockTaken && err == nil {
			if holds := m.holdingWaiter(w.line()); holds != nil {
				m.serve(c, holds, k.key)
				continue
			}
		}
		switch {
		case err != nil:
			m.dropWaiter(w, resp.BlockServed, resp.Fail(err))
		case w.end < freed:
			m.dropWaiter(w, resp.BlockTimedOut, resp.Reply{})
		case state == lockTaken && m.endDeadlock(at.Tick, w.line()):
		case state == lockTaken:
			return
		default:
			m.serve(c, w, k.key)
		}
	}
}

// lineBefore reports whether somebody stands in line for a lock. A trial does not know whether one
// whose time is over by its own clock still does.
func (c *ctx) lineBefore(key string) bool {
	w := c.m.blocked.next(lineKey{c.db, key}.ready(), 0)
	if w != nil && c.m.trial.running && c.now() > w.end {
		c.m.trial.changes = true
	}
	return w != nil
}

// granted is the version of a lock that its client has only now, for the case that it is not there
// any more; nil where the command was no LOCK or has got nothing. A token that held the lock before
// (its fence is no later than the last one before the command) may have been told so: a request of
// its program that comes late takes nothing away.
func (m *Machine) granted(db int, p *pending, reply resp.Reply, lastFence uint64) *resp.Watch {
	if p.kind != lockLine || reply.Kind != resp.KindInt || uint64(reply.Int) <= lastFence {
		return nil
	}
	w := &resp.Watch{DB: db, Key: p.keys[0], Version: m.version(db, p.keys[0])}
	e, _ := m.dbs[db].keys.get(w.Key)
	if e.lock() == nil {
		return w
	}
	if h := e.lock().Holder(p.lock.token); h != nil {
		w.Version, w.Holder = h.Version, true // the key's own changes with every holder
	}
	return w
}

// stillHeld reports whether nobody has touched the holder of a version since. The key is still the
// one that the holder was given: RENAME and SWAPDB make another one of it.
func (m *Machine) stillHeld(db int, key string, version uint64) bool {
	d := m.dbs[db]
	e, _ := d.keys.get(key)
	if e.lock() == nil || d.swapped > version {
		return false
	}
	for h := range e.lock().Each {
		if h.Version == version && h.Fence >= e.fence && m.tick <= h.Tick {
			return true
		}
	}
	return false
}

// several reports whether others may hold the lock beside the token.
func (l *lockRequest) several() bool { return l.shared || l.permits > 0 }

// lockState is what a lock is for one who asks for it.
type lockState int

const (
	lockFree  lockState = iota // nobody holds it, or the token does
	lockOpen                   // others hold it, who share it
	lockTaken                  // others hold it
)

// stateFor is the state of a lock for a request. The error is for one that no wait would help.
func (c *ctx) stateFor(l *lockRequest) (lockState, error) {
	e, held, err := c.lookupLock(l.key)
	switch {
	case err != nil || e == nil:
		return lockFree, err
	case held != nil:
		return stateOf(held, l)
	case e.str() != l.token:
		return lockTaken, nil
	case l.several():
		return lockTaken, resp.Error(errHeldOtherwise)
	}
	return lockFree, nil
}

// stateOf is stateFor of a lock that several may hold.
func stateOf(held *value.Lock, l *lockRequest) (lockState, error) {
	alike := l.several() && held.Permits() == l.permits
	holds := held.Holder(l.token) != nil
	switch {
	case l.permits > 0 && held.Permits() > 0 && !alike:
		return lockTaken, resp.Errorf(errOtherLimitFmt, held.Permits())
	case holds && !alike:
		return lockTaken, resp.Error(errHeldOtherwise)
	case holds:
		return lockFree, nil
	case alike && held.HasRoom():
		return lockOpen, nil
	}
	return lockTaken, nil
}

// Deadlocks. The owner of a wait is the OWNER of its LOCK, or else the token. An owner does one thing at a
// time, so one that waits is blocked; owners that wait for each other are, until a lease or a WAIT ends.
// The LOCK that closes such a cycle gets an error and does not wait. DESIGN.md says which cycles are found.

// Limits of the search for a cycle. Beyond them none is found.
const (
	deadlockOwnersMax    = 256     // owners in one search
	deadlockEdgesMax     = 4096    // holders of their locks, and their waits, in one search
	deadlockEntryWorkMax = 1 << 29 // work of all searches of one entry, 0.1 s
)

// What the error shows. A token is a secret of a kind.
const (
	deadlockShownMax     = 8  // owners besides the one that gets the error
	deadlockNameCharsMax = 64 // of an owner, of a key
	deadlockTokenChars   = 8
)

// ownWait is a wait, in the order of the owners who wait.
type ownWait struct {
	owner string
	seq   uint64
	of    *waiter
}

func ownWaitLess(a, b ownWait) bool {
	return cmp.Or(strings.Compare(a.owner, b.owner), cmp.Compare(a.seq, b.seq)) < 0
}

func (w *waiter) own() ownWait { return ownWait{cmp.Or(w.lock.owner, w.lock.token), w.seq, w} }

// deadlock is a search for a cycle from one lock on: to all who hold it, to all locks that these wait
// for, and so on. It fails at the first owner who does not wait.
type deadlock struct {
	m      *Machine
	now    int64 // what is over by then is as good as gone
	edges  int
	locks  []soughtLock // in the order in which they were found; the first is where the search began
	owners []stuckOwner
	seen   map[lineKey]struct{} // the keys of locks
	known  map[string]int       // the places of owners by their names
	last   *waiter              // of those in line for the first lock whose owners were found
}

type soughtLock struct {
	lineKey
	by int // the place of an owner who waits for it; -1 for the first
}

type stuckOwner struct {
	shown string // its name, or the beginning of its token
	holds int    // the place of a lock that it holds
}

// mayWait reports whether a waiter that has just begun to wait may go on.
func (m *Machine) mayWait(now int64, w *waiter) bool {
	if w.kind != lockLine {
		return true
	}
	for m.endDeadlock(now, w.line()) {
		m.noteLeft(w.line())
	}
	return m.blocked.waiter(w.id) == w
}

// endDeadlock looks for a cycle through a wait for a lock. If there is one it ends that wait: of several,
// the last to have begun.
func (m *Machine) endDeadlock(now int64, k lineKey) bool {
	if m.searched > deadlockEntryWorkMax {
		return false
	}
	d := deadlock{m: m, now: now, locks: []soughtLock{{k, -1}}}
	for i := 0; i < len(d.locks); i++ {
		if !d.isStuck(i) {
			return false
		}
	}
	if d.last == nil {
		return false
	}
	m.dropWaiter(d.last, resp.BlockServed, resp.Err(d.message()))
	return true
}

// spend counts work, which the entry has a limit for: many may have to be looked at.
func (d *deadlock) spend(work int64) {
	d.m.spend(work)
	d.m.searched += work
}

// isStuck reports whether all who hold a lock wait, as far as is known. One that is about to be served
// is not stuck.
func (d *deadlock) isStuck(at int) bool {
	k := d.locks[at].lineKey
	d.spend(d.m.dbs[k.db].findWork(k.key) + lineWork)
	e, ok := d.m.dbs[k.db].keys.get(k.key)
	if _, ready := d.m.readySet[k.ready()]; ready || !ok || e.ends() < d.now {
		return false
	}
	if e.agg() == nil {
		owner := ""
		if e.tag() != nil {
			owner = e.tag().owner
		}
		return d.waits(at, owner, e.str())
	}
	if e.lock() == nil {
		return false
	}
	for h := range e.lock().Each {
		if !d.waits(at, h.Owner, h.Token) {
			return false
		}
	}
	return true
}

// waits follows a holder of a lock to what it waits for: false if it does not.
func (d *deadlock) waits(at int, owner, token string) (waits bool) {
	name := cmp.Or(owner, token)
	if len(name) > max(lockOwnerBytesMax, lockTokenBytesMax) || !d.mayVisit(name) {
		return false
	}
	if _, known := d.known[name]; known {
		return true
	}
	from := len(d.owners)
	d.m.blocked.owners.Ascend(ownWait{owner: name}, func(w ownWait) bool {
		if w.owner != name {
			return false
		}
		if waits = d.mayVisit("") && w.of.end >= d.now; waits {
			d.follow(w.of, from)
		}
		return waits
	})
	if !waits || from == deadlockOwnersMax {
		return false
	}
	if d.known == nil {
		d.known = map[string]int{}
	}
	d.known[name] = from
	shown := shorten(owner, deadlockNameCharsMax)
	if owner == "" {
		shown = shorten(token, deadlockTokenChars)
	}
	d.owners = append(d.owners, stuckOwner{shown, at})
	return true
}

// mayVisit counts one more holder, or wait.
func (d *deadlock) mayVisit(name string) bool {
	d.spend(value.TreeWork(d.m.blocked.owners.Len()) + value.HashWork*int64(len(name)))
	d.edges++
	return d.edges <= deadlockEdgesMax
}

// follow notes the lock that one of the owners waits for.
func (d *deadlock) follow(w *waiter, by int) {
	k := w.line()
	if k == d.locks[0].lineKey {
		if d.last == nil || w.seq > d.last.seq {
			d.last = w
		}
		return
	}
	if _, seen := d.seen[k]; seen {
		return
	}
	if d.seen == nil {
		d.seen = map[lineKey]struct{}{}
	}
	d.seen[k] = struct{}{}
	d.locks = append(d.locks, soughtLock{k, by})
}

// message describes the cycle, from the owner that gets the error round to what it holds.
func (d *deadlock) message() string {
	self := d.owners[d.known[d.last.own().owner]]
	var others []string
	for at := self.holds; at != 0; {
		by := d.owners[d.locks[at].by]
		others = append(others, ", held by "+by.shown+", which waits for "+shownKey(d.locks[at].key))
		at = by.holds
	}
	slices.Reverse(others)
	if over := len(others) - deadlockShownMax; over > 0 {
		others = slices.Replace(others, deadlockShownMax/2, deadlockShownMax/2+over, ", ...")
	}
	return "DEADLOCK " + self.shown + " holds " + shownKey(d.locks[self.holds].key) +
		" and waits for " + shownKey(d.locks[0].key) + strings.Join(others, "")
}

func shownKey(key string) string { return shorten(key, deadlockNameCharsMax) }

// shorten cuts a text to so many characters.
func shorten(text string, chars int) string {
	for i := range text {
		if chars--; chars < 0 {
			return text[:i] + "..."
		}
	}
	return text
}
