package keyspace

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Blocking commands. A command that finds nothing is registered as a waiter, in the order of the
// log. The entry that makes a key ready also serves the key's waiters, in the order in which they
// came. So the queue is the same on every node and survives every change of leader. DESIGN.md
// explains how a command is executed once although its node may have to ask twice.

// Limits of the waiters of the whole cluster.
const (
	waitersMax     = 1 << 16
	waiterBytesMax = 64 << 20
	waiterKeysMax  = 1 << 14 // of one command
)

// blockLeaseMs is how long a session lives, by the log clock, after its node last renewed it.
const blockLeaseMs = 10_000

// blockNumberMax is the last number in a session; no node gets that far.
const blockNumberMax = 1 << 62

// spansMax bounds what is remembered of a session's used numbers.
const spansMax = 1024

// The memory that a waiter is assumed to need beside its arguments, and for each of its keys.
const (
	waiterOverheadBytes = 320
	waiterKeyBytes      = 96
)

const (
	errTooManyWaiters = "ERR too many clients wait in blocking commands"
	errTooManyKeys    = "ERR too many keys to wait for"
)

// pending is what a command waits for, and what it does then. It follows from the arguments alone, so that a command
// which waits is the same after an image. Commands that take from the first key that has something are no more than
// this: it is their call.
type pending struct {
	kind      *value.Kind // of the values that it takes from
	keys      []string    // checked in this order
	timeoutMs int64       // 0: it waits for ever
	absent    func() resp.Reply
	take      taker
	lock      *lockRequest // of LOCK, whose kind is lockLine

	// ready reports whether a key that holds the kind has something for the command; nil: it always
	// has. A waiter that is not ready goes on waiting, and those behind it are served.
	ready func(c *ctx, key string) bool
}

// waiting is a call that may wait.
type waiting interface {
	call
	waits() *pending // nil: it can not, as its arguments mean something else with time
}

func (p *pending) Run(c *ctx) resp.Reply { return c.await(p) }
func (p *pending) waits() *pending       { return p }

// taker executes a blocking command on a key that holds what it waits for. The undo is nil where the client is given
// nothing that could be taken back; of a LOCK it follows from the reply (undoLock).
type taker func(c *ctx, key string) (resp.Reply, *reversal)

// waiter is a command that waits. It is immutable.
type waiter struct {
	id   resp.BlockID
	seq  uint64 // its place among all waiters
	db   int
	args resp.Args
	end  int64 // tick after which it stops waiting; store.Never.Tick: it waits for ever

	client resp.Sender  // who waits, if that is known
	inLine *lock.Waiter // its place in the line for a lock, while it has one
	pending
}

func (w *waiter) bytes() int64 {
	n := int64(waiterOverheadBytes+waiterKeyBytes*len(w.keys)+bytesOf(w.args)) + clientBytes(w.client)
	if w.lock != nil {
		n += waiterKeyBytes
	}
	return n
}

// waitPlace is the place of a waiter in the queue of one of its keys. Each type has a queue of its
// own, so waiters for another type are not visited.
type waitPlace struct {
	db   int
	key  string
	kind byte // image of the kind
	seq  uint64
	of   *waiter
}

func waitPlaceLess(a, b waitPlace) bool {
	return cmp.Or(
		cmp.Compare(a.db, b.db),
		strings.Compare(a.key, b.key),
		cmp.Compare(a.kind, b.kind),
		cmp.Compare(a.seq, b.seq),
	) < 0
}

// waitEnd is the end of a waiter's time. The ends are ordered by time.
type waitEnd struct {
	tick int64
	seq  uint64
	of   *waiter
}

func waitEndLess(a, b waitEnd) bool {
	return cmp.Or(cmp.Compare(a.tick, b.tick), cmp.Compare(a.seq, b.seq)) < 0
}

func waiterLess(a, b *waiter) bool { return idLess(a.id, b.id) }

