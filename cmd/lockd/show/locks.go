package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockd/internal/locks"
)

// HolderName names the holder of a lock by owner, or else by token, and the number of other holders; "-" if there is
// no holder.
func HolderName(l *locks.Lock) string {
	if len(l.Holders) == 0 {
		return "-"
	}
	name := Escape(l.Holders[0].Owner)
	if n := len(l.Holders) - 1; n > 0 {
		name += " +" + strconv.Itoa(n)
	}
	return name
}

// Held is for how long a lock has been held: by the first of its holders.
func Held(l *locks.Lock) (longest time.Duration) {
	for i := range l.Holders {
		longest = max(longest, l.Holders[i].Held)
	}
	return longest
}

// Lease is the lease of a lock: that of its holders which lasts longest. ok is false where one has none.
func Lease(l *locks.Lock) (left, full time.Duration, ok bool) {
	for i := range l.Holders {
		h := &l.Holders[i]
		if !h.HasLease {
			return 0, 0, false
		}
		if h.LeaseLeft >= left {
			left, full = h.LeaseLeft, h.Lease
		}
	}
	return left, full, len(l.Holders) > 0
}

// Fence is the newest fence of a lock's holders.
func Fence(l *locks.Lock) (newest int64) {
	for i := range l.Holders {
		newest = max(newest, l.Holders[i].Fence)
	}
	return newest
}

// LeaseLeft is the time that a lease still has, or that there is none.
func LeaseLeft(left time.Duration, ok bool) string {
	if !ok {
		return "none"
	}
	return Age(left)
}

// ModeName names the mode of a lock; "" for an exclusive lock.
func ModeName(m locks.Mode, permits int64) string {
	switch m {
	case locks.Exclusive, "":
		return ""
	case locks.Limit:
		if permits > 0 {
			return "limit " + strconv.FormatInt(permits, 10)
		}
	}
	return Escape(string(m))
}

