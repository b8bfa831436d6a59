package command

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// LOCKS shows operators the locks: holders, waiters, history.
var locksRows = []row{
	withHelp("1.0.0", row{Spec: resp.Spec{
		Name: "locks", Arity: -2,
		Group: "lockd", Since: "1.0.0", Summary: "A container for commands about the locks that there are and were",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "locks|list", Arity: -2, Flags: resp.ReadOnly,
			Group: "lockd", Since: "1.0.0", Summary: "List the locks that are held now, the longest first",
			Syntax: "[CURSOR cursor] [MATCH pattern] [COUNT count] [HELD milliseconds] [WAITED]",
		}, Parse: parseLocksList},
		{Spec: resp.Spec{
			Name: "locks|info", Arity: 3, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "lockd", Since: "1.0.0", Summary: "Tell who holds a lock, and who waits for it",
			Syntax: "key",
		}, Parse: ofSub(ofKey(locksInfo))},
		{Spec: resp.Spec{
			Name: "locks|history", Arity: -3, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "lockd", Since: "1.0.0", Summary: "Tell what has become of a lock, the newest last",
			Syntax: "key [CURSOR cursor] [FROM time] [TO time] [COUNT count]",
		}, Parse: parseLocksHistory},
		{Spec: resp.Spec{
			Name: "locks|why", Arity: 4, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "lockd", Since: "1.0.0", Summary: "Say in a sentence what has become of a token's lock",
			Syntax: "key token",
		}, Parse: parseLocksWhy},
		{Spec: resp.Spec{
			Name: "locks|force", Arity: -5, Flags: resp.Write | resp.Admin, Keys: resp.SubKey, Access: "RW delete",
			Group: "lockd", Since: "1.0.0",
			Summary: "End a lock for all who hold it, or for one, and write down why",
			Syntax:  "key [TOKEN token] [FENCE fence] REASON text",
		}, Parse: parseLocksForce},
		{Spec: resp.Spec{
			Name: "locks|graph", Arity: -2, Flags: resp.ReadOnly,
			Group: "lockd", Since: "1.0.0", Summary: "Tell who waits for whom, the longest wait first",
			Syntax: "[COUNT count]",
		}, Parse: parseLocksGraph},
		{Spec: resp.Spec{
			Name: "locks|doctor", Arity: -2, Flags: resp.ReadOnly | resp.TakesObservations,
			Group: "lockd", Since: "1.0.0",
			Summary: "Say what is wrong with the locks of programs, as far as it is certain",
		}, Parse: parseLocksDoctor},
		{Spec: resp.Spec{
			Name: "locks|advice", Arity: -2, Flags: resp.ReadOnly | resp.TakesObservations,
			Group: "lockd", Since: "1.0.0", Summary: "Tell how long locks are held and waited for, and what lease would do",
			Syntax: "[pattern]",
		}, Parse: parseLocksAdvice},
	}}),
}

// Limits of these commands.
const (
	locksCount    = 100                  // without COUNT
	locksCountMax = 1 << 20              // a larger COUNT means everything anyway
	holderWork    = 64 * value.VisitWork // telling of a holder, a waiter or an event
	grantWork     = 4 * value.FarWork    // finding the grant of a holder
)

// locksOptions has the options of LIST, HISTORY and GRAPH.
type locksOptions struct {
	paged        bool   // a list is answered in pieces, each with the cursor to go on with
	cursor       uint64 // 0: the first piece
	match        *arg.Glob
	count        int
	heldMs       int64
	waited       bool
	from, to     string // times as written; "": not given
	fromMs, toMs int64  // the same, once times has read them
}