// blockSession is a node that asks for blocking commands, as long as it renews the session. It is
// immutable: a change replaces it.
type blockSession struct {
	resp.BlockSession
	until int64 // tick after which it is over
	used  spans // the numbers that have been asked for, or cancelled
}

func blockSessionLess(a, b *blockSession) bool { return a.ID < b.ID }

// sessionOf is what a session is found by.
func sessionOf(id uint64) *blockSession {
	return &blockSession{BlockSession: resp.BlockSession{ID: id}}
}

// blocked is everything that waits.
type blocked struct {
	lastSeq     uint64 // of a waiter
	lastSession uint64
	revision    uint64 // counts the sessions that open, close, are suspended and resume; in no image
	sessions    *btree.BTreeG[*blockSession]
	waiters     *btree.BTreeG[*waiter] // by id
	gifts       gifts

	// Derived from these.
	places *btree.BTreeG[waitPlace] // of those whose session is not suspended, but for those in line
	line   lock.Line                // who wait for locks
	ends   *btree.BTreeG[waitEnd]   // of those that do not wait for ever
	bytes  int64
}

func newBlocked() blocked {
	return blocked{
		sessions: newOrder(blockSessionLess), waiters: newOrder(waiterLess), gifts: newGifts(),
		places: newOrder(waitPlaceLess), line: lock.NewLine(), ends: newOrder(waitEndLess),
	}
}

// copy is the part that an image needs, in O(1).
func (b *blocked) copy() blocked {
	return blocked{
		lastSeq:     b.lastSeq,
		lastSession: b.lastSession,
		sessions:    b.sessions.Copy(),
		waiters:     b.waiters.Copy(),
		gifts:       gifts{all: b.gifts.all.Copy()},
	}
}

func (b *blocked) session(id uint64) *blockSession {
	s, _ := b.sessions.Get(sessionOf(id))
	return s
}

func (b *blocked) waiter(id resp.BlockID) *waiter {
	w, _ := b.waiters.Get(&waiter{id: id})
	return w
}

// add registers a waiter. The waiter keeps no string of the entry alive.
func (b *blocked) add(w *waiter) {
	b.waiters.Set(w)
	b.bytes += w.bytes()
	if w.lock != nil {
		w.inLine = w.lineWaiter()
		b.line.Enter(w.inLine)
	}
	if b.session(w.id.Session).Suspended {
		b.unqueue(w)
	} else {
		b.queue(w)
	}
	if w.end != store.Never.Tick {
		b.ends.Set(waitEnd{w.end, w.seq, w})
	}
}

// queue puts a waiter into the queues of its keys, at the place that it has had from the beginning.
func (b *blocked) queue(w *waiter) {
	if w.inLine != nil {
		b.line.Resume(w.inLine)
		return
	}
	for _, key := range w.keys {
		b.places.Set(w.place(key))
	}
}

// unqueue has a waiter passed over.
func (b *blocked) unqueue(w *waiter) {
	if w.inLine != nil {
		b.line.PassOver(w.inLine)
		return
	}
	for _, key := range w.keys {
		b.places.Delete(w.place(key))
	}
}

func (b *blocked) remove(w *waiter) {
	b.waiters.Delete(w)
	b.bytes -= w.bytes()
	b.ends.Delete(waitEnd{w.end, w.seq, w})
	if w.inLine != nil {
		b.line.Leave(w.inLine)
	} else {
		b.unqueue(w)
	}
}

func (w *waiter) place(key string) waitPlace { return waitPlace{w.db, key, w.kind.Image, w.seq, w} }

// placesWork is the work of adding a waiter to the queues of its keys, or of removing it.
func (b *blocked) placesWork(w *waiter) (work int64) {
	for _, key := range w.keys {
		work += value.HashWork * int64(len(key))
	}
	return work + value.TreeWork(b.places.Len()+b.line.Len())*int64(len(w.keys))
}

