package top

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/cmd/lockd/show"
	"lockd/internal/locks"
	"lockd/resp"
)

// Style is the look of a text. A picture can be understood without it.
type Style uint8

// The styles.
const (
	Plain   Style = iota
	Strong        // what matters
	Title         // of columns
	Cursor        // the row under it
	Good          // a lease that has long to go
	Warning       // one that has not, and what is wrong
)

// Span is a text in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of a picture.
type Line []Span

// String is the line without its styles.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

// plain is a line in one style.
func plain(style Style, text string) Line { return Line{{text, style}} }

// cut returns the part of a line, from its beginning, that fits a width.
func (l Line) cut(width int) (fits Line) {
	for _, s := range l {
		s.Text = show.Cut(s.Text, width)
		width -= show.Width(s.Text)
		if s.Text != "" {
			fits = append(fits, s)
		}
	}
	return fits
}

// View draws the picture for a terminal of a size, of as many lines. now is this machine's clock.
func (m *Model) View(width, height int, now time.Time) []Line {
	d := drawing{m, width, now}
	head := []Line{d.title(), d.subtitle()}
	foot := []Line{d.message(), d.keys()}
	var fixed, body []Line // of the part between, the first lines and those that scroll
	room := max(0, height-len(head)-len(foot))
	switch m.page {
	case pageHelp:
		body = helpLines()
		m.scroll(len(body), room)
	case pageLock:
		body = d.lockLines()
		m.scroll(len(body), room)
	default:
		fixed = []Line{d.listTitle()}
		body = d.list()
		m.follow(max(0, room-1))
	}
	body = body[min(m.offset, len(body)):]
	lines := append(append(head, fixed...), body...)
	lines = lines[:min(len(lines), len(head)+room)]
	for len(lines) < len(head)+room {
		lines = append(lines, nil)
	}
	lines = append(lines, foot...)
	lines = lines[:min(len(lines), max(0, height))]
	for i := range lines {
		lines[i] = lines[i].cut(width)
	}
	return lines
}

// scroll keeps the offset where there are lines.
func (m *Model) scroll(lines, room int) {
	m.height = room
	m.offset = max(0, min(m.offset, lines-room))
}

// follow moves the list so that the cursor is seen.
func (m *Model) follow(room int) {
	m.height = room
	m.offset = max(m.cursor-room+1, min(m.offset, m.cursor))
	m.offset = max(0, min(m.offset, len(m.rows)-room))
}

// Picture returns the whole list as lines of text, for an output that is not a terminal.
func (m *Model) Picture(width int, now time.Time) (text []string) {
	d := drawing{m, width, now}
	lines := append([]Line{d.title(), d.subtitle(), d.listTitle()}, d.list()...)
	for _, l := range lines {
		text = append(text, strings.TrimRight(strings.Replace(l.cut(width).String(), cursorMark, noMark, 1), " "))
	}
	return text
}

// drawing draws the parts of a picture; now is this machine's clock.
type drawing struct {
	m     *Model
	width int
	now   time.Time
}

// title names the node that answers, or reports that none does.
func (d *drawing) title() Line {
	line := Line{{"lockd top", Strong}}
	switch {
	case d.m.missed != nil:
		what, since := "  NO SERVER ANSWERS", ""
		if errors.As(d.m.missed, new(resp.Error)) {
			what = "  REFUSED"
		}
		if d.m.last.Addr != "" {
			since = " for " + show.Age(d.now.Sub(d.m.last.At))
		}
		return append(line, Span{what + since, Warning},
			Span{": " + show.Escape(d.m.missed.Error()), Plain})
	case d.m.last.Addr == "":
		return append(line, Span{"  asking", Plain})
	}
	line = append(line, Span{"  " + d.m.last.Addr + "  " + d.m.last.sum(), Plain})
	if old := d.now.Sub(d.m.last.At); old > d.m.Pause()+oldMin {
		line = append(line, Span{"  " + show.Age(old) + " AGO", Warning})
	}
	return line
}

// oldMin is the delay after which the screen reports that an answer is overdue.
const oldMin = 2 * time.Second

// sum counts what was seen.
func (s *Snapshot) sum() string {
	waiters := int64(0)
	for i := range s.Locks {
		waiters += s.Locks[i].Waiters
	}
	more := ""
	if s.cut() {
		more = " or more"
	}
	return fmt.Sprintf("%d%s held, %d in line", len(s.Locks), more, waiters)
}

