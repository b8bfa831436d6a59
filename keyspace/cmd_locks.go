package keyspace

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What people ask about locks: who holds them, and what has become of them.
var locksRows = []resp.Row[command]{
	resp.WithHelp("1.0.0", always, resp.Row[command]{Spec: resp.Spec{
		Name: "locks", Arity: -2,
		Group: "lockd", Since: "1.0.0", Summary: "A container for commands about the locks that there are and were",
	}, Subs: []resp.Row[command]{
		{Spec: resp.Spec{
			Name: "locks|list", Arity: -2, Flags: resp.ReadOnly,
			Group: "lockd", Since: "1.0.0", Summary: "List the locks that are held now, the longest first",
			Syntax: "[MATCH pattern] [COUNT count] [HELD milliseconds] [WAITED]",
		}, Run: cmdLocksList},
		{Spec: resp.Spec{
			Name: "locks|info", Arity: 3, Flags: resp.ReadOnly, Keys: secondKey,
			Group: "lockd", Since: "1.0.0", Summary: "Tell who holds a lock, and who waits for it",
			Syntax: "key",
		}, Run: cmdLocksInfo},
		{Spec: resp.Spec{
			Name: "locks|history", Arity: -3, Flags: resp.ReadOnly, Keys: secondKey,
			Group: "lockd", Since: "1.0.0", Summary: "Tell what has become of a lock, the newest last",
			Syntax: "key [FROM time] [TO time] [COUNT count]",
		}, Run: cmdLocksHistory},
		{Spec: resp.Spec{
			Name: "locks|why", Arity: 4, Flags: resp.ReadOnly, Keys: secondKey,
			Group: "lockd", Since: "1.0.0", Summary: "Say in a sentence what has become of a token's lock",
			Syntax: "key token",
		}, Run: cmdLocksWhy},
		{Spec: resp.Spec{
			Name: "locks|force", Arity: -5, Flags: resp.Write | resp.Admin, Keys: secondKey, Access: "RW delete",
			Group: "lockd", Since: "1.0.0",
			Summary: "End a lock for all who hold it, or for one, and write down why",
			Syntax:  "key [TOKEN token] [FENCE fence] REASON text",
		}, Run: cmdLocksForce},
		{Spec: resp.Spec{
			Name: "locks|graph", Arity: -2, Flags: resp.ReadOnly,
			Group: "lockd", Since: "1.0.0", Summary: "Tell who waits for whom, the longest wait first",
			Syntax: "[COUNT count]",
		}, Run: cmdLocksGraph},
		{Spec: resp.Spec{
			Name: "locks|doctor", Arity: -2, Flags: resp.ReadOnly | resp.TakesSightings,
			Group: "lockd", Since: "1.0.0",
			Summary: "Say what is wrong with the locks of programs, as far as it is certain",
		}, Run: cmdLocksDoctor},
		{Spec: resp.Spec{
			Name: "locks|advice", Arity: -2, Flags: resp.ReadOnly | resp.TakesSightings,
			Group: "lockd", Since: "1.0.0", Summary: "Tell how long locks are held and waited for, and what lease would do",
			Syntax: "[pattern]",
		}, Run: cmdLocksAdvice},
	}}),
}

var secondKey = resp.Keys{First: 2, Last: 2, Step: 1}

// Limits of these commands.
const (
	locksCount    = 100                  // without COUNT
	locksCountMax = 1 << 20              // a larger COUNT means everything anyway
	tokenShown    = 8                    // the bytes that are shown of a token
	holderWork    = 64 * value.VisitWork // telling of a holder, a waiter or an event
	grantWork     = 4 * value.FarWork    // finding the grant of a holder
)

// locksOptions are those of LIST, HISTORY and GRAPH.
type locksOptions struct {
	match        *arg.Glob // or nil
	count        int
	heldMs       int64
	waited       bool
	fromMs, toMs int64
}