// parseLocks reads the options, of which a command knows some.
func parseLocks(args resp.Args, known ...string) (o locksOptions, err error) {
	o = locksOptions{count: locksCount}
	for i := 0; i < len(args) && err == nil; i++ {
		option := slices.IndexFunc(known, func(name string) bool { return resp.Is(args[i], name) })
		if option < 0 {
			return o, resp.Error(resp.ErrSyntax)
		}
		if known[option] == "WAITED" {
			o.waited = true
			continue
		}
		if i++; i == len(args) {
			return o, resp.Error(resp.ErrSyntax)
		}
		switch known[option] {
		case "CURSOR":
			if o.cursor, o.paged = arg.ParseCursor(args[i]); !o.paged {
				err = resp.Error(resp.ErrCursor)
			}
		case "MATCH":
			o.match = arg.NewGlob(args[i])
		case "COUNT":
			var n int64
			n, err = arg.AtLeast(1, args[i], arg.ErrNotPositive)
			o.count = int(min(n, locksCountMax))
		case "HELD":
			o.heldMs, err = arg.Positive(args[i])
		case "FROM":
			o.from = args[i]
			_, err = arg.ParseTime(o.from, 0)
		case "TO":
			o.to = args[i]
			_, err = arg.ParseTime(o.to, 0)
		}
	}
	return o, err
}

// times reads the times, which may be counted from now.
func (o *locksOptions) times(nowMs int64) {
	o.fromMs, o.toMs = minInt, maxInt
	if o.from != "" {
		o.fromMs, _ = arg.ParseTime(o.from, nowMs)
	}
	if o.to != "" {
		o.toMs, _ = arg.ParseTime(o.to, nowMs)
	}
}

// cursorReply answers the cursor to go on with; 0: that was all.
func cursorReply(next uint64) resp.Reply { return resp.Bulk(strconv.FormatUint(next, 10)) }

// shownToken returns as much of a token as is shown.
func (c *Ctx) shownToken(token string) string {
	return history.ShownToken(token, c.s.Settings.ShowTokens)
}

// shownOwner returns an owner, or in its place the token as it is shown.
func (c *Ctx) shownOwner(owner, token string) string {
	if owner == "" {
		return c.shownToken(token)
	}
	return owner
}

// LOCKS LIST and LOCKS INFO show the present holders and waiters of locks.

// heldLock is a lock with the tick since which it is held.
type heldLock struct {
	e     *store.Entry
	since int64
}

// locksListCall is LOCKS LIST.
type locksListCall struct{ locksOptions }

func parseLocksList(args resp.Args) (call, error) {
	o, err := parseLocks(args[2:], "CURSOR", "MATCH", "COUNT", "HELD", "WAITED")
	if err != nil {
		return nil, err
	}
	return &locksListCall{o}, nil
}

func (r *locksListCall) Run(c *Ctx) resp.Reply {
	o := &r.locksOptions
	if o.paged {
		return scanLocks(c, o)
	}
	if err := c.s.Meter.Pay(meter.KeyWork * int64(c.s.Keys.DBs[c.db].Keys.Len())); err != nil {
		return resp.Fail(err)
	}
	var found []heldLock
	bytes := int64(0)
	c.s.Keys.DBs[c.db].Keys.Each(func(e *store.Entry) bool {
		if l, ok := wantsLock(c, o, e); ok {
			found = append(found, l)
			bytes += int64(len(e.Key()))
		}
		return !c.s.Meter.Exceeded() && !o.match.Exceeded()
	})
	if err := c.s.Meter.Pay(value.SortWork(len(found), bytes)); err != nil {
		return resp.Fail(err)
	}
	slices.SortFunc(found, func(a, b heldLock) int {
		return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.e.Key(), b.e.Key()))
	})
	return listLocks(c, o, found[:min(len(found), o.count)])
}