// List formats a table of locks: WAIT is the number of waiters, LEFT the remaining lease.
func List(list []locks.Lock, width int) []string {
	t := Table{Columns: []Column{
		{Title: "KEY", Min: 12, Middle: true}, {Title: "HOLDER", Min: 8, Middle: true}, {Title: "MODE"},
		{Title: "HELD", Right: true}, {Title: "LEFT", Right: true}, {Title: "WAIT", Right: true},
		{Title: "FENCE", Right: true}, {Title: "CLIENT", Min: 6}, {Title: "NOTE", Min: 4},
	}}
	for i := range list {
		l := &list[i]
		left, _, ok := Lease(l)
		row := []string{Escape(l.Key), HolderName(l), ModeName(l.Mode, l.Permits), Age(Held(l)), LeaseLeft(left, ok),
			strconv.FormatInt(l.Waiters, 10), strconv.FormatInt(Fence(l), 10), "", ""}
		if len(l.Holders) == 1 {
			row[7], row[8] = ClientName(l.Holders[0].Client), Escape(l.Holders[0].Note)
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Lines(width)
}

// ClientName names a client in short: by its name, else its address, and its node.
func ClientName(c locks.Client) string {
	name := c.Name
	switch {
	case name != "":
	case c.Addr != "":
		name = c.Addr
	case c.ID != 0:
		name = "client " + strconv.FormatInt(c.ID, 10)
	}
	if c.Node != "" {
		name += "@" + c.Node
	}
	return Escape(name)
}

// clientInFull formats all known fields of a client.
func clientInFull(c locks.Client) string {
	var parts []string
	if c.ID != 0 {
		parts = append(parts, "client "+strconv.FormatInt(c.ID, 10))
	}
	if c.Name != "" {
		parts = append(parts, "("+Escape(c.Name)+")")
	}
	if c.Addr != "" {
		parts = append(parts, "from "+Escape(c.Addr))
	}
	if c.Node != "" {
		parts = append(parts, "at node "+Escape(c.Node))
	}
	return strings.Join(parts, " ")
}

// wallTime is a wall time as it is shown in full.
func wallTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Info formats the holders and waiters of a lock. now is the wall clock.
func Info(i *locks.Info, now time.Time, width int) []string {
	lines := Wrap(infoTitle(i), "", "", width)
	if len(i.Holders) > 0 {
		lines = append(lines, "", "HELD BY")
	}
	for n := range i.Holders {
		lines = append(lines, holderLines(&i.Holders[n], now, width)...)
	}
	if len(i.Line) == 0 {
		return lines
	}
	t := Table{Columns: []Column{
		{Title: "IN LINE", Right: true}, {Title: "WHO", Min: 8, Middle: true}, {Title: "TOKEN", Min: 8},
		{Title: "MODE"}, {Title: "WAITED", Right: true}, {Title: "LEFT", Right: true}, {Title: "CLIENT", Min: 8},
		{Title: "NOTE", Min: 4},
	}}
	for n := range i.Line {
		w := &i.Line[n]
		t.Rows = append(t.Rows, []string{strconv.Itoa(n + 1), Escape(w.Owner), tokenBeside(w.Token, w.Owner),
			ModeName(w.Mode, 0), Age(w.Waited), Age(w.Left), ClientName(w.Client), Escape(w.Note)})
	}
	return append(append(lines, ""), t.Lines(width)...)
}

// tokenBeside is a token that is shown beside an owner; "" if that is the same.
func tokenBeside(token, owner string) string {
	if token == owner {
		return ""
	}
	return Escape(token)
}

func infoTitle(i *locks.Info) string {
	held := "is held by nobody"
	switch n := len(i.Holders); {
	case n == 0:
	case i.Mode == locks.Limit:
		held = fmt.Sprintf("is held by %d of %d", n, i.Permits)
	case i.Mode == locks.Shared:
		held = fmt.Sprintf("is held by %d, shared", n)
	default:
		held = "is held"
	}
	waits := "nobody waits for it"
	switch n := len(i.Line); {
	case n == 1:
		waits = "one waits for it"
	case n > 1:
		waits = fmt.Sprintf("%d wait for it", n)
	}
	return Escape(i.Key) + " " + held + "; " + waits + "."
}

func holderLines(h *locks.Holder, now time.Time, width int) []string {
	const first, rest = "  ", "    "
	who := Escape(h.Owner)
	if token := tokenBeside(h.Token, h.Owner); token != "" {
		who += " (token " + token + ")"
	}
	who += ", fence " + strconv.FormatInt(h.Fence, 10)
	if !h.Since.IsZero() {
		who += ", for " + Age(h.Held) + " since " + wallTime(h.Since)
	}
	lines := Wrap(who, first, rest, width)
	lines = append(lines, Wrap(leaseOf(h, now), rest, rest, width)...)
	if by := commandOf(h.By, clientInFull(h.Client)); by != "" {
		lines = append(lines, Wrap("taken by "+by, rest, rest, width)...)
	}
	if h.Note != "" {
		lines = append(lines, Wrap("note: "+Escape(h.Note), rest, rest, width)...)
	}
	return lines
}

// leaseOf describes the state of a holder's lease.
func leaseOf(h *locks.Holder, now time.Time) string {
	said := "no lease: it is held for ever"
	switch {
	case h.HasLease && h.Lease > 0:
		said = Age(h.LeaseLeft) + " left of its lease of " + Age(h.Lease)
	case h.HasLease:
		said = Age(h.LeaseLeft) + " left of its lease"
	}
	return said + ", " + renewalsOf(h.Renewals, h.LastRenewal, now)
}

func renewalsOf(n int64, last, now time.Time) string {
	said := "never renewed"
	switch {
	case n == 1:
		said = "renewed once"
	case n > 1:
		said = "renewed " + strconv.FormatInt(n, 10) + " times"
	}
	if n > 0 && !last.IsZero() {
		said += ", last " + Age(now.Sub(last)) + " ago"
	}
	return said
}

// commandOf joins a command and the client that sent it.
func commandOf(by, client string) string {
	by = Escape(by)
	if by != "" && client != "" {
		return by + ", " + client
	}
	return by + client
}

// History are the lines of a table of events. now is the wall clock.
func History(h *locks.History, now time.Time, width int) []string {
	t := Table{Columns: []Column{
		{Title: "AGO", Right: true}, {Title: "TIME (UTC)"}, {Title: "EVENT", Min: 8},
		{Title: "HOLDER", Min: 8, Middle: true}, {Title: "FENCE", Right: true}, {Title: "AFTER", Right: true}, {Title: "HOW", Min: 10},
	}}
	for i := range h.Events {
		e := &h.Events[i]
		who, fence := e.Owner, ""
		if who == "" {
			who = e.Token
		}
		if e.Fence != 0 {
			fence = strconv.FormatInt(e.Fence, 10)
		}
		t.Rows = append(t.Rows, []string{Age(now.Sub(e.Time)), eventTime(e.Time, now), Escape(e.Event), Escape(who),
			fence, eventAfter(e), eventHow(e)})
	}
	return t.Lines(width)
}

// eventTime is the time of the day, for an event of another day with its date.
func eventTime(t, now time.Time) string {
	if t, now = t.UTC(), now.UTC(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05.000")
	}
	return t.Format("01-02 15:04")
}

// eventAfter is for how long the lock was held, or waited for, until the event; "" if neither.
func eventAfter(e *locks.Event) string {
	switch {
	case e.Lost():
		return Age(e.Held)
	case e.Waited > 0 || !e.Granted():
		return Age(e.Waited)
	}
	return ""
}

// eventHow formats the details of an event that have no column.
func eventHow(e *locks.Event) string {
	var parts []string
	if e.Reason != "" {
		parts = append(parts, "\""+Escape(e.Reason)+"\"")
	}
	if by := strings.TrimSpace(Escape(e.By) + " " + ClientName(e.Client)); by != "" {
		parts = append(parts, by)
	}
	if e.Event == "expired" {
		parts = append(parts, "its lease of "+Age(e.Lease)+" was over")
	}
	if e.Event == "swapped" {
		parts = append(parts, "with database "+strconv.FormatInt(e.DB, 10))
	}
	if e.Note != "" {
		parts = append(parts, Escape(e.Note))
	}
	return strings.Join(parts, ", ")
}
