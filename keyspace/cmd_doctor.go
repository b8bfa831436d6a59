package keyspace

import (
	"lockd/keyspace/arg"
	"lockd/keyspace/doctor"
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/sight"
)

// Limits of LOCKS DOCTOR and LOCKS ADVICE.
const (
	doctorEventsMax = 200_000           // the newest of them are looked at
	doctorEventWork = 8 * value.FarWork // for each
)

// openCase gathers what is known of all locks, or of those that match.
func (c *ctx) openCase(match *arg.Glob) (*doctor.Case, error) {
	report, err := sight.Read(c.m.sightings)
	if err != nil {
		return nil, resp.Errorf("ERR what the node has seen cannot be read: %v", err)
	}
	count := min(c.m.events.count(), doctorEventsMax)
	work := doctorEventWork*int64(count) + value.FarWork*int64(len(report.Sightings))
	if err := c.m.pay(work + value.SortWork(count, int64(8*count))); err != nil {
		return nil, err
	}
	d, skip := doctor.New(report, c.wallMs()), c.m.events.count()-count
	err = c.eachEvent(0, func(e *lockEvent) {
		if skip--; skip >= 0 || c.m.tired() {
			return
		}
		if match != nil && e.key != "" {
			before := match.Work()
			matches := match.Matches(e.key)
			if c.m.spend(match.Work() - before); !matches {
				return
			}
		}
		d.Add(e.forDoctor())
	})
	if err == nil && match != nil && match.Exceeded() {
		err = resp.Error(arg.ErrGlob)
	}
	return d, err
}

// forDoctor is an event as the doctor knows it.
func (e *lockEvent) forDoctor() *doctor.Event {
	d := &doctor.Event{
		DB: e.db, Key: e.key, Token: e.token, Fence: e.fence, AtMs: e.wallMs, By: e.by, Script: e.script,
		Several: e.permits != 0, Client: e.client.Known(), WaitedMs: e.waitedMs, HeldMs: e.heldMs, LeaseMs: e.leaseMs,
	}
	switch {
	case e.key == "":
		d.Kind = doctor.AllEnded
	case e.kind == eventGranted:
		d.Kind = doctor.Granted
	case e.kind == eventReleased:
		d.Kind = doctor.Released
	case e.kind == eventDeleted:
		d.Kind = doctor.Deleted
	case e.kind == eventExpired:
		d.Kind = doctor.Expired
	case e.kind.ends():
		d.Kind = doctor.Ended
	default:
		d.Kind = doctor.Waited
	}
	return d
}

func cmdLocksDoctor(c *ctx, args resp.Args) resp.Reply {
	if len(args) > 2 {
		return resp.Err(resp.ErrSyntax)
	}
	d, err := c.openCase(nil)
	if err != nil {
		return resp.Fail(err)
	}
	c.examine(d)
	findings := []resp.Reply{}
	for _, f := range d.Findings() {
		findings = append(findings, newFields().text("mistake", f.Mistake.String()).text("keys", f.Template).
			add("count", resp.Int(f.Count)).text("example", f.Example).text("client", f.Who()).
			text("says", f.Says()).reply())
	}
	return c.knownBy(&d.Report).add("findings", resp.Array(findings...)).reply()
}

// examine looks up the locks that the doctor asks about.
func (c *ctx) examine(d *doctor.Case) {
	for _, s := range d.StillTaken() {
		if s.DB < databases {
			e := (&ctx{m: c.m, at: c.at, db: s.DB}).lookup(s.Key)
			if e != nil && e.mark() == mayBeLock && !e.deadline.set() {
				d.NoLease(s, e.str())
			}
		}
	}
	for _, s := range d.Suspects() {
		e := (&ctx{m: c.m, at: c.at, db: s.DB}).lookup(s.Key)
		if e == nil {
			continue
		}
		for _, h := range c.holdersOf(e) {
			if h.Fence == s.Fence {
				s.Renewed(d, uint64(h.Renewals))
			}
		}
	}
}

// knownBy begins an answer with the times from which on the log, and the node that was asked, know everything.
func (c *ctx) knownBy(report *sight.Report) replyFields {
	return newFields().time("known-since", c.m.events.knownSinceMs()).text("node", report.Node).
		time("seen-since", report.SinceMs)
}

func cmdLocksAdvice(c *ctx, args resp.Args) resp.Reply {
	if len(args) > 3 {
		return resp.Err(resp.ErrSyntax)
	}
	var match *arg.Glob
	if len(args) == 3 {
		match = arg.NewGlob(args[2])
	}
	d, err := c.openCase(match)
	if err != nil {
		return resp.Fail(err)
	}
	d.Findings()
	locks := []resp.Reply{}
	for _, a := range d.Advice() {
		locks = append(locks, newFields().text("keys", a.Template).add("acquisitions", resp.Int(int64(a.Acquisitions))).
			ms("hold-p50-ms", a.Hold.P50).ms("hold-p99-ms", a.Hold.P99).ms("hold-max-ms", a.Hold.Max).
			ms("lease-ms", a.LeaseMs).add("expired", resp.Int(int64(a.Expired))).
			add("expired-in-use", resp.Int(int64(a.InUse))).
			ms("wait-p50-ms", a.Wait.P50).ms("wait-p99-ms", a.Wait.P99).ms("lease-enough-ms", a.EnoughMs).reply())
	}
	return c.knownBy(&d.Report).add("locks", resp.Array(locks...)).reply()
}