// subtitle describes which part of the list is shown, and in which order.
func (d *drawing) subtitle() Line {
	if d.m.page == pageHelp {
		return plain(Plain, "")
	}
	if d.m.lockOpen() {
		return plain(Strong, "lock "+show.Escape(d.m.lock))
	}
	said := map[Order]string{ByWaiters: "by waiters", ByHeld: "by time held", ByChurn: "by changes a second"}[d.m.order]
	if d.m.last.cut() {
		said += ", of the " + strconv.Itoa(d.m.Count) + " that are held longest"
		if d.m.last.Ask.Waited {
			said += " and waited for"
		}
	}
	if d.m.filter != "" {
		said += ", keys like " + show.Escape(d.m.filter)
	}
	if n := len(d.m.last.Flags); n > 0 {
		said += fmt.Sprintf(", findings of the doctor (!): %d", n)
	}
	if d.m.Pause() > max(d.m.Interval, slowMin) {
		said += ", looked at every " + show.Age(d.m.Pause()+d.m.last.Took) + " as it takes " + show.Age(d.m.last.Took)
	}
	return plain(Plain, said)
}

// slowMin is a pause that is told where it is longer than what was asked for.
const slowMin = time.Second

// message returns the line of prompts and messages.
func (d *drawing) message() Line {
	switch d.m.prompt {
	case promptFilter:
		return Line{{"Keys with (or like, with * and ?): ", Strong}, {show.Escape(d.m.typed) + "_", Plain}}
	case promptReason:
		return Line{{"Take " + d.m.target.String() + ", because: ", Strong}, {show.Escape(d.m.typed) + "_", Plain}}
	case promptSure:
		return Line{{"Really take " + d.m.target.String() + "? [y/N]  ", Warning}, {show.Escape(d.m.target.Reason), Plain}}
	}
	if d.m.forced && d.m.said == "" {
		return plain(Strong, "taking "+d.m.target.String()+" ...")
	}
	return plain(Strong, d.m.said)
}

func (d *drawing) keys() Line {
	switch {
	case d.m.prompt == promptSure:
		return plain(Plain, "y yes  any other key no")
	case d.m.prompt != promptNone:
		return plain(Plain, "enter done  esc never mind")
	case d.m.page == pageHelp:
		return plain(Plain, "any key back  q quit")
	case d.m.page == pageLock:
		return plain(Plain, "esc back  up down scroll  x force  ? help  q quit")
	}
	return plain(Plain, "w waiters  h held  c changes  / filter  enter open  x force  ? help  q quit")
}

// column is a column of the list.
type column struct {
	title string
	width int
	right bool
	cell  func(r *row) Span
}

const (
	cursorMark = ">"
	noMark     = " "
)

// columns returns the columns that fit a width; the first two share the rest of it.
func (d *drawing) columns() []column {
	bar := 6
	if d.width >= 100 {
		bar = 12
	}
	fence := 5
	for i := range d.m.rows {
		fence = max(fence, len(strconv.FormatInt(show.Fence(&d.m.rows[i].lock), 10)))
	}
	all := []struct {
		column
		from int // the width of the screen from which on it is shown
	}{
		{column{"WAIT", 5, true, func(r *row) Span { return number(r.lock.Waiters) }}, 0},
		{column{"HELD", 6, true, func(r *row) Span {
			return Span{unless(r.gone, show.Age(show.Held(&r.lock))), Plain}
		}}, 0},
		{column{"LEASE", bar + 2, false, func(r *row) Span { return leaseBar(&r.lock, bar) }}, 70},
		{column{"LEFT", 6, true, func(r *row) Span { return Span{leaseLeft(r), Plain} }}, 40},
		{column{"CHG/S", 5, true, func(r *row) Span { return Span{rate(r.churn), Plain} }}, 50},
		{column{"FENCE", fence, true, func(r *row) Span {
			return Span{unless(r.gone, strconv.FormatInt(show.Fence(&r.lock), 10)), Plain}
		}}, 60},
		{column{"!", 1, true, func(r *row) Span { return Span{d.flagged(r), Warning} }}, 60},
		{column{"CLIENT", 24, false, func(r *row) Span { return Span{clientOf(r), Plain} }}, 120},
		{column{"NOTE", 20, false, func(r *row) Span { return Span{noteOf(r), Plain} }}, 150},
	}
	left := d.width - len(cursorMark)
	var rest []column
	for _, c := range all {
		if d.width >= c.from {
			rest = append(rest, c.column)
			left -= c.width + 1
		}
	}
	left = max(left, 12)
	holder := min(max(6, left*2/5), 24)
	first := []column{
		{"KEY", left - holder - 1, false, func(r *row) Span {
			return Span{show.CutMiddle(show.Escape(r.lock.Key), left-holder-1), Plain}
		}},
		{"HOLDER", holder, false, func(r *row) Span {
			return Span{show.CutMiddle(show.HolderName(&r.lock), holder), Plain}
		}},
	}
	return append(first, rest...)
}

func unless(missing bool, text string) string {
	if missing {
		return "-"
	}
	return text
}

func number(n int64) Span {
	if n == 0 {
		return Span{"0", Plain}
	}
	return Span{strconv.FormatInt(n, 10), Strong}
}

func leaseLeft(r *row) string {
	left, _, ok := show.Lease(&r.lock)
	return unless(r.gone, show.LeaseLeft(left, ok))
}

