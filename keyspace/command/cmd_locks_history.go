package command

import (
	"slices"

	"lockd/keyspace/arg"
	"lockd/keyspace/doctor"
	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/lockuse"
)

// What has become of a lock: LOCKS HISTORY.

// locksHistoryCall is LOCKS HISTORY.
type locksHistoryCall struct {
	key string
	locksOptions
}

func parseLocksHistory(args resp.Args) (call, error) {
	o, err := parseLocks(args[3:], "CURSOR", "FROM", "TO", "COUNT")
	if err != nil {
		return nil, err
	}
	return &locksHistoryCall{args[2], o}, nil
}

func (o *locksHistoryCall) Run(c *Ctx) resp.Reply {
	o.times(c.WallMs())
	found := foundEvents{o: &o.locksOptions}
	if err := historyOf(c, o.key, found.add); err != nil {
		return resp.Fail(err)
	}
	if found.tooMany() {
		return resp.Err(meter.ErrReplyTooLarge)
	}
	numbers := found.numbers[max(0, len(found.numbers)-o.count):]
	list, size := make([]resp.Reply, len(numbers)), int64(0)
	for i, number := range numbers {
		if err := c.s.Meter.Pay(holderWork); err != nil {
			return resp.Fail(err)
		}
		e := c.s.Events.At(number)
		list[i] = e.Describe(c.s.Settings.ShowTokens).Reply()
		if size += list[i].Size(); size > meter.ReplyBytesMax {
			return resp.Err(meter.ErrReplyTooLarge)
		}
	}
	f := history.Fields{}
	if o.paged {
		f = f.Add("cursor", cursorReply(found.next))
	}
	return f.Time("known-since", c.s.Events.KnownSinceMs()).Add("events", resp.Array(list...)).Reply()
}

// leastEventBytes is the size of the shortest event in a reply; eventsOfReplyMax bounds the events of a reply.
var (
	leastEventBytes  = (&history.Event{Kind: history.Gone, Key: "k"}).Describe(true).Reply().Size()
	eventsOfReplyMax = int(meter.ReplyBytesMax / leastEventBytes)
)

// foundEvents has the events that LOCKS HISTORY answers: the newest, or from a cursor on the oldest.
type foundEvents struct {
	o       *locksOptions
	numbers []uint64 // those at the end
	next    uint64   // the number of the first one behind them, with which the next piece begins; 0: none
}

// tooMany reports whether the events make a reply that is too large, whatever comes yet.
func (f *foundEvents) tooMany() bool { return min(len(f.numbers), f.o.count) > eventsOfReplyMax }

// add adds an event, and reports whether the next one is wanted.
func (f *foundEvents) add(e *history.Event) bool {
	switch {
	case e.WallMs < f.o.fromMs || e.WallMs > f.o.toMs || e.Number < f.o.cursor:
		return true
	case f.o.paged && len(f.numbers) == f.o.count:
		f.next = e.Number
		return false
	}
	if f.numbers = append(f.numbers, e.Number); len(f.numbers) > 2*f.o.count {
		f.numbers = slices.Delete(f.numbers, 0, len(f.numbers)-f.o.count)
	}
	return !f.tooMany()
}

// historyOf visits the events of a key in their order, of those about whole databases the ones that ended
// a lock of its, until visit returns false.
func historyOf(c *Ctx, key string, visit func(e *history.Event) bool) error {
	held := map[history.Grant]bool{}
	c.s.Meter.Spend(value.HashWork * int64(len(key)))
	return eachEvent(c, history.Hash(key), func(e *history.Event) bool {
		switch {
		case e.DB != c.db || e.Key != key && !e.Kind.EndsAll():
			return true
		case e.Kind == history.Granted:
			held[e.Grant()] = true
		case e.Kind.EndsAll():
			if len(held) == 0 {
				return true
			}
			clear(held)
		case e.Kind.Ends():
			delete(held, e.Grant())
		}
		return visit(e)
	})
}

// eachEvent is history.Log.each, with its work.
func eachEvent(c *Ctx, hash uint32, visit func(e *history.Event) bool) error {
	if err := c.s.Meter.Pay(c.s.Events.Work(hash)); err != nil {
		return err
	}
	c.s.Events.Each(hash, func(e *history.Event) bool {
		c.s.Meter.Spend(2 * value.FarWork)
		return visit(e)
	})
	return nil
}

