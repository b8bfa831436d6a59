package model

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"lockd/jepsen-lite/history"
)

// wakeBound bounds the delay of a message without a fault.
const wakeBound = int64(2 * time.Second)

// subscription is one subscription, from its confirmation until its connection ended.
type subscription struct {
	process     int
	key         string
	start       *history.Op
	from, until int64
	heard       map[string]*history.Op
	order       []string
}

// WakeUp judges published messages: publish message = receivers; count-publish message = its number on the channel,
// without gaps. A subscriber's process records listen = OK, message = text and its number, and cut when its connection
// ended. A subscriber gets every acknowledged message, or is disconnected; in one order for all; and nothing that was
// not sent.
func WakeUp(h *history.History) *Verdict {
	v := &Verdict{}
	subs := subscriptionsOf(v, h)
	sent := map[string]*history.Op{}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "publish" || o.Name == "count-publish" {
			sent[o.In[0]] = o
		}
	}
	for _, e := range subs {
		v.Stake(ruleHeardOnce, len(e.heard))
		e.gaps(v, sent)
		for text, o := range e.heard {
			if p := sent[text]; p == nil || p.Start > o.End || p.Outcome == history.Fail {
				v.Add("never published", o, "nobody sent it, or it was refused")
			}
		}
		for text, p := range sent {
			if p.Key == e.key && p.OK() && p.Start > e.from {
				e.missed(v, h, p, e.heard[text])
			}
		}
	}
	orders(v, subs)
	holes(v, ruleMissed, subs, func(text string) *history.Op { return sent[text] })
	v.Note("%d subscriptions, %d messages", len(subs), len(sent))
	return v
}

// subscriptionsOf finds the subscriptions and their messages.
func subscriptionsOf(v *Verdict, h *history.History) (subs []*subscription) {
	open := map[int]*subscription{}
	for i := range h.Ops {
		o := &h.Ops[i]
		e := open[o.Process]
		switch {
		case o.Name == "listen" && o.OK():
			e = &subscription{
				process: o.Process,
				key:     o.Key,
				start:   o,
				from:    o.End,
				until:   h.End,
				heard:   map[string]*history.Op{},
			}
			open[o.Process] = e
			subs = append(subs, e)
		case o.Name == "cut" && e != nil:
			e.until = o.Start
			delete(open, o.Process)
		case o.Name == "message" && e != nil:
			e.hear(v, o)
		}
	}
	return subs
}

func (e *subscription) hear(v *Verdict, o *history.Op) {
	text := o.Out[0]
	if e.heard[text] != nil {
		v.Add("heard twice", o, "%s", e.heard[text])
		return
	}
	e.heard[text] = o
	e.order = append(e.order, text)
}

// gaps checks that the numbers of the messages follow each other, and begin before those of messages that were sent
// after the subscription.
func (e *subscription) gaps(v *Verdict, sent map[string]*history.Op) {
	first, before := int64(0), int64(0)
	for _, text := range e.order {
		o := e.heard[text]
		if len(o.Out) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(o.Out[1], 10, 64)
		p := sent[text]
		numbered := p != nil && p.OK()
		if numbered || first > 0 {
			v.Stake(ruleMissed, 1)
		}
		switch {
		case numbered && p.Out[0] != o.Out[1]:
			v.Add("wrong number", o, "%s", p)
		case first == 0:
			first = n
		case n > before+1:
			v.Add("missed", o, "before it, number %d was the last that process %d heard", before, e.process)
		case n <= before:
			v.Add("order differs", o, "number %d came before it", before)
		}
		before = n
	}
	for _, text := range slices.Sorted(maps.Keys(sent)) {
		p := sent[text]
		if p.Name != "count-publish" || !p.OK() || p.Key != e.key || p.Start < e.from || e.heard[text] != nil {
			continue
		}
		if n, err := strconv.ParseInt(p.Out[0], 10, 64); err == nil && n < first {
			v.Add("missed", p, "process %d had listened since %s, and number %d was the first that it heard", e.process,
				e.start, first)
		}
	}
}