// next returns the waiter that has waited longest for values of a kind at a key, among those behind
// a place in the queue; nil if there is none.
func (b *blocked) next(k readyKey, seq uint64) *waiter {
	var found *waiter
	b.places.Ascend(waitPlace{db: k.db, key: k.key, kind: k.kind.Image, seq: seq + 1}, func(p waitPlace) bool {
		if p.db == k.db && p.key == k.key && p.kind == k.kind.Image {
			found = p.of
		}
		return false
	})
	return found
}

// nextEnd is the tick after which the next waiter or session ends; false if there is none.
func (b *blocked) nextEnd() (tick int64, ok bool) {
	if e, found := b.ends.Min(); found {
		tick, ok = e.tick, true
	}
	for s := range b.sessions.Scan {
		if !ok || s.until < tick {
			tick, ok = s.until, true
		}
	}
	return tick, ok
}

// sweepSessions ends the sessions that were not renewed, with all their waiters.
func (m *Machine) sweepSessions() {
	var over []uint64
	for s := range m.blocked.sessions.Scan {
		if m.tick > s.until {
			over = append(over, s.ID)
		}
	}
	for _, id := range over {
		m.closeSession(id)
	}
	m.blocked.gifts.forget(m.tick)
}

// closeSession ends a session with all its waiters.
func (m *Machine) closeSession(id uint64) {
	for _, w := range m.waitersOf(id) {
		m.endWait(w, resp.BlockLapsed, resp.Reply{})
	}
	m.blocked.sessions.Delete(sessionOf(id))
	m.blocked.revision++
}

// waitersOf lists the waiters of a session.
func (m *Machine) waitersOf(session uint64) (waiting []*waiter) {
	m.blocked.waiters.Ascend(&waiter{id: resp.BlockID{Session: session}}, func(w *waiter) bool {
		if w.id.Session == session {
			waiting = append(waiting, w)
		}
		return w.id.Session == session
	})
	return waiting
}

// suspend has the waiters of a session passed over: its node may be dead. They keep their places.
func (m *Machine) suspend(id uint64) {
	s := m.blocked.session(id)
	if s == nil || s.Suspended {
		return
	}
	next := *s
	next.Suspended, next.Suspensions = true, s.Suspensions+1
	m.blocked.sessions.Set(&next)
	m.blocked.revision++
	for _, w := range m.waitersOf(id) {
		m.meter.Spend(m.queueWork(w))
		m.blocked.unqueue(w)
	}
	m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: &resp.BlockEnd{ID: resp.BlockID{Session: id}, How: resp.BlockSuspended}})
	for _, w := range m.waitersOf(id) { // those behind may have what they were in the way of
		if w.lock != nil {
			m.markLeft(w.line())
		}
	}
}

// resume ends a suspension of a session, unless it was suspended again since.
func (m *Machine) resume(id, suspensions uint64) {
	s := m.blocked.session(id)
	if s == nil || !s.Suspended || s.Suspensions != suspensions {
		return
	}
	next := *s
	next.Suspended = false
	m.blocked.sessions.Set(&next)
	m.blocked.revision++
	for _, w := range m.waitersOf(id) {
		m.meter.Spend(m.queueWork(w))
		m.blocked.queue(w)
		m.markPresent(w)
	}
}

// queueWork is the work of putting a waiter into the queues of its keys, or of taking it out.
func (m *Machine) queueWork(w *waiter) int64 {
	return (value.TreeWork(m.blocked.places.Len()+m.blocked.line.Len()) + value.CompareWork) * int64(len(w.keys))
}

// markPresent marks the keys of a waiter that hold what it waits for.
func (m *Machine) markPresent(w *waiter) {
	if w.lock != nil {
		m.markFreed(w.line())
		return
	}
	d := m.keys.DBs[w.db]
	for _, key := range w.keys {
		m.meter.Spend(d.FindWork(key))
		if e, ok := d.Keys.Get(key); ok {
			m.markArrived(w.db, e)
		}
	}
}