// scanLocks answers a piece of the list as SCAN does: COUNT keys are looked at, in the order of cursors. In
// that of the list each piece would have to look at all keys.
func scanLocks(c *Ctx, o *locksOptions) resp.Reply {
	keys := c.s.Keys.DBs[c.db].Keys.KeyView
	o.count = min(o.count, max(keys.Len(), 1))
	if err := c.s.Meter.Pay(meter.KeyWork*int64(o.count) + value.TreeWork(keys.Len())); err != nil {
		return resp.Fail(err)
	}
	var found []heldLock
	next := keys.Scan(o.cursor, o.count, func(e *store.Entry) {
		if l, ok := wantsLock(c, o, e); ok {
			found = append(found, l)
		}
	})
	list := listLocks(c, o, found)
	if list.IsErr() {
		return list
	}
	return resp.Array(cursorReply(next), list)
}

// wantsLock reports whether an entry is a lock that LOCKS LIST is asked for.
func wantsLock(c *Ctx, o *locksOptions, e *store.Entry) (l heldLock, ok bool) {
	if !e.IsLocked() || c.s.Expired(e) {
		return l, false
	}
	l = heldLock{e, maxInt}
	for _, h := range holdersOf(c, e) {
		if h.LeaseMs != 0 {
			l.since = min(l.since, h.SinceTick)
		}
	}
	ok = c.s.Meter.Matches(o.match, e.Key()) && (!o.waited || c.s.Waits.Line().LenOf(c.lockName(e.Key())) > 0)
	return l, ok && l.since != maxInt && c.now()-l.since >= o.heldMs
}

func listLocks(c *Ctx, o *locksOptions, locks []heldLock) resp.Reply {
	if o.match.Exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	grants := newGrants()
	for _, l := range locks {
		holders := holdersOf(c, l.e)
		if err := c.s.Meter.Pay(grantWork * int64(len(holders))); err != nil {
			return resp.Fail(err)
		}
		grants.want(l.e.Key(), holders)
	}
	if err := findGrants(c, grants); err != nil {
		return resp.Fail(err)
	}
	list, size := []resp.Reply{}, int64(0)
	for _, l := range locks {
		r, err := describeLock(c, l.e, grants)
		if err != nil {
			return resp.Fail(err)
		}
		waiters := c.s.Waits.Line().LenOf(c.lockName(l.e.Key()))
		r = append(history.Fields{}.Add("key", resp.Bulk(l.e.Key())), r...)
		list = append(list, r.Add("waiters", resp.Int(int64(waiters))).Reply())
		if size += list[len(list)-1].Size(); size > meter.ReplyBytesMax {
			return resp.Err(meter.ErrReplyTooLarge)
		}
	}
	return resp.Array(list...)
}