// parse reads the options, of which a command knows some.
func (c *ctx) parseLocks(args resp.Args, known ...string) (o locksOptions, err error) {
	o = locksOptions{count: locksCount, fromMs: minInt, toMs: maxInt}
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
		case "MATCH":
			o.match = arg.NewGlob(args[i])
		case "COUNT":
			var n int64
			n, err = arg.AtLeast(1, args[i], arg.ErrNotPositive)
			o.count = int(min(n, locksCountMax))
		case "HELD":
			o.heldMs, err = arg.Positive(args[i])
		case "FROM":
			o.fromMs, err = arg.ParseTime(args[i], c.wallMs())
		case "TO":
			o.toMs, err = arg.ParseTime(args[i], c.wallMs())
		}
	}
	return o, err
}

// heldLock is a lock that is held, and since when by the log clock.
type heldLock struct {
	e     *entry
	since int64
}

func cmdLocksList(c *ctx, args resp.Args) resp.Reply {
	o, err := c.parseLocks(args[2:], "MATCH", "COUNT", "HELD", "WAITED")
	if err != nil {
		return resp.Fail(err)
	}
	if err := c.m.pay(keyWork * int64(c.m.dbs[c.db].keys.len())); err != nil {
		return resp.Fail(err)
	}
	var found []heldLock
	bytes := int64(0)
	c.m.dbs[c.db].keys.each(func(e *entry) bool {
		if l, ok := c.wantsLock(&o, e); ok {
			found = append(found, l)
			bytes += int64(len(e.key()))
		}
		return !c.m.tired() && (o.match == nil || !o.match.Exceeded())
	})
	if o.match != nil && o.match.Exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	if err := c.m.pay(value.SortWork(len(found), bytes)); err != nil {
		return resp.Fail(err)
	}
	slices.SortFunc(found, func(a, b heldLock) int {
		return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.e.key(), b.e.key()))
	})
	return c.listLocks(found[:min(len(found), o.count)])
}

// wantsLock reports whether an entry is a lock that LOCKS LIST is asked for.
func (c *ctx) wantsLock(o *locksOptions, e *entry) (l heldLock, ok bool) {
	if !e.isLocked() || c.m.expired(e) {
		return l, false
	}
	l = heldLock{e, maxInt}
	for _, h := range c.holdersOf(e) {
		if h.LeaseMs != 0 {
			l.since = min(l.since, h.SinceTick)
		}
	}
	if o.match != nil {
		before := o.match.Work()
		ok = o.match.Matches(e.key())
		c.m.spend(o.match.Work() - before)
	}
	ok = o.match == nil || ok
	ok = ok && (!o.waited || c.m.blocked.lines[lineKey{c.db, e.key()}] > 0)
	return l, ok && l.since != maxInt && c.now()-l.since >= o.heldMs
}

func (c *ctx) listLocks(locks []heldLock) resp.Reply {
	grants := lockGrants{}
	for _, l := range locks {
		holders := c.holdersOf(l.e)
		if err := c.m.pay(grantWork * int64(len(holders))); err != nil {
			return resp.Fail(err)
		}
		grants.want(holders)
	}
	if err := c.findGrants(grants, 0); err != nil {
		return resp.Fail(err)
	}
	list, size := []resp.Reply{}, int64(0)
	for _, l := range locks {
		r, err := c.describeLock(l.e, grants)
		if err != nil {
			return resp.Fail(err)
		}
		waiters := c.m.blocked.lines[lineKey{c.db, l.e.key()}]
		r = append(replyFields{}.add("key", resp.Bulk(l.e.key())), r...)
		list = append(list, r.add("waiters", resp.Int(int64(waiters))).reply())
		if size += list[len(list)-1].Size(); size > replyBytesMax {
			return resp.Err(errReplyTooLarge)
		}
	}
	return resp.Array(list...)
}

// replyFields are the fields of a map: names and replies.
type replyFields []resp.Reply

func (f replyFields) add(name string, r resp.Reply) replyFields { return append(f, resp.Bulk(name), r) }

// text adds a text, or a nil where there is none.
func (f replyFields) text(name, s string) replyFields { return f.add(name, bulkUnless(s == "", s)) }

// time adds a wall time in milliseconds, or a nil for 0.
func (f replyFields) time(name string, ms int64) replyFields {
	return f.add(name, bulkUnless(ms == 0, arg.FormatTime(ms)))
}

func bulkUnless(missing bool, s string) resp.Reply {
	if missing {
		return resp.Nil()
	}
	return resp.Bulk(s)
}