// keepSession renews a session and reports whether it exists. A number other than 0 is marked as
// used.
func (m *Machine) keepSession(id, number uint64) bool {
	s := m.blocked.session(id)
	if s == nil {
		return false
	}
	next := *s
	next.until = m.tick + blockLeaseMs
	if number != 0 {
		next.used = s.used.with(number)
	}
	m.blocked.sessions.Set(&next)
	return true
}

// BlockRevision changes with what BlockSessions lists; see cluster.Machine.
func (m *Machine) BlockRevision() uint64 { return m.blocked.revision }

// BlockSessions lists the sessions; see cluster.Machine.
func (m *Machine) BlockSessions() (all []resp.BlockSession) {
	for s := range m.blocked.sessions.Scan {
		all = append(all, s.BlockSession)
	}
	return all
}

// BlockGifts lists what those who had waited in a session were given; see cluster.Machine.
func (m *Machine) BlockGifts(session uint64) (all []resp.BlockGift) {
	for _, gift := range m.blocked.gifts.of(session, math.MaxUint64) {
		if gift.waited {
			all = append(all, resp.BlockGift{ID: gift.id, Entry: gift.entry})
		}
	}
	return all
}

// BlockGiven reports whether something that was given can be taken back; see cluster.Machine.
func (m *Machine) BlockGiven(id resp.BlockID) bool { return m.blocked.gifts.get(id) != nil }

// endWait ends a wait. Those behind in a line may be served by it.
func (m *Machine) endWait(w *waiter, how resp.Ending, reply resp.Reply) {
	m.dropWaiter(w, how, reply)
	if w.lock != nil {
		m.markLeft(w.line())
	}
}

// dropWaiter ends a wait, without serving those behind.
func (m *Machine) dropWaiter(w *waiter, how resp.Ending, reply resp.Reply) {
	m.meter.Spend(m.blocked.placesWork(w))
	m.blocked.remove(w)
	m.recordWaitEnd(w, how, reply)
	end := &resp.BlockEnd{ID: w.id, How: how, Reply: reply}
	if how == resp.BlockDropped || how == resp.BlockLapsed {
		end.Args = w.args
	}
	m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: end})
}

// emitEnd emits the end of a command that does not wait.
func (m *Machine) emitEnd(id resp.BlockID, how resp.Ending) {
	m.out.Emit(resp.Message{Kind: resp.MessageBlock, Block: &resp.BlockEnd{ID: id, How: how}})
}

// Blocked returns what is known of a blocking command; see cluster.Machine.
func (m *Machine) Blocked(id resp.BlockID) resp.BlockState {
	s := m.blocked.session(id.Session)
	switch {
	case id.Session > m.blocked.lastSession:
		return resp.BlockUnseen
	case s == nil:
		return resp.BlockOver
	case m.blocked.waiter(id) != nil:
		return resp.BlockWaiting
	case s.used.has(id.Number):
		return resp.BlockOver
	}
	return resp.BlockUnseen
}

// readyKey is a key that has come to hold a value of a kind that somebody waits for.
type readyKey struct {
	db   int
	key  string
	kind *value.Kind
}

// markArrived marks a key that holds a value for which others may wait. They are served at the end of
// the command or transaction.
func (m *Machine) markArrived(db int, e *store.Entry) {
	if e.Aggregate() == nil || m.blocked.waiters.Len() == 0 {
		return
	}
	if e.Lock() == nil {
		m.markFreed(lock.Name{Space: db, Key: e.Key()}) // it is no lock
	}
	if k := (readyKey{db, e.Key(), e.Aggregate().Kind()}); m.blocked.next(k, 0) != nil {
		m.markReady(k)
	}
}

func (m *Machine) markReady(k readyKey) {
	if _, marked := m.readySet[k]; marked {
		return
	}
	if m.readySet == nil {
		m.readySet = map[readyKey]struct{}{}
	}
	m.readySet[k] = struct{}{}
	m.ready = append(m.ready, k)
}

// unmarkReady takes the last mark back.
func (m *Machine) unmarkReady() { m.forgetReady(len(m.ready) - 1) }

