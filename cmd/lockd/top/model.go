// Package top implements lockd top: the locks of a cluster in a terminal, polled again and again.
//
// Model holds the state and handles keys; its View draws the screen. Neither depends on terminals, clocks or servers.
// Poller asks the servers, and Run connects model, poller and terminal.
package top

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"lockd/cmd/lockd/show"
	"lockd/internal/locks"
)

// Order is the sort order of the locks.
type Order uint8

// The orders. Locks that are alike in it stand by their age, then by their names.
const (
	ByWaiters Order = iota
	ByHeld
	ByChurn
)

// page is the page that the screen shows.
type page uint8

const (
	pageList page = iota
	pageLock
	pageHelp
)

// prompt is the question in the last line but one.
type prompt uint8

const (
	promptNone prompt = iota
	promptFilter
	promptReason
	promptSure
)

// Model is the state of lockd top. One goroutine calls its methods.
type Model struct {
	Interval time.Duration // between polls
	Count    int           // of locks that are asked for

	page   page
	under  page // the page that help was asked for on
	order  Order
	filter string // as it was typed
	prompt prompt
	typed  string // into the prompt

	rows   []row // as they are shown
	cursor int
	marked string // the key under the cursor, which it stays at
	offset int    // the first row, or line of a lock's page, that is shown

	lock   string // of pageLock
	detail Detail
	known  bool // detail describes this lock

	target target
	said   string // what there is to say, until the next key
	forced bool   // the answer to a force is waited for

	last   Snapshot // the last one that came through
	missed error    // why the newest poll did not come through
	churn  map[string]*churn

	height int // of the part that scrolls, when it was drawn last
}

// row is a lock as it is listed.
type row struct {
	lock  locks.Lock
	churn float64 // events a second
	gone  bool    // no holder now; the lock is listed for its churn
}

// churn measures how often a lock changes hands.
type churn struct {
	rate float64 // events a second, the newer ones counting for more
	seen bool    // it was held in the last snapshot
	lock locks.Lock
}

// New returns a model without locks.
func New(interval time.Duration, count int) *Model {
	return &Model{Interval: interval, Count: count, churn: map[string]*churn{}}
}

// Ask describes the next request to a server.
type Ask struct {
	Match  string // a pattern; "": all locks
	Waited bool   // only locks that somebody waits for
	Count  int
	Lock   string // the lock whose page is shown
	Open   bool   // there is such a page
}

// Ask returns the next request. If the cluster has more locks than the request covers, orders in which locks without
// waiters come last omit those locks.
func (m *Model) Ask() Ask {
	a := Ask{Match: pattern(m.filter), Count: m.Count, Lock: m.lock, Open: m.lockOpen()}
	a.Waited = m.order == ByWaiters && m.last.Ask.Match == a.Match && (m.last.cut() || m.last.Ask.Waited)
	return a
}

// lockOpen reports whether a lock's page is shown, or lies under the help.
func (m *Model) lockOpen() bool {
	return m.page == pageLock || m.page == pageHelp && m.under == pageLock
}