// command adds a command and who sent it, as far as there is one and that is known.
func (f replyFields) command(by string, s resp.Sender) replyFields {
	if by != "" {
		f = f.text("by", by)
	}
	if s == "" {
		return f
	}
	c := s.Client()
	return f.add("client-id", resp.Int(int64(c.ID))).text("client-name", c.Name).
		text("client-addr", c.Addr).text("node", c.Node)
}

func (f replyFields) reply() resp.Reply { return resp.Map(f...) }

// newFields has room for what is told of a holder or an event.
func newFields() replyFields { return make(replyFields, 0, 2*18) }

// shownToken is what is shown of a token.
func (m *Machine) shownToken(token string) string { return shownToken(token, m.settings.showTokens) }

func shownToken(token string, whole bool) string {
	if whole || len(token) <= tokenShown {
		return token
	}
	return token[:tokenShown] + "..."
}

// holdersOf lists who holds a lock; whose lease is over does not.
func (c *ctx) holdersOf(e *entry) (holders []*value.Holder) {
	if l := e.hashLock(); l != nil {
		c.m.spend(value.FarWork * int64(len(l.holders)))
		for i := range l.holders {
			h := l.holder(&l.holders[i])
			holders = append(holders, &h)
		}
		return holders
	}
	if e.mark() == isLock {
		h := heldBy(e)
		return []*value.Holder{&h}
	}
	l := e.lock()
	if l == nil {
		return nil
	}
	c.m.spend(3 * l.SeekWork())
	holders = make([]*value.Holder, 0, l.Len())
	l.Each(func(h *value.Holder) bool {
		if c.m.tick <= h.Tick {
			holders = append(holders, h)
		}
		return true
	})
	return holders
}

// lockGrants are the grants of holders; nil: not found, or not yet. Those of a hash have one fence.
type (
	lockGrants map[lockGrant]*lockEvent
	lockGrant  struct {
		fence uint64
		token string
	}
)

func grantOf(h *value.Holder) lockGrant { return lockGrant{h.Fence, h.Token} }
func (e *lockEvent) grant() lockGrant   { return lockGrant{e.fence, e.token} }

func (g lockGrants) want(holders []*value.Holder) {
	for _, h := range holders {
		g[grantOf(h)] = nil
	}
}

// findGrants looks for the grants among the events of a hash.
func (c *ctx) findGrants(g lockGrants, hash uint32) error {
	return c.eachEvent(hash, func(e *lockEvent) {
		if e.kind != eventGranted {
			return
		}
		if _, wanted := g[e.grant()]; wanted {
			g[e.grant()] = e.copy()
		}
	})
}

// eachEvent is eventLog.each, with its work.
func (c *ctx) eachEvent(hash uint32, visit func(e *lockEvent)) error {
	if err := c.m.pay(c.m.events.work(hash)); err != nil {
		return err
	}
	c.m.events.each(hash, func(e *lockEvent) {
		c.m.spend(2 * value.FarWork)
		visit(e)
	})
	return nil
}

// describeLock are the fields of LOCKS INFO and LIST.
func (c *ctx) describeLock(e *entry, grants lockGrants) (f replyFields, err error) {
	mode, permits := "exclusive", int64(1)
	if l := e.lock(); l != nil {
		mode, permits = l.Kind().Encodings[l.Form()], int64(l.Permits())
	} else if l := e.hashLock(); l != nil && l.shared() {
		mode, permits = modeOf(sharedPermits), 0
	}
	var holders []resp.Reply
	for _, h := range c.holdersOf(e) {
		if err := c.m.pay(holderWork); err != nil {
			return nil, err
		}
		holders = append(holders, c.describeHolder(e, h, grants[grantOf(h)]))
	}
	return f.add("mode", resp.Bulk(mode)).add("permits", resp.Int(permits)).add("holders", resp.Array(holders...)), nil
}

func (c *ctx) describeHolder(e *entry, h *value.Holder, grant *lockEvent) resp.Reply {
	left := int64(ttlNever)
	if h.Tick != value.NoLeaseTick {
		left = max(0, h.Tick-c.now())
	}
	f := newFields().text("token", c.m.shownToken(h.Token)).text("owner", c.m.shownOwner(h.Owner, h.Token))
	if grant != nil {
		f = f.command(grant.command(), grant.client)
	}
	f = f.add("fence", resp.Int(int64(c.fenceOf(e, h)))).add("lease-left-ms", resp.Int(left))
	if h.LeaseMs != 0 {
		f = f.time("since", h.SinceMs).add("held-ms", resp.Int(c.now()-h.SinceTick)).add("lease-ms", resp.Int(h.LeaseMs)).
			add("renewals", resp.Int(int64(h.Renewals))).time("last-renewal", renewedMs(h))
	}
	return f.text("note", h.Note).reply()
}