// forgetReady removes the marks of an undone script.
func (m *Machine) forgetReady(from int) {
	for _, k := range m.ready[from:] {
		delete(m.readySet, k)
	}
	m.ready = m.ready[:from]
}

// markSwapped marks all keys of a database that somebody waits for, because its content was
// replaced. It visits the waiters or the keys, whichever are fewer.
func (m *Machine) markSwapped(db int) {
	m.markAllFreed(db)
	d, waiting := m.keys.DBs[db], m.blocked.places.Len()
	if d.Keys.Len() < waiting {
		m.meter.Spend((value.VisitWork + value.TreeWork(waiting)) * int64(d.Keys.Len()))
		m.markReadyKeys(db)
		return
	}
	m.meter.Spend((value.VisitWork + value.TreeWork(d.Keys.Len())) * int64(waiting))
	var keys []string
	m.blocked.places.Ascend(waitPlace{db: db}, func(p waitPlace) bool {
		if p.db == db && (len(keys) == 0 || keys[len(keys)-1] != p.key) {
			keys = append(keys, p.key)
		}
		return p.db == db
	})
	for _, key := range keys {
		if e, ok := d.Keys.Get(key); ok {
			m.markArrived(db, e)
		}
	}
}

// markReadyKeys marks the keys of a database that somebody waits for, in the order of the keys.
func (m *Machine) markReadyKeys(db int) {
	var found []*store.Entry
	for e := range m.keys.DBs[db].Keys.Each {
		if e.Aggregate() != nil && m.blocked.next(readyKey{db, e.Key(), e.Aggregate().Kind()}, 0) != nil {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *store.Entry) int { return strings.Compare(a.Key(), b.Key()) })
	for _, e := range found {
		m.markArrived(db, e)
	}
}

// serveReady serves the waiters of keys that have become ready, in the order in which the keys did.
// Keys that become ready meanwhile come last. A waiter does not pay for the work of the command
// that woke it.
func (m *Machine) serveReady(at resp.Stamp) {
	before := m.meter.Restart()
	defer func() { m.meter.Spend(before) }()
	for m.wakeLibraries(at); len(m.ready) > 0; m.wakeLibraries(at) {
		k := m.ready[0]
		m.ready = m.ready[1:]
		delete(m.readySet, k)
		if k.kind == lockLine {
			m.serveLine(at, lock.Name{Space: k.db, Key: k.key}, m.tick)
		} else {
			m.serveKey(at, k)
		}
	}
	m.ready = nil
}

func (m *Machine) serveKey(at resp.Stamp, k readyKey) {
	m.serving = true
	defer func() { m.serving = false }()
	for w := m.blocked.next(k, 0); w != nil; w = m.blocked.next(k, w.seq) {
		c := &ctx{m: m, at: at, db: k.db}
		if e := c.lookup(k.key); e == nil || e.Aggregate() == nil || e.Aggregate().Kind() != k.kind {
			return
		}
		if m.servedBytes > meter.ReplyBytesMax || m.meter.Exceeded() {
			m.endWait(w, resp.BlockDropped, resp.Reply{}) // its node asks again, in another entry
			continue
		}
		if w.ready != nil && !w.ready(c, k.key) {
			continue
		}
		m.serve(c, w, k.key)
	}
}

// serve executes the command of a waiter.
func (m *Machine) serve(c *ctx, w *waiter, key string) {
	m.meter.Spend(m.blocked.placesWork(w))
	m.blocked.remove(w)
	began, lastFence := m.out.Mark(), m.keys.LastFence
	c.why = w.cause(m.tick)
	reply, u := w.take(c, key)
	if w.lock != nil {
		u = m.undoLock(w.db, &w.pending, reply, lastFence)
	}
	m.servedBytes += reply.Size()
	m.meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
	given := m.remember(w.id, w.db, u, true)
	m.out.EmitServed(resp.BlockEnd{ID: w.id, Reply: reply, Given: given, Waited: true}, began)
}

