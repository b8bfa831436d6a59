package keyspace

import (
	"lockd/keyspace/arg"
	"lockd/keyspace/doctor"
	"lockd/keyspace/history"
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
	count := min(c.m.events.Count(), doctorEventsMax)
	work := doctorEventWork*int64(count) + value.FarWork*int64(len(report.Sightings))
	if err := c.m.pay(work + value.SortWork(count, int64(8*count))); err != nil {
		return nil, err
	}
	d, skip := doctor.New(report, c.wallMs()), c.m.events.Count()-count
	err = c.eachEvent(0, func(e *history.Event) {
		if skip--; skip >= 0 || c.m.tired() {
			return
		}
		if match != nil && e.Key != "" {
			before := match.Work()
			matches := match.Matches(e.Key)
			if c.m.spend(match.Work() - before); !matches {
				return
			}
		}
		d.Add(forDoctor(e))
	})
	if err == nil && match != nil && match.Exceeded() {
		err = resp.Error(arg.ErrGlob)
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
	case e.Key == "":
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
		findings = append(findings, history.NewFields().Text("mistake", f.Mistake.String()).Text("keys", f.Template).
			Add("count", resp.Int(f.Count)).Text("example", f.Example).Text("client", f.Who()).
			Text("says", f.Says()).Reply())
	}
	return c.knownBy(&d.Report).Add("findings", resp.Array(findings...)).Reply()
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
func (c *ctx) knownBy(report *sight.Report) history.Fields {
	return history.NewFields().Time("known-since", c.m.events.KnownSinceMs()).Text("node", report.Node).
		Time("seen-since", report.SinceMs)
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
		locks = append(locks, history.NewFields().Text("keys", a.Template).Add("acquisitions", resp.Int(int64(a.Acquisitions))).
			Ms("hold-p50-ms", a.Hold.P50).Ms("hold-p99-ms", a.Hold.P99).Ms("hold-max-ms", a.Hold.Max).
			Ms("lease-ms", a.LeaseMs).Add("expired", resp.Int(int64(a.Expired))).
			Add("expired-in-use", resp.Int(int64(a.InUse))).
			Ms("wait-p50-ms", a.Wait.P50).Ms("wait-p99-ms", a.Wait.P99).Ms("lease-enough-ms", a.EnoughMs).Reply())
	}
	return c.knownBy(&d.Report).Add("locks", resp.Array(locks...)).Reply()
}