// shownOwner is an owner, or in its place the token.
func (m *Machine) shownOwner(owner, token string) string {
	if owner == "" {
		return m.shownToken(token)
	}
	return owner
}

// command is who did it, in the words of people.
func (e *lockEvent) command() string {
	name := strings.ToUpper(strings.ReplaceAll(e.by, "|", " "))
	if e.script {
		name += " in a script"
	}
	return name
}

// cmdLocksInfo answers nil for what is no lock and has no line.
func cmdLocksInfo(c *ctx, args resp.Args) resp.Reply {
	key := args[2]
	line, err := c.describeLine(key)
	if err != nil {
		return resp.Fail(err)
	}
	e := c.lookup(key)
	if (e == nil || !e.isLocked()) && len(line) == 0 {
		return resp.Nil()
	}
	grants, f := lockGrants{}, replyFields{}
	if e != nil {
		grants.want(c.holdersOf(e))
		if err := c.findGrants(grants, eventHash(key)); err != nil {
			return resp.Fail(err)
		}
		if f, err = c.describeLock(e, grants); err != nil {
			return resp.Fail(err)
		}
	}
	return f.add("line", resp.Array(line...)).time("known-since", c.m.events.knownSinceMs()).reply()
}

// describeLine lists who waits for a lock, in their order.
func (c *ctx) describeLine(key string) (line []resp.Reply, err error) {
	if err := c.m.pay(holderWork * int64(c.m.blocked.lines[lineKey{c.db, key}])); err != nil {
		return nil, err
	}
	k := lineKey{c.db, key}.ready()
	for w := c.m.blocked.next(k, 0); w != nil; w = c.m.blocked.next(k, w.seq) {
		line = append(line, newFields().text("token", c.m.shownToken(w.lock.token)).
			text("owner", c.m.shownOwner(w.lock.owner, w.lock.token)).command("", w.client).
			add("mode", resp.Bulk(modeOf(w.lock.eventPermits()))).
			add("waited-ms", resp.Int(w.waitedMs(c.now()))).add("left-ms", resp.Int(w.left(c.now()))).
			text("note", w.lock.note).reply())
	}
	return line, nil
}

// modeOf names how a lock is held.
func modeOf(permits int64) string {
	switch {
	case permits == sharedPermits:
		return "shared"
	case permits > 0:
		return "limit"
	}
	return "exclusive"
}

func cmdLocksHistory(c *ctx, args resp.Args) resp.Reply {
	key := args[2]
	o, err := c.parseLocks(args[3:], "FROM", "TO", "COUNT")
	if err != nil {
		return resp.Fail(err)
	}
	var events []lockEvent
	err = c.historyOf(key, func(e *lockEvent) {
		if e.wallMs >= o.fromMs && e.wallMs <= o.toMs {
			events = append(events, *e)
		}
		if len(events) > 2*o.count {
			events = slices.Delete(events, 0, len(events)-o.count)
		}
	})
	if err != nil {
		return resp.Fail(err)
	}
	events = events[max(0, len(events)-o.count):]
	list, size := make([]resp.Reply, len(events)), int64(0)
	for i := range events {
		if err := c.m.pay(holderWork); err != nil {
			return resp.Fail(err)
		}
		list[i] = describeEvent(&events[i], c.m.settings.showTokens).reply()
		if size += list[i].Size(); size > replyBytesMax {
			return resp.Err(errReplyTooLarge)
		}
	}
	return replyFields{}.time("known-since", c.m.events.knownSinceMs()).add("events", resp.Array(list...)).reply()
}