// blockCall is how a blocking command runs when it was asked for by a step.
type blockCall struct {
	pending
	waits bool      // the command has found nothing
	args  resp.Args // the arguments to wait with, if they differ from those asked for
	undo  *reversal // of what it has done
}

// await executes a blocking command, or lets it wait if it may.
func (c *ctx) await(p *pending) resp.Reply {
	if err := c.begin(p.timeoutMs, p.waits); err != nil {
		return resp.Fail(err)
	}
	for _, key := range p.keys {
		switch e := c.lookup(key); {
		case e == nil:
		case e.Aggregate() == nil || e.Aggregate().Kind() != p.kind:
			return resp.Err(resp.ErrWrongType)
		default:
			return c.served(p.take(c, key))
		}
	}
	return c.wait(p.absent())
}

// served keeps the undo of a blocking command that need not wait.
func (c *ctx) served(reply resp.Reply, u *reversal) resp.Reply {
	if c.block != nil {
		c.block.undo = u
	}
	return reply
}

// begin is told of a command before it is executed. It judges the timeout as far as that needs a clock.
func (c *ctx) begin(timeoutMs int64, waits func() *pending) error {
	if _, ok := c.after(timeoutMs); !ok {
		return resp.Error(errTimeoutRange)
	}
	if c.block != nil {
		c.block.pending = *waits()
	}
	return nil
}

// wait lets a command that has found nothing wait, if it may; otherwise it answers what stands for nothing.
func (c *ctx) wait(absent resp.Reply) resp.Reply {
	if c.block != nil {
		c.block.waits = true
	}
	return absent
}

// span is a range of numbers, both ends included. spans are in order, with a gap between any two.
type (
	span  struct{ from, to uint64 }
	spans []span
)

func (s spans) has(n uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to >= n })
	return i < len(s) && s[i].from <= n
}

// with adds a number. If there are too many spans it closes the lowest gap: the unused numbers in
// it count as used.
func (s spans) with(n uint64) spans {
	i := sort.Search(len(s), func(i int) bool { return s[i].to+1 >= n })
	next := slices.Clone(s)
	if i == len(s) || n+1 < s[i].from {
		next = slices.Insert(next, i, span{n, n})
	} else {
		next[i] = span{min(s[i].from, n), max(s[i].to, n)}
		if i+1 < len(next) && next[i].to+1 == next[i+1].from {
			next[i].to = next[i+1].to
			next = slices.Delete(next, i+1, i+2)
		}
	}
	if len(next) > spansMax {
		next[1].from = next[0].from
		next = next[1:]
	}
	return next
}

// The parts of a session and of a waiter in an image.
const (
	sessionSuspended = 1
	waiterClient     = 1
)

func (b *blocked) write(w *value.Writer) {
	w.U64(b.lastSeq)
	w.U64(b.lastSession)
	w.U64(uint64(b.sessions.Len()))
	b.sessions.Scan(func(s *blockSession) bool {
		parts := uint64(0)
		if s.Suspended {
			parts = sessionSuspended
		}
		w.Parts(parts)
		w.U64(s.ID)
		w.U64(uint64(s.until))
		w.Text(s.Node)
		w.U64(s.Process)
		w.U64(s.Suspensions)
		w.U64(uint64(len(s.used)))
		for _, u := range s.used {
			w.U64(u.from)
			w.U64(u.to)
		}
		return w.OK()
	})
	w.U64(uint64(b.waiters.Len()))
	b.waiters.Scan(func(v *waiter) bool {
		parts := uint64(0)
		if v.client != "" {
			parts = waiterClient
		}
		w.Parts(parts)
		for _, n := range []uint64{v.id.Session, v.id.Number, v.seq, uint64(v.db), uint64(v.end), uint64(len(v.args))} {
			w.U64(n)
		}
		for _, a := range v.args {
			w.Text(a)
		}
		if v.client != "" {
			writeClient(w, v.client)
		}
		return w.OK()
	})
	b.gifts.write(w)
}

