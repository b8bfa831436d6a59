package wait

import (
	"slices"
	"strings"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Frozen returns the part of a table that an image holds, as it is now, in O(1).
func (t *Table) Frozen() Table {
	return Table{
		LastSeq:  t.LastSeq,
		Sessions: Sessions{Last: t.Sessions.Last, byID: t.Sessions.byID.Copy()},
		waiters:  t.waiters.Copy(),
		Gifts:    Gifts{all: t.Gifts.all.Copy()},
	}
}

// The parts of a session, a waiter and a gift in an image.
const (
	sessionSuspended = 1

	waiterClient = 1

	giftWaited   = 1  // the command had waited
	giftLock     = 2  // on condition of a version
	giftHolder   = 4  // which is that of one holder of many
	giftReturned = 8  // a lock that was taken back
	giftLeft     = 16 // a lock whose token has left
)

// Write writes the table into an image.
func (t *Table) Write(w *value.Writer) {
	w.U64(t.LastSeq)
	w.U64(t.Sessions.Last)
	w.U64(uint64(t.Sessions.byID.Len()))
	t.Sessions.byID.Scan(func(s *session) bool {
		s.write(w)
		return w.OK()
	})
	w.U64(uint64(t.waiters.Len()))
	t.waiters.Scan(func(v *Waiter) bool {
		v.write(w)
		return w.OK()
	})
	w.U64(uint64(t.Gifts.all.Len()))
	t.Gifts.all.Scan(func(g *Gift) bool {
		g.write(w)
		return w.OK()
	})
}

func (s *session) write(w *value.Writer) {
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
}

func (w *Waiter) write(dst *value.Writer) {
	parts := uint64(0)
	if w.Client != "" {
		parts = waiterClient
	}
	dst.Parts(parts)
	for _, n := range []uint64{w.ID.Session, w.ID.Number, w.Seq, uint64(w.DB), uint64(w.End)} {
		dst.U64(n)
	}
	writeArgs(dst, w.Args)
	if w.Client != "" {
		c := w.Client.Client()
		dst.U64(c.ID)
		dst.Text(c.Name)
		dst.Text(c.Addr)
		dst.Text(c.Node)
	}
}

func (g *Gift) write(w *value.Writer) {
	w.Parts(g.parts())
	for _, n := range []uint64{g.ID.Session, g.ID.Number, g.Entry, uint64(g.Tick), uint64(g.DB), g.Version} {
		w.U64(n)
	}
	w.U64(uint64(len(g.Cmds)))
	for _, cmd := range g.Cmds {
		writeArgs(w, cmd)
	}
	if g.Lock != nil {
		w.Text(g.Lock.Key)
		w.U64(g.Lock.Version)
	}
	w.Text(g.Key)
	w.U64(uint64(g.Until.Tick))
	w.U64(uint64(g.Until.WallMs))
}

func (g *Gift) parts() (parts uint64) {
	if g.Waited {
		parts |= giftWaited
	}
	if g.Lock != nil {
		parts |= giftLock
		if g.Lock.Holder {
			parts |= giftHolder
		}
		if g.Returned {
			parts |= giftReturned
		}
		if g.Left {
			parts |= giftLeft
		}
	}
	return parts
}

func writeArgs(w *value.Writer, args resp.Args) {
	w.U64(uint64(len(args)))
	for _, a := range args {
		w.Text(a)
	}
}

// Commands are the commands of the machine, as far as an image needs them.
type Commands interface {
	// Waiting parses a command that waits; nil: it cannot wait.
	Waiting(args resp.Args) Command
	// Reverses reports whether a command can be one of a Reversal.
	Reverses(args resp.Args) bool
}

// Read reads a table from an image.
func Read(r *value.Reader, commands Commands) Table {
	t := &reader{New(), r, commands}
	t.LastSeq, t.Sessions.Last = r.U64(), r.U64()
	last := uint64(0)
	for n := r.U64(); n > 0 && r.OK(); n-- {
		s := readSession(r)
		if s.ID <= last || s.ID > t.Sessions.Last {
			r.Fail("sessions are not in order")
		}
		t.Sessions.byID.Set(s)
		last = s.ID
	}
	t.readWaiters()
	t.readGifts()
	return t.Table
}

// reader reads a table.
type reader struct {
	Table
	*value.Reader
	commands Commands
}

func readSession(r *value.Reader) *session {
	parts := r.Parts("a session of blocking commands", sessionSuspended)
	s := &session{BlockSession: resp.BlockSession{ID: r.U64()}, until: r.I64()}
	s.Suspended = parts&sessionSuspended != 0
	s.Node, s.Process, s.Suspensions = strings.Clone(r.Text()), r.U64(), r.U64()
	for n := r.U64(); n > 0 && r.OK(); n-- {
		u := span{r.U64(), r.U64()}
		if u.from == 0 || u.from > u.to || u.to > numberMax || len(s.used) >= spansMax ||
			len(s.used) > 0 && u.from <= s.used[len(s.used)-1].to+1 {
			r.Fail("numbers of a session are not in order")
		}
		s.used = append(s.used, u)
	}
	return s
}

func (r *reader) readWaiters() {
	seen := map[uint64]bool{}
	var before *Waiter
	for n := r.U64(); n > 0 && r.OK(); n-- {
		w := r.readWaiter()
		if r.OK() && (before != nil && !byID(before.ID, w.ID) || seen[w.Seq] || r.State(w.ID) != resp.BlockOver) {
			r.Fail("waiters are not in order")
		}
		if r.OK() && w.Lock() != nil && r.line.Waiter(w.Name(), w.Lock().Token) != nil {
			r.Fail("a token is twice in the line for a lock")
		}
		if r.OK() {
			r.Enter(w)
		}
		seen[w.Seq], before = true, w
	}
}

func (r *reader) readWaiter() *Waiter {
	parts := r.Parts("a command that waits", waiterClient)
	w := &Waiter{ID: resp.BlockID{Session: r.U64(), Number: r.U64()}, Seq: r.U64()}
	db := r.U64()
	w.End = r.I64()
	w.Args = readArgs(r.Reader)
	if parts&waiterClient != 0 {
		c := resp.Client{ID: r.U64(), Name: r.Text(), Addr: r.Text(), Node: r.Text()}
		w.Client = c.Sender()
	}
	w.Command = r.commands.Waiting(w.Args)
	if w.Command == nil || db >= store.Databases || w.Seq > r.LastSeq || !r.Sessions.Has(w.ID.Session) {
		r.Fail("a command that can not wait")
		return w
	}
	w.DB = int(db)
	return w
}

func (r *reader) readGifts() {
	var before *Gift
	for n := r.U64(); n > 0 && r.OK(); n-- {
		g := readGift(r.Reader)
		unknown := func(cmd resp.Args) bool { return !r.commands.Reverses(cmd) }
		if r.OK() && (before != nil && !giftsByID(before, g) || g.DB < 0 || g.DB >= store.Databases || len(g.Cmds) == 0 ||
			slices.ContainsFunc(g.Cmds, unknown) || g.Lock != nil && len(g.Cmds[0]) != 3 || g.ID.Session > r.Sessions.Last) {
			r.Fail("something given that can not be")
		}
		if r.OK() {
			r.Gifts.add(g)
		}
		before = g
	}
}

func readGift(r *value.Reader) *Gift {
	parts := r.Parts("what a client was given", giftWaited|giftLock|giftHolder|giftReturned|giftLeft)
	g := &Gift{
		ID: resp.BlockID{Session: r.U64(), Number: r.U64()}, Entry: r.U64(), Tick: r.I64(), DB: int(r.U64()),
		Version: r.U64(), Waited: parts&giftWaited != 0,
	}
	for cmds := r.U64(); cmds > 0 && r.OK(); cmds-- {
		g.Cmds = append(g.Cmds, readArgs(r))
	}
	if parts&giftLock != 0 {
		g.Lock = &resp.Watch{DB: g.DB, Key: strings.Clone(r.Text()), Version: r.U64(), Holder: parts&giftHolder != 0}
		g.Returned, g.Left = parts&giftReturned != 0, parts&giftLeft != 0
	}
	g.Key = strings.Clone(r.Text())
	g.Until = store.Deadline{Tick: r.I64(), WallMs: r.I64()}
	return g
}

func readArgs(r *value.Reader) resp.Args {
	var args resp.Args
	for n := r.U64(); n > 0 && r.OK(); n-- {
		args = append(args, r.Text())
	}
	return value.CloneTexts(args)
}