// historyOf visits the events of a key in their order, of those about whole databases the ones that ended
// a lock of its. What somebody deletes whose client has the lock is released.
func (c *ctx) historyOf(key string, visit func(e *lockEvent)) error {
	held := map[lockGrant]resp.Sender{}
	c.m.spend(value.HashWork * int64(len(key)))
	return c.eachEvent(eventHash(key), func(e *lockEvent) {
		switch {
		case e.db != c.db || e.key != key && e.key != "":
			return
		case e.kind == eventGranted:
			held[e.grant()] = e.client
		case e.kind == eventFlushed || e.kind == eventSwapped:
			if len(held) == 0 {
				return
			}
			clear(held)
		case e.kind.ends():
			if e.kind == eventDeleted && held[e.grant()].Same(e.client) {
				e.kind = eventReleased
			}
			delete(held, e.grant())
		}
		visit(e)
	})
}

// describeEvent are the fields of an event; its token is shown whole or not.
func describeEvent(e *lockEvent, whole bool) replyFields {
	f := newFields().time("time", e.wallMs).add("tick", resp.Int(e.tick)).add("event", resp.Bulk(eventNames[e.kind]))
	if e.key == "" {
		f = f.command(e.command(), e.client)
		if e.kind == eventSwapped {
			f = f.add("db", resp.Int(int64(e.otherDB)))
		}
		return f
	}
	f = f.text("token", shownToken(e.token, whole)).text("owner", e.owner).add("mode", resp.Bulk(modeOf(e.permits)))
	if e.fence != 0 {
		f = f.add("fence", resp.Int(int64(e.fence)))
	}
	f = f.command(e.command(), e.client)
	switch {
	case e.kind == eventGranted:
		f = f.add("waited-ms", resp.Int(e.waitedMs)).add("lease-ms", resp.Int(e.leaseMs)).text("note", e.note)
	case e.kind.ends():
		f = f.add("held-ms", resp.Int(e.heldMs)).add("lease-ms", resp.Int(e.leaseMs)).
			add("renewals", resp.Int(int64(e.renewals))).time("last-renewal", e.renewedMs)
	default:
		f = f.add("waited-ms", resp.Int(e.waitedMs))
	}
	if e.reason != "" {
		f = f.text("reason", e.reason)
	}
	return f
}

// The error texts of LOCKS FORCE.
const (
	errReasonEmpty   = "ERR the reason may not be empty"
	errTokensBeginSo = "ERR the tokens of several holders begin so: name one in full"
)

// forceOptions say for whom of its holders a lock is ended, and why. The fence is that of the lock as somebody
// has seen it: who has it by now keeps it.
type forceOptions struct {
	token  string // in full, or as much as is shown of it; "": anyone
	fence  uint64 // 0: any
	reason string
}

// parseForce reads TOKEN, FENCE and REASON, in any order.
func parseForce(args resp.Args) (o forceOptions, err error) {
	for i := 0; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return o, resp.Error(resp.ErrSyntax)
		case resp.Is(args[i], "TOKEN") && o.token == "":
			o.token = args[i+1]
			err = checkToken(o.token)
		case resp.Is(args[i], "FENCE") && o.fence == 0:
			o.fence, err = parseFence(args[i+1])
		case resp.Is(args[i], "REASON") && o.reason == "":
			if o.reason = args[i+1]; o.reason == "" {
				err = resp.Error(errReasonEmpty)
			} else {
				err = checkLength("reason", o.reason, lockReasonBytesMax)
			}
		default:
			err = resp.Error(resp.ErrSyntax)
		}
		if err != nil {
			return o, err
		}
	}
	if o.reason == "" {
		return o, resp.Error(resp.ErrSyntax)
	}
	return o, nil
}

func parseFence(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 {
		return 0, resp.Error(resp.ErrNotInteger)
	}
	return n, nil
}

// cmdLocksForce answers how many have lost the lock by it.
func cmdLocksForce(c *ctx, args resp.Args) resp.Reply {
	key := args[2]
	o, err := parseForce(args[3:])
	if err != nil {
		return resp.Fail(err)
	}
	e := c.lookup(key)
	switch {
	case e == nil || e.agg() == nil && e.mark() != isLock:
		return resp.Int(0)
	case e.agg() != nil && e.lock() == nil && e.hashLock() == nil:
		return resp.Err(resp.ErrWrongType)
	}
	c.m.cause.how, c.m.cause.reason = eventForced, o.reason
	all := c.holdersOf(e)
	holders := all
	if o.fence != 0 {
		holders = slices.DeleteFunc(slices.Clone(all), func(h *value.Holder) bool { return c.fenceOf(e, h) != o.fence })
	}
	if o.token != "" {
		h, err := holderFor(holders, o.token)
		if h == nil {
			return orZero(err)
		}
		holders = []*value.Holder{h}
	}
	switch {
	case len(holders) == 0:
		return resp.Int(0)
	case len(holders) < len(all): // one of several: each has a fence of its own, or all have the same
		c.dropOne(key, e, holders[0].Token)
		return resp.Int(1)
	}
	c.deleteNotify(key)
	return resp.Int(int64(len(holders)))
}