func (m *Machine) readBlocked(r *value.Reader) {
	b := &m.blocked
	b.lastSeq, b.lastSession = r.U64(), r.U64()
	last := uint64(0)
	for n := r.U64(); n > 0 && r.OK(); n-- {
		s := readBlockSession(r)
		if s.ID <= last || s.ID > b.lastSession {
			r.Fail("sessions are not in order")
		}
		b.sessions.Set(s)
		last = s.ID
	}
	seen := map[uint64]bool{}
	var before *waiter
	for n := r.U64(); n > 0 && r.OK(); n-- {
		w := m.readWaiter(r)
		if r.OK() && (before != nil && !waiterLess(before, w) || seen[w.seq] || m.Blocked(w.id) != resp.BlockOver) {
			r.Fail("waiters are not in order")
		}
		if r.OK() && w.lock != nil && b.line.Waiter(w.line(), w.lock.Token) != nil {
			r.Fail("a token is twice in the line for a lock")
		}
		if r.OK() {
			b.add(w)
		}
		seen[w.seq], before = true, w
	}
	m.readGifts(r)
}

func readBlockSession(r *value.Reader) *blockSession {
	parts := r.Parts("a session of blocking commands", sessionSuspended)
	s := &blockSession{BlockSession: resp.BlockSession{ID: r.U64()}, until: r.I64()}
	s.Suspended = parts&sessionSuspended != 0
	s.Node, s.Process, s.Suspensions = strings.Clone(r.Text()), r.U64(), r.U64()
	for n := r.U64(); n > 0 && r.OK(); n-- {
		u := span{r.U64(), r.U64()}
		if u.from == 0 || u.from > u.to || u.to > blockNumberMax || len(s.used) >= spansMax ||
			len(s.used) > 0 && u.from <= s.used[len(s.used)-1].to+1 {
			r.Fail("numbers of a session are not in order")
		}
		s.used = append(s.used, u)
	}
	return s
}

func (m *Machine) readWaiter(r *value.Reader) *waiter {
	parts := r.Parts("a command that waits", waiterClient)
	w := &waiter{id: resp.BlockID{Session: r.U64(), Number: r.U64()}, seq: r.U64()}
	db := r.U64()
	w.end = r.I64()
	for n := r.U64(); n > 0 && r.OK(); n-- {
		w.args = append(w.args, r.Text())
	}
	w.args = value.CloneTexts(w.args)
	if parts&waiterClient != 0 {
		w.client = readClient(r)
	}
	p := m.parseWait(w.args)
	if p == nil || db >= store.Databases || w.seq > m.blocked.lastSeq || m.blocked.session(w.id.Session) == nil {
		r.Fail("a command that can not wait")
		return w
	}
	w.db, w.pending = int(db), *p
	return w
}

// parseWait parses a blocking command that waits; nil: it can not.
func (m *Machine) parseWait(args resp.Args) *pending {
	if len(args) == 0 {
		return nil
	}
	row, _ := m.table.Find(args)
	if row == nil || !row.Blocks(args) {
		return nil
	}
	req, err := row.Run(args)
	if r, ok := req.(waiting); ok && err == nil {
		return r.waits()
	}
	return nil
}

// clientOverheadBytes is what a client counts for beside its texts.
const clientOverheadBytes = 80

func clientBytes(s resp.Sender) int64 {
	if s == "" {
		return 0
	}
	c := s.Client()
	return clientOverheadBytes + int64(len(c.Name)+len(c.Addr)+len(c.Node))
}

func writeClient(w *value.Writer, s resp.Sender) {
	c := s.Client()
	w.U64(c.ID)
	w.Text(c.Name)
	w.Text(c.Addr)
	w.Text(c.Node)
}

func readClient(r *value.Reader) resp.Sender {
	c := resp.Client{ID: r.U64(), Name: r.Text(), Addr: r.Text(), Node: r.Text()}
	return c.Sender()
}