// What has become of a token's lock, in a sentence: LOCKS WHY.

// locksWhyCall is LOCKS WHY.
type locksWhyCall struct{ key, token string }

func parseLocksWhy(args resp.Args) (call, error) {
	if err := checkToken(args[3]); err != nil {
		return nil, err
	}
	return &locksWhyCall{args[2], args[3]}, nil
}

func (r *locksWhyCall) Run(c *Ctx) resp.Reply {
	key, token := r.key, r.token
	said, err := sayNow(c, key, token)
	switch {
	case err != nil:
		return resp.Fail(err)
	case said != "":
		return resp.Bulk(said)
	}
	var s history.Story
	follow := func(e *history.Event) bool {
		s.Follow(e, token)
		return true
	}
	if err := historyOf(c, key, follow); err != nil {
		return resp.Fail(err)
	}
	return resp.Bulk(s.Say(history.ShownKey(key), token, c.s.Settings.ShowTokens, c.s.Events.KnownSinceMs()))
}

// sayNow says whether a token holds a lock, or stands in its line; "" if neither.
func sayNow(c *Ctx, key, token string) (string, error) {
	if e := c.Lookup(key); e != nil {
		for _, h := range holdersOf(c, e) {
			if history.FitsToken(h.Token, token) && h.LeaseMs != 0 {
				return sayHeld(c, history.ShownKey(key), h), nil
			}
		}
	}
	line, name := c.s.Waits.Line(), c.lockName(key)
	if err := c.s.Meter.Pay(holderWork * int64(line.LenOf(name))); err != nil {
		return "", err
	}
	before := int64(0)
	for at := line.First(name); at != nil; at = line.Next(at) {
		if history.FitsToken(at.Token, token) {
			w := c.s.Waits.InLine(at)
			return c.shownToken(at.Token) + " has waited for " + history.ShownKey(key) + " for " + itoa(w.WaitedMs(c.now())) +
				" ms, behind " + itoa(before) + " others in line, and waits " + itoa(w.LeftMs(c.now())) + " ms more.", nil
		}
		before++
	}
	return "", nil
}

func sayHeld(c *Ctx, key string, h *lock.Holder) string {
	said := c.shownToken(h.Token) + " holds " + key + " since " + arg.FormatTime(h.SinceMs) + " (fence " +
		itoa(int64(h.Fence)) + "), " + history.SayRenewals(uint64(h.Renewals), lifecycle.RenewedMs(h))
	if h.Tick == lock.NoLease {
		return said + "; it has no lease now."
	}
	return said + "; its lease of " + itoa(h.LeaseMs) + " ms has " + itoa(max(0, h.Tick-c.now())) + " ms left."
}

// Limits of LOCKS DOCTOR and LOCKS ADVICE.
const (
	doctorEventsMax = 200_000           // the newest of them are looked at
	doctorEventWork = 8 * value.FarWork // for each
)

// openCase gathers what is known of all locks, or of those that match.
func openCase(c *Ctx, match *arg.Glob) (*doctor.Case, error) {
	report, err := lockuse.Read(c.s.LockUsage)
	if err != nil {
		return nil, resp.Errorf("ERR what the node has seen cannot be read: %v", err)
	}
	count := min(c.s.Events.Count(), doctorEventsMax)
	work := doctorEventWork*int64(count) + value.FarWork*int64(len(report.Observations))
	if err := c.s.Meter.Pay(work + value.SortWork(count, int64(8*count))); err != nil {
		return nil, err
	}
	d, skip := doctor.New(report, c.WallMs()), c.s.Events.Count()-count
	err = eachEvent(c, 0, func(e *history.Event) bool {
		if skip--; skip < 0 && (e.Kind.EndsAll() || c.s.Meter.Matches(match, e.Key)) {
			d.Add(forDoctor(e))
		}
		return !c.s.Meter.Exceeded()
	})
	switch {
	case err != nil:
	case match.Exceeded():
		err = resp.Error(arg.ErrGlob)
	case c.s.Meter.Exceeded():
		err = resp.Error(meter.ErrWork) // the rest was not looked at
	}
	return d, err
}