// locksInfo answers nil for a key that is no lock and has no line.
func locksInfo(c *Ctx, key string) resp.Reply {
	line, err := describeLine(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	e := c.Lookup(key)
	if (e == nil || !e.IsLocked()) && len(line) == 0 {
		return resp.Nil()
	}
	grants, f := newGrants(), history.Fields{}
	if e != nil {
		grants.want(key, holdersOf(c, e))
		if err := findGrants(c, grants); err != nil {
			return resp.Fail(err)
		}
		if f, err = describeLock(c, e, grants); err != nil {
			return resp.Fail(err)
		}
	}
	return f.Add("line", resp.Array(line...)).Time("known-since", c.s.Events.KnownSinceMs()).Reply()
}

// describeLine lists the waiters of a lock, in their order.
func describeLine(c *Ctx, key string) (line []resp.Reply, err error) {
	if err := c.s.Meter.Pay(holderWork * int64(c.s.Waits.Line().LenOf(c.lockName(key)))); err != nil {
		return nil, err
	}
	all := c.s.Waits.Line()
	for at := all.First(c.lockName(key)); at != nil; at = all.Next(at) {
		w := c.s.Waits.InLine(at)
		line = append(line, history.NewFields().Text("token", c.shownToken(at.Token)).
			Text("owner", c.shownOwner(at.Owner, at.Token)).Command("", w.Client).
			Add("mode", resp.Bulk(history.ModeOf(int64(at.Mode)))).
			Add("waited-ms", resp.Int(w.WaitedMs(c.now()))).Add("left-ms", resp.Int(w.LeftMs(c.now()))).
			Text("note", blockingOf(w).lock.note).Reply())
	}
	return line, nil
}

// describeLock returns the fields of LOCKS INFO and LIST.
func describeLock(c *Ctx, e *store.Entry, grants lockGrants) (f history.Fields, err error) {
	mode, permits := "exclusive", int64(1)
	if l := e.Lock(); l != nil {
		mode, permits = history.ModeOf(int64(l.Mode())), int64(max(l.Mode(), 0))
	} else if l := e.HashLock(); l != nil && l.Shared() {
		mode, permits = history.ModeOf(history.SharedPermits), 0
	}
	var holders []resp.Reply
	for _, h := range holdersOf(c, e) {
		if err := c.s.Meter.Pay(holderWork); err != nil {
			return nil, err
		}
		holders = append(holders, describeHolder(c, e, h, grants.found[grantOf(h)]))
	}
	return f.Add("mode", resp.Bulk(mode)).Add("permits", resp.Int(permits)).Add("holders", resp.Array(holders...)), nil
}

func describeHolder(c *Ctx, e *store.Entry, h *lock.Holder, grant *history.Event) resp.Reply {
	left := int64(ttlNever)
	if h.Tick != lock.NoLease {
		left = max(0, h.Tick-c.now())
	}
	f := history.NewFields().Text("token", c.shownToken(h.Token)).Text("owner", c.shownOwner(h.Owner, h.Token))
	if grant != nil {
		f = f.Command(grant.Command(), grant.Client)
	}
	f = f.Add("fence", resp.Int(int64(fenceOf(c, e, h)))).Add("lease-left-ms", resp.Int(left))
	if h.LeaseMs != 0 {
		f = f.Time("since", h.SinceMs).Add("held-ms", resp.Int(c.now()-h.SinceTick)).Add("lease-ms", resp.Int(h.LeaseMs)).
			Add("renewals", resp.Int(int64(h.Renewals))).Time("last-renewal", lifecycle.RenewedMs(h))
	}
	return f.Text("note", h.Note).Reply()
}

// holdersOf lists the holders of a lock, without those whose lease is over.
func holdersOf(c *Ctx, e *store.Entry) (holders []*lock.Holder) {
	if l := e.HashLock(); l != nil {
		c.s.Meter.Spend(value.FarWork * int64(len(l.Holders)))
		for i := range l.Holders {
			h := l.Holder(&l.Holders[i])
			holders = append(holders, &h)
		}
		return holders
	}
	if e.Mark() == store.IsLock {
		h := lifecycle.HeldBy(e)
		return []*lock.Holder{&h}
	}
	l := e.Lock()
	if l == nil {
		return nil
	}
	c.s.Meter.Spend(3 * value.LockWork(l))
	holders = make([]*lock.Holder, 0, l.Len())
	for h := range l.Each {
		if c.s.Tick <= h.Tick {
			holders = append(holders, h)
		}
	}
	return holders
}

// fenceOf returns the fence that commands show of a holder.
func fenceOf(c *Ctx, e *store.Entry, h *lock.Holder) uint64 {
	return max(h.Fence, e.Fence, c.s.Keys.DBs[c.db].Floor)
}

// lockGrants has the grants of holders of some keys.
type lockGrants struct {
	found map[history.Grant]*history.Event // nil: not found, or not yet
	keys  map[uint32]bool                  // the hashes of their names
}

func newGrants() lockGrants {
	return lockGrants{found: map[history.Grant]*history.Event{}, keys: map[uint32]bool{}}
}

func grantOf(h *lock.Holder) history.Grant { return history.Grant{Fence: h.Fence, Token: h.Token} }

func (g lockGrants) want(key string, holders []*lock.Holder) {
	g.keys[history.Hash(key)] = true
	for _, h := range holders {
		g.found[grantOf(h)] = nil
	}
}

// findGrants looks for the grants among the events of the keys.
func findGrants(c *Ctx, g lockGrants) error {
	if err := c.s.Meter.Pay(c.s.Events.Work(0)); err != nil {
		return err
	}
	c.s.Events.EachOf(func(hash uint32) bool { return g.keys[hash] }, func(e *history.Event) {
		c.s.Meter.Spend(2 * value.FarWork)
		if _, wanted := g.found[e.Grant()]; wanted && e.Kind == history.Granted {
			g.found[e.Grant()] = e.Copy()
		}
	})
	return nil
}

// locksGraphCall is LOCKS GRAPH. It answers the edges of the graph of waits: from each waiter in line for a lock to
// each holder. There is no edge to a waiter before it in line, which waits for the same holders.
type locksGraphCall struct{ locksOptions }

func parseLocksGraph(args resp.Args) (call, error) {
	o, err := parseLocks(args[2:], "COUNT")
	if err != nil {
		return nil, err
	}
	return &locksGraphCall{o}, nil
}

func (o *locksGraphCall) Run(c *Ctx) resp.Reply {
	waiting, err := allInLine(c)
	if err != nil {
		return resp.Fail(err)
	}
	edges, size, more := []resp.Reply{}, int64(0), 0
	held := map[string][]*lock.Holder{} // of the keys that were looked at
	for _, w := range waiting {
		key := w.Name().Key
		holders, looked := held[key]
		if !looked {
			holders = holdersBefore(c, key)
			held[key] = holders
		}
		n := min(len(holders), o.count-len(edges))
		more += len(holders) - n
		if err := c.s.Meter.Pay(holderWork*int64(n) + value.HashWork*int64(len(key))); err != nil {
			return resp.Fail(err)
		}
		for _, h := range holders[:n] {
			edges = append(edges, describeEdge(c, w, h))
			size += edges[len(edges)-1].Size()
		}
		if size > meter.ReplyBytesMax {
			return resp.Err(meter.ErrReplyTooLarge)
		}
	}
	return history.Fields{}.Add("edges", resp.Array(edges...)).Add("more", resp.Int(int64(more))).Reply()
}

// allInLine lists the waiters in line for the locks of the database, the longest wait first.
func allInLine(c *Ctx) (waiting []*wait.Waiter, err error) {
	all := &c.s.Waits
	if err := c.s.Meter.Pay(value.FarWork*int64(all.Len()) + value.SortWork(all.Len(), 0)); err != nil {
		return nil, err
	}
	for w := range all.Each {
		if w.Lock() != nil && w.DB == c.db {
			waiting = append(waiting, w)
		}
	}
	slices.SortFunc(waiting, func(a, b *wait.Waiter) int { return cmp.Compare(a.Seq, b.Seq) })
	return waiting, nil
}

// holdersBefore lists the holders of a lock that others wait for. The lock may be a string without facts: its holder is
// the token that it is, unless it is too long for one.
func holdersBefore(c *Ctx, key string) []*lock.Holder {
	e := c.Lookup(key)
	switch {
	case e == nil:
		return nil
	case e.Mark() == store.IsLock || e.Aggregate() != nil:
		return holdersOf(c, e)
	}
	h := &lock.Holder{}
	if len(e.Str()) <= lifecycle.TokenBytesMax {
		h.Token = e.Str()
	}
	if t := e.Tag(); t != nil {
		h.Owner = t.Owner
	}
	return []*lock.Holder{h}
}

func describeEdge(c *Ctx, w *wait.Waiter, h *lock.Holder) resp.Reply {
	waited, want := w.WaitedMs(c.now()), w.Lock()
	return history.NewFields().Text("waiter", c.shownOwner(want.Owner, want.Token)).
		Text("waiter-token", c.shownToken(want.Token)).Add("key", resp.Bulk(w.Name().Key)).
		Text("holder", c.shownOwner(h.Owner, h.Token)).Text("holder-token", c.shownToken(h.Token)).
		Time("since", c.WallMs()-waited).Add("waited-ms", resp.Int(waited)).Reply()
}