// listened reports whether the subscription lasted until a message had to arrive.
func (e *subscription) listened(h *history.History, due int64) bool {
	return e.until >= due && h.End > due
}

// dueAt returns when a message that was published at a moment must have arrived: wakeBound later, not counting
// disturbed times.
func dueAt(h *history.History, moment int64) int64 {
	due := moment + wakeBound
	for more := int64(1); more > 0; due += more {
		more = moment + wakeBound + h.Disturbed(moment, due, settleTime) - due
	}
	return due
}

// missed judges one message that was acknowledged during the subscription.
func (e *subscription) missed(v *Verdict, h *history.History, p, heard *history.Op) {
	due := dueAt(h, p.End)
	if heard != nil || e.listened(h, due) {
		v.Stake(ruleWoken, 1)
	}
	switch {
	case heard == nil && e.listened(h, due):
		v.Add("not woken", p, "process %d listened since %s, was not cut off, and did not hear it", e.process, e.start)
	case heard != nil && heard.Start > due:
		v.Add("woken late", heard, "%.3f s after %s", float64(heard.Start-p.End)/1e9, p)
	}
}

// orders checks that any two subscribers got their common messages in the same order.
func orders(v *Verdict, subs []*subscription) {
	places := make([]map[string]int, len(subs))
	for i, e := range subs {
		places[i] = map[string]int{}
		for place, text := range e.order {
			places[i][text] = place
		}
	}
	for i, a := range subs {
		for j, b := range subs[i+1:] {
			if a.key != b.key || a.from > b.until || b.from > a.until {
				continue
			}
			last, at := -1, ""
			for _, text := range a.order {
				place, ok := places[i+1+j][text]
				if !ok {
					continue
				}
				if last >= 0 {
					v.Stake(ruleMessages, 1)
				}
				if place < last {
					v.Add("order differs", b.heard[text], "process %d heard %s before it, process %d after it",
						a.process, at, b.process)
					break
				}
				last, at = place, text
			}
		}
	}
}

// holes checks that no subscriber misses a message that others got before one that it got, if it had subscribed before
// the cause of the message was sent; cause may return nil. It needs no bound on time.
func holes(v *Verdict, rule *Rule, subs []*subscription, cause func(text string) *history.Op) {
	for _, e := range subs {
		missed := map[string]bool{}
		for _, other := range subs {
			if other == e || other.key != e.key || other.from > e.until || e.from > other.until {
				continue
			}
			last := len(other.order) - 1
			for last >= 0 && e.heard[other.order[last]] == nil {
				last--
			}
			for _, text := range other.order[:max(last, 0)] {
				c := cause(text)
				if c == nil || c.Start <= e.from {
					continue
				}
				v.Stake(rule, 1)
				if e.heard[text] == nil && !missed[text] {
					missed[text] = true
					v.Add("missed", e.heard[other.order[last]],
						"before it, process %d heard %s, of %s, and process %d did not", other.process, text, c,
						e.process)
				}
			}
		}
	}
}