// leaseBar draws the remaining part of a lease.
func leaseBar(l *locks.Lock, width int) Span {
	left, full, ok := show.Lease(l)
	if !ok || full <= 0 {
		return Span{"", Plain}
	}
	n := int((min(left, full)*time.Duration(width) + full - 1) / full)
	style := Good
	if left < full/3 {
		style = Warning
	}
	return Span{"[" + strings.Repeat("#", n) + strings.Repeat("-", width-n) + "]", style}
}

// rate is a number of events a second, in five characters.
func rate(perSecond float64) string {
	switch {
	case perSecond < churnLeast:
		return "0"
	case perSecond < 10:
		return strconv.FormatFloat(perSecond, 'f', 2, 64)
	case perSecond < 1000:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(min(perSecond, 99999), 'f', 0, 64)
}

func clientOf(r *row) string {
	if len(r.lock.Holders) == 0 {
		return ""
	}
	return show.ClientName(r.lock.Holders[0].Client)
}

func noteOf(r *row) string {
	if len(r.lock.Holders) == 0 {
		return ""
	}
	return show.Escape(r.lock.Holders[0].Note)
}

// flagged returns the number of the doctor's findings about a lock.
func (d *drawing) flagged(r *row) string {
	if n := len(d.m.last.flagsOf(r.lock.Key)); n > 0 {
		return strconv.Itoa(min(n, 9))
	}
	return ""
}

func (s *Snapshot) flagsOf(key string) (said []string) {
	for _, f := range s.Flags {
		if steps := globSteps; resp.Glob(f.Pattern, key, &steps) {
			said = append(said, f.Said)
		}
	}
	return said
}

// globSteps bounds the comparisons of a key with a pattern.
const globSteps = 1 << 16

func (d *drawing) listTitle() Line {
	text := noMark
	for i, c := range d.columns() {
		if i > 0 {
			text += " "
		}
		text += show.Pad(show.Cut(c.title, c.width), c.width, c.right)
	}
	return plain(Title, show.Pad(text, d.width, false))
}

func (d *drawing) list() (lines []Line) {
	columns := d.columns()
	for i := range d.m.rows {
		line := Line{{noMark, Plain}}
		if i == d.m.cursor {
			line[0].Text = cursorMark
		}
		for n, c := range columns {
			s := c.cell(&d.m.rows[i])
			s.Text = show.Pad(show.Cut(s.Text, c.width), c.width, c.right)
			if n > 0 {
				line = append(line, Span{" ", Plain})
			}
			line = append(line, s)
		}
		if i == d.m.cursor {
			for n := range line {
				line[n].Style = Cursor
			}
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 && d.m.last.Addr != "" {
		lines = append(lines, plain(Plain, " No such lock is held."))
	}
	return lines
}

// lockLines are the lines of a lock's page.
func (d *drawing) lockLines() (lines []Line) {
	add := func(style Style, text ...string) {
		for _, t := range text {
			lines = append(lines, plain(style, t))
		}
	}
	if !d.m.known {
		add(Plain, "asking")
		return lines
	}
	for _, said := range d.m.last.flagsOf(d.m.lock) {
		add(Warning, show.Wrap(show.Escape(said), "! ", "  ", d.width)...)
	}
	if info := d.m.detail.Info; info != nil {
		add(Plain, show.Info(info, d.now, d.width)...)
	} else {
		add(Plain, show.Escape(d.m.lock)+" is no lock now.")
	}
	if len(d.m.detail.History.Events) > 0 {
		h := d.m.detail.History
		h.Events = slices.Clone(h.Events)
		slices.Reverse(h.Events)
		table := show.History(&h, d.now, d.width)
		add(Plain, "")
		add(Title, show.Pad(table[0], d.width, false))
		add(Plain, table[1:]...)
	}
	return lines
}

func helpLines() (lines []Line) {
	for line := range strings.Lines(helpText) {
		lines = append(lines, plain(Plain, strings.TrimRight(line, "\n")))
	}
	return lines
}

const helpText = `w h c      sort by those who wait, by time held, by changes a second
/          show only keys that have a text in them, or match a pattern (* ?)
esc        show all keys again; go back to the list
enter      open a lock: who holds it, who waits, what became of it
up down pgup pgdn home end   move
x          end the lock for its holder: asks for a reason, which is written
           down, and then whether you are sure
space      look now
q ctrl-c   quit

WAIT       how many stand in line
HELD       for how long the first of its holders has it
LEASE LEFT what is left of the lease, and of how much; of several holders,
           the one that lasts longest
CHG/S      how often it changed hands a second, of late: as far as one look
           after the other sees it; what comes and goes in between is not seen
FENCE      the newest fence
!          how many findings of LOCKS DOCTOR are about it

Looking takes no more than a tenth of the time: where an answer takes long,
the pause is longer than --interval.
`