// forDoctor is an event as the doctor knows it.
func forDoctor(e *history.Event) *doctor.Event {
	d := &doctor.Event{
		DB: e.DB, Key: e.Key, Token: e.Token, Fence: e.Fence, AtMs: e.WallMs, By: e.By, Script: e.Script,
		Several: e.Permits != 0, Client: e.Client.Known(), WaitedMs: e.WaitedMs, HeldMs: e.HeldMs, LeaseMs: e.LeaseMs,
	}
	switch {
	case e.Kind.EndsAll():
		d.Kind = doctor.AllEnded
	case e.Kind == history.Granted:
		d.Kind = doctor.Granted
	case e.Kind == history.Released:
		d.Kind = doctor.Released
	case e.Kind == history.Deleted:
		d.Kind = doctor.Deleted
	case e.Kind == history.Expired:
		d.Kind = doctor.Expired
	case e.Kind.Ends():
		d.Kind = doctor.Ended
	default:
		d.Kind = doctor.Waited
	}
	return d
}

func parseLocksDoctor(args resp.Args) (call, error) {
	if len(args) > 2 {
		return nil, resp.Error(resp.ErrSyntax)
	}
	return bareCall(locksDoctor), nil
}

func locksDoctor(c *Ctx) resp.Reply {
	d, err := openCase(c, nil)
	if err != nil {
		return resp.Fail(err)
	}
	examine(c, d)
	findings := []resp.Reply{}
	for _, f := range d.Findings() {
		findings = append(findings, history.NewFields().Text("mistake", f.Mistake.String()).Text("keys", f.Template).
			Add("count", resp.Int(f.Count)).Text("example", f.Example).Text("client", f.ClientName()).
			Text("says", f.Sentence()).Reply())
	}
	return knownBy(c, &d.Report).Add("findings", resp.Array(findings...)).Reply()
}

// examine looks up the locks that the doctor asks about.
func examine(c *Ctx, d *doctor.Case) {
	for _, s := range d.StillTaken() {
		if s.DB < store.Databases {
			e := (&Ctx{s: c.s, at: c.at, db: s.DB}).Lookup(s.Key)
			if e != nil && e.Mark() == store.MayBeLock && !e.Deadline().IsSet() {
				d.NoLease(s, e.Str())
			}
		}
	}
	for _, s := range d.Suspects() {
		e := (&Ctx{s: c.s, at: c.at, db: s.DB}).Lookup(s.Key)
		if e == nil {
			continue
		}
		for _, h := range holdersOf(c, e) {
			if h.Fence == s.Fence {
				s.Renewed(d, uint64(h.Renewals))
			}
		}
	}
}

// knownBy begins an answer with the times from which on the log, and the node that was asked, know everything.
func knownBy(c *Ctx, report *lockuse.Report) history.Fields {
	return history.NewFields().Time("known-since", c.s.Events.KnownSinceMs()).Text("node", report.Node).
		Time("seen-since", report.SinceMs)
}

// locksAdviceCall is LOCKS ADVICE.
type locksAdviceCall struct{ match *arg.Glob }

func parseLocksAdvice(args resp.Args) (call, error) {
	r := &locksAdviceCall{}
	if len(args) > 3 {
		return nil, resp.Error(resp.ErrSyntax)
	}
	if len(args) == 3 {
		r.match = arg.NewGlob(args[2])
	}
	return r, nil
}

func (r *locksAdviceCall) Run(c *Ctx) resp.Reply {
	d, err := openCase(c, r.match)
	if err != nil {
		return resp.Fail(err)
	}
	d.Findings()
	locks := []resp.Reply{}
	for _, a := range d.Advice() {
		locks = append(locks, history.NewFields().Text("keys", a.Template).Add("acquisitions", resp.Int(int64(a.Acquisitions))).
			Ms("hold-p50-ms", a.Hold.P50).Ms("hold-p99-ms", a.Hold.P99).Ms("hold-max-ms", a.Hold.Max).
			Ms("lease-ms", a.LeaseMs).Add("expired", resp.Int(int64(a.Expired))).
			Add("expired-in-use", resp.Int(int64(a.InUse))).
			Ms("wait-p50-ms", a.Wait.P50).Ms("wait-p99-ms", a.Wait.P99).Ms("lease-enough-ms", a.EnoughMs).Reply())
	}
	return knownBy(c, &d.Report).Add("locks", resp.Array(locks...)).Reply()
}