// Waiters judges locks whose losers wait. acquire token ms = OK | nil left owner has a token of its own for each try,
// and tells how long the lock may still be held, and by which token. release token = 1 | 0 publishes. wait left owner =
// woken | timeout | cut | left is a wait of a process that subscribed before the try. The promises of Lock hold, too.
//
// No waiter sleeps longer than the lease that it was told, nor through a release; and the told lease is the rest of
// the owner's.
//
// Locks of libraries have keys of their own, each with one holder and one waiter: seek token ms = taken, or the time
// that is left; wait, or doze ms = woken | timeout in a blocking command; end way ms = 1 when the lock will have ended
// so much later, in whichever way.
func Waiters(h *history.History) *Verdict {
	v := Lock(h)
	clock := newLogClock(h, func(o *history.Op) bool { return o.Name == "acquire" || o.Name == "release" })
	owners := map[string]*history.Op{}
	releases, ends := map[string][]*history.Op{}, map[string]*history.Op{}
	waits := map[string]int{}
	for i := range h.Ops {
		o := &h.Ops[i]
		switch {
		case o.Name == "acquire":
			owners[o.In[0]] = o
		case o.Name == "release" && o.OK() && o.Out[0] == "1":
			releases[o.Key] = append(releases[o.Key], o)
		case o.Name == "end" && o.OK():
			ends[o.Key] = o
		}
	}
	for i := range h.Ops {
		switch o := &h.Ops[i]; {
		case !o.OK():
		case ends[o.Key] != nil && (o.Name == "wait" || o.Name == "doze"):
			wokenByLibrary(v, h, o, ends[o.Key])
		case o.Name == "acquire" && o.Out[0] == "nil":
			toldRight(v, clock, o, owners[o.Out[2]])
		case o.Name == "wait":
			waits[o.Out[0]]++
			slept(v, h, o, releases[o.Key])
		}
	}
	v.Note("%d waits were ended by a release, %d by their time, %d by a broken connection",
		waits["woken"], waits["timeout"], waits["cut"])
	return v
}

// toldRight judges the lease that a try was told.
func toldRight(v *Verdict, clock *logClock, o, owner *history.Op) {
	v.Stake(ruleToldLong, 1)
	v.Stake(ruleToldLease, 1)
	told, err := strconv.ParseInt(o.Out[1], 10, 64)
	told *= msNs
	switch {
	case err != nil || told < 0:
		v.Add("told nonsense", o, "the lock is held, and has a lease")
		return
	case owner == nil || owner.Start > o.End || owner.Outcome == history.Fail:
		v.Add("lock held by the wrong one", o, "%s never tried to take it", o.Out[2])
		return
	}
	lease := millis(owner.In[1])
	most := lease
	if owner.OK() {
		most = min(most, owner.End+lease+clock.lostMax(owner.Start, o.Start)-o.Start)
	}
	if told > max(most, 0)+expiryBound {
		v.Add("told too long", o, "%d ms are left at most of the lease taken in %s", max(most, 0)/msNs, owner)
	}
	if least := lease - clock.ranMax(owner.Start, o.End); owner.OK() && told+msNs < least {
		v.Add("told too short", o, "%d ms are left at least of the lease taken in %s", least/msNs, owner)
	}
}

// slept judges one wait.
func slept(v *Verdict, h *history.History, o *history.Op, releases []*history.Op) {
	v.Stake(ruleSleep, 1)
	if told := millis(o.In[0]); o.End > o.Start+told+wakeBound {
		v.Add("overslept", o, "it was told %s ms", o.In[0])
	}
	for _, r := range releases { // in the order of their starts
		if r.Start <= o.Start {
			continue
		}
		if r.Start < o.End {
			v.Stake(ruleWoken, 1)
		}
		if o.End > dueAt(h, r.End) {
			v.Add("not woken", o, "it slept through %s", r)
		}
		return
	}
}

// ruleLibrary is judged at locks that end otherwise than by the library's own release, too.
var ruleLibrary = lateRule("library-is-woken",
	"Whatever ends a lock of Redisson's or of python-redis-lock's wakes the client that waits for it.",
	"left asleep", "waiters", quietly(1, 10*time.Second)).
	judging("libraries-are-woken")

// wokenByLibrary judges the sleep of a client for whose lock a library's message comes. Without a fault its connection
// is whole, and the message arrives.
func wokenByLibrary(v *Verdict, h *history.History, o, end *history.Op) {
	ended := end.End + millis(end.In[1])
	due := ended + wakeBound
	if end.Out[0] != "1" || end.Start < o.Start+settledIn/2 || o.Out[0] == "cut" || o.Start+millis(o.In[0]) < due ||
		o.End < end.Start || h.Disturbed(o.Start, due, settleTime) > 0 {
		return
	}
	v.Stake(ruleLibrary, 1)
	if o.End > due {
		v.Add("left asleep", o, "its lock has ended by %s", end)
	}
}
