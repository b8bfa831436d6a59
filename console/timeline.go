package console

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lockd/internal/locks"
)

// timeline is the drawing of a lock's history: a row for each token, with bars over time.
type timeline struct {
	From, To time.Time
	Rows     []*timelineRow
	Cut      bool // there are more tokens than rows
}

// timelineRow has the bars of one token.
type timelineRow struct {
	Token, Who string
	Bars       []bar
}

// The kinds of bars, which are their CSS classes.
const (
	barHeld   = "held"   // still held, or given up
	barLost   = "lost"   // held until it was lost
	barWaited = "waited" // until it was granted, or still
	barFailed = "failed" // waited, and the lock was not granted
)

// Took returns the length of the bar in time.
func (b bar) Took() time.Duration { return b.To.Sub(b.From) }

// barNames are the labels of the kinds.
var barNames = map[string]string{
	barHeld: "held", barLost: "lost", barWaited: "waited", barFailed: "not granted",
}

// bar is a time in which a token held the lock, or waited for it. X and Width are in thousandths of the timeline.
type bar struct {
	Kind, Name string // barHeld ..., and its label
	Event      string // the event that ended it; "": it goes on
	From, To   time.Time
	X, Width   int64
}

// timelineOf draws a lock: its events, the oldest first, its holders and its waiters. now is the present if the
// answers do not tell it.
func timelineOf(l *locks.Info, events []locks.Event, now time.Time) timeline {
	events = events[max(0, len(events)-timelineEvents):]
	d := drawing{rows: map[string]*timelineRow{}, open: map[int64]grant{}, now: nowOf(l, events, now)}
	for i := range events {
		d.event(&events[i])
	}
	for i := range l.Holders {
		d.holder(&l.Holders[i])
	}
	d.close(bar{Kind: barHeld, To: d.now}) // they were granted after the node had listed the holders
	for _, w := range l.Line {
		d.bar(w.Token, who(w.Owner, w.Token, w.Client), bar{Kind: barWaited, From: before(d.now, w.Waited), To: d.now})
	}
	return d.timeline()
}

// grant is a grant without a known end.
type grant struct {
	token, who string
	from       time.Time
}

type drawing struct {
	now   time.Time
	rows  map[string]*timelineRow
	order []*timelineRow
	open  map[int64]grant // by fence
}

// nowOf returns the present by the clock of the answers, or else now.
func nowOf(l *locks.Info, events []locks.Event, now time.Time) time.Time {
	var latest time.Time
	for _, h := range l.Holders {
		if t := h.Since.Add(h.Held); !h.Since.IsZero() && t.After(latest) {
			latest = t
		}
	}
	if !latest.IsZero() {
		now = latest
	}
	if n := len(events); n > 0 && events[n-1].Time.After(now) {
		now = events[n-1].Time
	}
	return now
}

// before returns t - d, with d limited to 0 to 10 years: the numbers of an answer could overflow.
func before(t time.Time, d time.Duration) time.Time {
	const most = 10 * 365 * 24 * time.Hour
	return t.Add(-min(max(d, 0), most))
}

// who returns the owner, if it differs from the token, or else the client's name.
func who(owner, token string, c locks.Client) string {
	if owner == token {
		owner = ""
	}
	return cmp.Or(owner, c.Name)
}

func (d *drawing) event(e *locks.Event) {
	of := who(e.Owner, e.Token, e.Client)
	switch e.Event {
	case "granted":
		if e.Waited > 0 {
			d.bar(e.Token, of, bar{Kind: barWaited, Event: e.Event, From: before(e.Time, e.Waited), To: e.Time})
		}
		d.open[e.Fence] = grant{e.Token, of, e.Time}
	case "released", "moved", "expired", "deleted", "overwritten", "forced":
		kind := barHeld
		if isBad(*e) {
			kind = barLost
		}
		of = cmp.Or(d.open[e.Fence].who, who(e.Owner, e.Token, locks.Client{})) // the event's client ended it
		delete(d.open, e.Fence)
		d.bar(e.Token, of, bar{Kind: kind, Event: e.Event, From: before(e.Time, e.Held), To: e.Time})
	case "flushed", "swapped":
		d.close(bar{Kind: barLost, Event: e.Event, To: e.Time})
	default:
		d.bar(e.Token, of, bar{Kind: barFailed, Event: e.Event, From: before(e.Time, e.Waited), To: e.Time})
	}
}

// close ends all open grants with a bar like end.
func (d *drawing) close(end bar) {
	for _, fence := range slices.Sorted(maps.Keys(d.open)) {
		g := d.open[fence]
		end.From = g.from
		d.bar(g.token, g.who, end)
	}
	clear(d.open)
}

func (d *drawing) holder(h *locks.Holder) {
	delete(d.open, h.Fence)
	if h.Since.IsZero() {
		return
	}
	d.bar(h.Token, who(h.Owner, h.Token, h.Client), bar{Kind: barHeld, From: h.Since, To: d.now})
}

func (d *drawing) bar(token, who string, b bar) {
	row := d.rows[token]
	if row == nil {
		row = &timelineRow{Token: token}
		d.rows[token] = row
		d.order = append(d.order, row)
	}
	row.Who = cmp.Or(who, row.Who)
	if b.From.After(b.To) {
		b.From = b.To
	}
	b.Name = barNames[b.Kind]
	row.Bars = append(row.Bars, b)
}

// timeline scales the bars to the time from the first beginning to now. It keeps the newest tokens.
func (d *drawing) timeline() timeline {
	t := timeline{To: d.now, From: d.now, Rows: d.order}
	if len(t.Rows) > timelineRows {
		t.Rows, t.Cut = t.Rows[len(t.Rows)-timelineRows:], true
	}
	for _, row := range t.Rows {
		slices.SortStableFunc(row.Bars, func(a, b bar) int { return a.From.Compare(b.From) })
		if row.Bars[0].From.Before(t.From) {
			t.From = row.Bars[0].From
		}
	}
	whole := max(1, t.To.Sub(t.From).Milliseconds())
	for _, row := range t.Rows {
		for i := range row.Bars {
			b := &row.Bars[i]
			b.X = 1000 * b.From.Sub(t.From).Milliseconds() / whole
			b.Width = max(4, 1000*b.Took().Milliseconds()/whole) // a narrower bar would be invisible
			b.X = min(b.X, 1000-b.Width)
		}
	}
	return t
}