// fenceOf is the fence that is told of a holder.
func (c *ctx) fenceOf(e *entry, h *value.Holder) uint64 {
	return max(h.Fence, e.fence, c.m.dbs[c.db].floor)
}

// dropOne ends a lock for one of several.
func (c *ctx) dropOne(key string, e *entry, token string) {
	if e.lock() != nil {
		c.dropHolder(key, e, token)
		return
	}
	c.editHash(key, func(h *value.Hash) {
		c.m.spend(h.FindWork(token))
		h.Delete(token)
	})
	c.notify(notifyHash, "hdel", key)
}

// holderFor is the holder whom a token names, in full or by as much as is shown of it; nil: nobody.
func holderFor(holders []*value.Holder, token string) (found *value.Holder, err error) {
	for _, h := range holders {
		switch {
		case h.Token == token:
			return h, nil
		case !fitsToken(h.Token, token):
		case found != nil:
			err = resp.Error(errTokensBeginSo)
		default:
			found = h
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// story is what has become of a token's lock: its last grant, its last wait or loss, and who came next.
type story struct {
	grant, end, next *lockEvent
}

func cmdLocksWhy(c *ctx, args resp.Args) resp.Reply {
	key, token := args[2], args[3]
	if err := checkToken(token); err != nil {
		return resp.Fail(err)
	}
	if said, err := c.sayNow(key, token); said != "" || err != nil {
		return bulkOrFail(said, err)
	}
	var s story
	err := c.historyOf(key, func(e *lockEvent) { s.follow(e, token) })
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(c.sayPast(key, token, &s))
}

func bulkOrFail(s string, err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(s)
}

// fitsToken reports whether a token is the one that was asked for: also by as much as is shown of one.
func fitsToken(token, asked string) bool {
	return token == asked || len(asked) >= tokenShown && strings.HasPrefix(token, strings.TrimSuffix(asked, "..."))
}

func (s *story) follow(e *lockEvent, token string) {
	switch fits := fitsToken(e.token, token); {
	case e.key == "":
		if s.grant != nil && s.end == nil {
			s.end = e.copy()
		}
	case fits && e.kind == eventGranted:
		*s = story{grant: e.copy()}
	case fits && e.kind.ends():
		s.end, s.next = e.copy(), nil
	case fits:
		*s = story{end: e.copy()}
	case e.kind == eventGranted && s.end != nil && s.next == nil:
		s.next = e.copy()
	}
}

// sayNow says whether a token holds a lock, or stands in its line; "" if neither.
func (c *ctx) sayNow(key, token string) (string, error) {
	if e := c.lookup(key); e != nil {
		for _, h := range c.holdersOf(e) {
			if fitsToken(h.Token, token) && h.LeaseMs != 0 {
				return c.sayHeld(key, h), nil
			}
		}
	}
	k := lineKey{c.db, key}
	if err := c.m.pay(holderWork * int64(c.m.blocked.lines[k])); err != nil {
		return "", err
	}
	before := int64(0)
	for w := c.m.blocked.next(k.ready(), 0); w != nil; w = c.m.blocked.next(k.ready(), w.seq) {
		if fitsToken(w.lock.token, token) {
			return c.m.shownToken(w.lock.token) + " has waited for " + key + " for " + itoa(w.waitedMs(c.now())) +
				" ms, behind " + itoa(before) + " others in line, and waits " + itoa(w.left(c.now())) + " ms more.", nil
		}
		before++
	}
	return "", nil
}

func (c *ctx) sayHeld(key string, h *value.Holder) string {
	said := c.m.shownToken(h.Token) + " holds " + key + " since " + arg.FormatTime(h.SinceMs) + " (fence " +
		itoa(int64(h.Fence)) + "), " + sayRenewals(h.Renewals, renewedMs(h))
	if h.Tick == value.NoLeaseTick {
		return said + "; it has no lease now."
	}
	return said + "; its lease of " + itoa(h.LeaseMs) + " ms has " + itoa(max(0, h.Tick-c.now())) + " ms left."
}

func sayRenewals(renewals uint64, lastMs int64) string {
	switch {
	case renewals == 0:
		return "never renewed"
	case renewals == 1 && lastMs != 0:
		return "renewed once, at " + arg.FormatTime(lastMs)
	case lastMs == 0:
		return "renewed " + itoa(int64(renewals)) + " times"
	}
	return "renewed " + itoa(int64(renewals)) + " times, last at " + arg.FormatTime(lastMs)
}

// sayPast says what has become of a token's lock, or of its wait.
func (c *ctx) sayPast(key, token string, s *story) string {
	if s.end == nil && s.grant == nil {
		return "Nothing is known of " + c.m.shownToken(token) + " and " + key + ": what is known begins at " +
			arg.FormatTime(c.m.events.knownSinceMs()) + "."
	}
	var said strings.Builder
	if g := s.grant; g != nil {
		said.WriteString(c.m.shownToken(g.token) + " got " + key + " at " + arg.FormatTime(g.wallMs) +
			" (fence " + itoa(int64(g.fence)) + ")")
		if g.waitedMs > 0 {
			said.WriteString(" after waiting " + itoa(g.waitedMs) + " ms")
		}
	} else if s.end.kind.ends() {
		said.WriteString(c.m.shownToken(s.end.token) + " had " + key + " (fence " + itoa(int64(s.end.fence)) + ")")
	} else {
		said.WriteString(c.m.shownToken(s.end.token) + " waited " + itoa(s.end.waitedMs) + " ms for " + key)
	}
	if s.end != nil {
		said.WriteString(sayEnd(s.end))
		if s.next != nil {
			said.WriteString(" Next was " + c.m.shownToken(s.next.token) + " at " + arg.FormatTime(s.next.wallMs) +
				" (fence " + itoa(int64(s.next.fence)) + ").")
		} else if s.end.kind.ends() {
			said.WriteString(" Nobody has got it since.")
		}
		return said.String()
	}
	return said.String() + "."
}

// sayEnd says how a lock, or a wait, has ended.
func sayEnd(e *lockEvent) string {
	at := " at " + arg.FormatTime(e.wallMs)
	who := e.command() + sayClient(e.client)
	held := ", after " + itoa(e.heldMs) + " ms, " + sayRenewals(e.renewals, e.renewedMs) + "."
	switch e.kind {
	case eventReleased:
		return " and released it" + at + " by " + who + held
	case eventExpired:
		return " and lost it" + at + ": its lease of " + itoa(e.leaseMs) + " ms was over" + held
	case eventDeleted:
		return " and lost it" + at + ": deleted by " + who + held
	case eventOverwritten:
		return " and lost it" + at + ": overwritten by " + who + held
	case eventForced:
		return " and lost it" + at + ": ended by " + who + ", because: " + e.reason + held
	case eventMoved:
		return " and lost it" + at + ": the key was given another name by " + who + held
	case eventFlushed:
		return " and lost it" + at + ": all keys were deleted by " + who + "."
	case eventSwapped:
		return " and lost it" + at + ": its database was exchanged with " + itoa(int64(e.otherDB)) + " by " + who + "."
	case eventGaveUp:
		return " in vain: its time was over" + at + "."
	case eventLeft:
		return " in vain: UNLOCK ended the wait" + at + "."
	case eventReplaced:
		return " on one connection; another one took its place" + at + "."
	case eventRefused:
		return " in vain: the answer" + at + " was " + e.reason + "."
	}
	return " in vain: its client, or its node, was gone" + at + "."
}

// sayClient says who sent a command, where that is known.
func sayClient(s resp.Sender) string {
	if s == "" {
		return ""
	}
	c := s.Client()
	said := " of client " + itoa(int64(c.ID))
	if c.Name != "" {
		said += " (" + c.Name + ")"
	}
	return said + " from " + c.Addr + " at node " + c.Node
}