// pattern is the pattern of a filter: what is typed without * or ? may stand anywhere in a key.
func pattern(filter string) string {
	if filter == "" || strings.ContainsAny(filter, "*?") {
		return filter
	}
	return "*" + strings.NewReplacer(`\`, `\\`, `[`, `\[`).Replace(filter) + "*"
}

// Snapshot is the answer of a server.
type Snapshot struct {
	Ask    Ask
	At     time.Time     // of this machine, when it was asked
	Took   time.Duration // until all was answered
	Addr   string        // of the node
	Locks  []locks.Lock
	Detail Detail // of Ask.Lock
	Flags  []Flag // of LOCKS DOCTOR
}

// Detail is the detailed state of one lock.
type Detail struct {
	Info    *locks.Info // nil: it is no lock
	History locks.History
}

// Flag is a finding of LOCKS DOCTOR about some locks.
type Flag struct {
	Pattern string // of their keys
	Said    string
}

// cut reports whether there may be more locks than the snapshot has.
func (s *Snapshot) cut() bool { return s.Ask.Count > 0 && len(s.Locks) >= s.Ask.Count }

// Missed records that no server answered, or that one refused.
func (m *Model) Missed(err error) { m.missed = err }

// Update takes in a snapshot.
func (m *Model) Update(s Snapshot) {
	if m.last.Addr != "" && s.Addr != m.last.Addr {
		m.said = m.last.Addr + " does not answer any more: " + s.Addr + " does"
	}
	m.count(&s)
	m.last, m.missed = s, nil
	if s.Ask.Open && s.Ask.Lock == m.lock {
		m.detail, m.known = s.Detail, true
	}
	m.arrange()
}

// churnMemory is the period over which changes of hands are counted; churnLeast is the rate from which a lock without
// a holder stays listed.
const (
	churnMemory = 10 * time.Second
	churnLeast  = 0.02
)

// count compares a snapshot with the previous one and counts new holders and former holders.
func (m *Model) count(s *Snapshot) {
	passed := s.At.Sub(m.last.At)
	alike := m.last.Addr != "" && passed > 0 &&
		s.Ask.Match == m.last.Ask.Match && s.Ask.Waited == m.last.Ask.Waited
	if !alike {
		m.churn = map[string]*churn{}
	}
	fade := math.Exp(-passed.Seconds() / churnMemory.Seconds())
	now := make(map[string]*locks.Lock, len(s.Locks))
	for i := range s.Locks {
		now[s.Locks[i].Key] = &s.Locks[i]
	}
	for key, c := range m.churn {
		events := 0
		lock := now[key]
		switch {
		case lock != nil:
			if c.seen {
				events = changes(&c.lock, lock)
			} else {
				events = len(lock.Holders)
			}
			c.lock = *lock
		case c.seen && !s.cut() && !m.last.cut():
			events = len(c.lock.Holders)
		}
		c.seen = lock != nil
		c.rate = c.rate*fade + float64(events)*(1-fade)/passed.Seconds()
		if !c.seen && c.rate < churnLeast {
			delete(m.churn, key)
		}
	}
	for key, lock := range now {
		if m.churn[key] == nil {
			c := &churn{seen: true, lock: *lock}
			if alike && !s.cut() && !m.last.cut() {
				c.rate = float64(len(lock.Holders)) * (1 - fade) / passed.Seconds()
			}
			m.churn[key] = c
		}
	}
}

// changes returns how many holders gained or lost the lock between two snapshots. A holder that came and went in
// between is not seen.
func changes(before, now *locks.Lock) (n int) {
	has := func(holders []locks.Holder, h locks.Holder) bool {
		return slices.ContainsFunc(holders, func(o locks.Holder) bool {
			return o.Fence == h.Fence && o.Token == h.Token
		})
	}
	for _, h := range before.Holders {
		if !has(now.Holders, h) {
			n++
		}
	}
	for _, h := range now.Holders {
		if !has(before.Holders, h) {
			n++
		}
	}
	return n
}

// arrange sorts what is listed, and keeps the cursor at its lock.
func (m *Model) arrange() {
	m.rows = m.rows[:0]
	for _, l := range m.last.Locks {
		r := row{lock: l}
		if c := m.churn[l.Key]; c != nil {
			r.churn = c.rate
		}
		m.rows = append(m.rows, r)
	}
	if m.order == ByChurn {
		for key, c := range m.churn {
			if !c.seen {
				m.rows = append(m.rows, row{lock: locks.Lock{Key: key}, churn: c.rate, gone: true})
			}
		}
	}
	slices.SortStableFunc(m.rows, func(a, b row) int {
		first := 0
		switch m.order {
		case ByWaiters:
			first = cmp.Compare(b.lock.Waiters, a.lock.Waiters)
		case ByChurn:
			first = cmp.Compare(b.churn, a.churn)
		}
		return cmp.Or(first, cmp.Compare(show.Held(&b.lock), show.Held(&a.lock)), cmp.Compare(a.lock.Key, b.lock.Key))
	})
	if at := slices.IndexFunc(m.rows, func(r row) bool { return r.lock.Key == m.marked }); at >= 0 && m.cursor > 0 {
		m.cursor = at // at the top it stays at the top, where the worst is
	}
	m.mark(m.cursor)
}

// mark moves the cursor.
func (m *Model) mark(at int) {
	m.cursor = max(0, min(at, len(m.rows)-1))
	m.marked = ""
	if len(m.rows) > 0 {
		m.marked = m.rows[m.cursor].lock.Key
	}
}
