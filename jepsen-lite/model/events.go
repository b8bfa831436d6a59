package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// leased is a key that one worker sets once, and may renew and delete.
type leased struct {
	set   *history.Op
	until []*history.Op // the operations from one of which the lease counts
	must  bool          // it certainly ends by itself
	never bool          // it certainly does not
	high  int64         // it ends before, if a node leads all the time
}

// Events judges the messages about ended leases: set ms = OK; renew ms = 1 | 0; del = 1 | 0. Each key is used by one
// worker. The end of a key is published once, not before its time, to all who subscribed in time and stay connected, in
// one order for all. The end by DEL is not published.
func Events(h *history.History) *Verdict {
	v := &Verdict{}
	clock := newLogClock(h, func(*history.Op) bool { return false }) // only its halts count
	keys := leasesOf(h)
	subs := subscriptionsOf(v, h)
	told := 0
	for _, e := range subs {
		told += len(e.heard)
		v.Stake(ruleEndEarly, len(e.heard))
		for key, o := range e.heard {
			keys[key].event(v, clock, o)
		}
		for _, k := range keys {
			k.untold(v, h, e)
			if k.never && e.from < k.set.Start && e.until > k.set.Told {
				v.Stake(ruleNoEnd, 1)
			}
		}
		skipped(v, keys, e)
	}
	orders(v, subs)
	holes(v, ruleNoEndMissed, subs, func(key string) *history.Op {
		if k := keys[key]; k != nil {
			return k.set
		}
		return nil
	})
	v.Note("%d subscriptions, %d keys, %d messages about ended leases", len(subs), len(keys), told)
	return v
}

// leasesOf collects the keys of a history.
func leasesOf(h *history.History) map[string]*leased {
	keys := map[string]*leased{}
	for i := range h.Ops {
		o := &h.Ops[i]
		k := keys[o.Key]
		switch {
		case o.Name == "set":
			k = &leased{set: o, until: []*history.Op{o}, must: o.OK(), never: o.Outcome == history.Fail}
			if o.OK() {
				k.high = o.End + millis(o.In[0])
			}
			keys[o.Key] = k
		case k != nil && o.Name == "renew":
			k.renew(o)
		case k != nil && o.Name == "del":
			k.never = k.never || o.OK() && o.Out[0] == "1"
			k.must = k.must && o.Outcome != history.Info && !k.never
		}
	}
	return keys
}

// renew restarts the lease. If the outcome of the renewal is unknown, it may have happened at any moment before the end
// of the key.
func (k *leased) renew(o *history.Op) {
	ttl := millis(o.In[0])
	switch {
	case o.OK() && o.Out[0] == "1":
		k.until, k.high = []*history.Op{o}, o.End+ttl
	case o.Outcome == history.Info:
		k.until, k.high = append(k.until, o), k.high+ttl
	}
}

// event judges one message.
func (k *leased) event(v *Verdict, clock *logClock, o *history.Op) {
	switch {
	case k == nil || k.set.Start > o.End:
		v.Add("never set", o, "nobody had set that key")
		return
	case k.never:
		v.Add("told of no end", o, "%s was refused, or the key was deleted", k.set)
		return
	}
	left := int64(1) << 62
	for _, from := range k.until {
		left = min(left, millis(from.In[0])-clock.ranMax(from.Start, o.End))
	}
	if left > 0 {
		v.Add("told early", o, "its time counts from %s: %.3f ms are left at least", k.until[len(k.until)-1],
			float64(left)/1e6)
	}
}

// untold judges whether a subscription got the message in time.
func (k *leased) untold(v *Verdict, h *history.History, e *subscription) {
	if !k.must || e.from > k.set.Start {
		return
	}
	due, heard := dueAt(h, k.high), e.heard[k.set.Key]
	if heard != nil || e.listened(h, due) {
		v.Stake(ruleEndTold, 1)
	}
	switch {
	case heard == nil && e.listened(h, due):
		v.Add("not told", k.set, "process %d listened since %s, was not cut off, and was not told of the key's end",
			e.process, e.start)
	case heard != nil && heard.Start > due:
		v.Add("told late", heard, "its time counts from %s: %.3f s late", k.until[len(k.until)-1],
			float64(heard.Start-k.high)/1e9)
	}
}

// skipped checks that a subscription which heard of one end also heard of the earlier ends: of shorter leases that were
// given before the other one was requested. It needs no bound on time.
func skipped(v *Verdict, keys map[string]*leased, e *subscription) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		k := keys[name]
		if !k.must || len(k.until) != 1 || e.from > k.set.Start || e.heard[name] != nil {
			continue
		}
		for _, other := range e.order {
			o := keys[other]
			if o != nil && len(o.until) == 1 && o.until[0].Start > k.until[0].End &&
				millis(o.until[0].In[0]) > millis(k.until[0].In[0]) {
				v.Add("missed", e.heard[other], "the lease of %s had ended before, and process %d was not told of it",
					k.until[0], e.process)
				break
			}
		}
	}
}

// Rules of what lockd tells about locks as it happens.
var (
	ruleLockTold = rule("lock-events-told",
		"A subscriber is told each event of a lock once, as LOCKS HISTORY has it, in its order and without a gap.",
		"told of nothing, heard twice, order differs, missed", "told", each(5, 5*time.Second)).
		judging("told-on-every-node")
	ruleLockSoon = lateRule("lock-events-in-time", "A subscriber is told in time of what was done to a lock.",
		"not told, told late", "told", each(1, 10*time.Second)).
		judging("told-on-every-node")
	ruleWholeTold = rule("whole-database-told",
		"FLUSHDB and SWAPDB are told by one message for the database, without key and token, of which none is missed.",
		"another end told, heard twice, missed", "told", each(1, 10*time.Second)).
		judging("flush-is-one-message")
	ruleLoss = lateRule("loss-told", "A connection that took a lock is told that it has lost it, and why.",
		"loss not told", "told", each(1, 10*time.Second)).
		judging("losses-are-heard")
	ruleLossEach = lateRule("loss-told-to-each",
		"So is each of several connections that have taken it with the token.",
		"loss not told to each", "told", once(1, 20*time.Second)).
		judging("each-connection-is-told")
	ruleForgotten = rule("forgotten-not-told", "After HELLO 2 and RESET a connection is told nothing of the locks that it had.",
		"forgotten lock told", "told", once(1, 20*time.Second)).
		judging("forgotten-by-the-connection")
	ruleLossTrue = rule("loss-told-once",
		"It is told of each loss once, with its cause, and of none that is not there, or that its token wanted.",
		"loss told twice, told of no loss, another loss told", "told", each(1, 5*time.Second)).
		judging("losses-are-heard given-up-is-no-loss")
	ruleExpiring = lateRule("expiring-told-first", "It is told that its lease is about to end before it ends.",
		"end not announced", "told", quietly(1, 10*time.Second)).
		judging("expiring-is-told-once")
	ruleExpiringOnce = rule("expiring-told-once", "It is told so once for a lease, of which a third is left, before the end.",
		"end announced twice, end announced early, announced after the end", "told", each(1, 10*time.Second)).
		judging("expiring-is-told-once")
)

// WholeChannels is the pattern of the channels on which the end of all locks of a database is told.
const WholeChannels = "__lock@*__:"

// Told judges what is told of locks as it happens: the words of Forensics, of which history is asked at the end.
// Subscribers to all locks record listen, message = key event, and cut; those to WholeChannels hear of each end-all
// name FLUSHDB|SWAPDB other = OK, whose key is the database. A client that is told of losses records hello, enter, lost
// key = token fence why, expiring key = token fence milliseconds, perhaps forgot, and cut.
func Told(h *history.History) *Verdict {
	v := &Verdict{}
	pasts, known := pastsOf(h)
	for _, key := range slices.Sorted(maps.Keys(pasts)) {
		pasts[key].join(v, known)
	}
	messages, losses := 0, 0
	for _, e := range subscriptionsOf(v, h) {
		messages += len(e.heard)
		if e.key == WholeChannels {
			e.ofWholes(v, h)
		} else if strings.HasSuffix(e.key, "*") {
			e.ofLocks(v, h, pasts)
		}
	}
	for _, l := range listenersOf(h) {
		losses += len(l.lost)
		if p := pasts[l.took.Key]; len(p.answers) > 0 {
			l.judge(v, h, p)
		}
	}
	v.Note("%d messages about locks, %d about losses", messages, losses)
	return v
}

// ofLocks judges the messages of a subscription to all locks.
func (e *subscription) ofLocks(v *Verdict, h *history.History, pasts map[string]*lockPast) {
	at := map[string]int{} // by key: the place of its last message
	by := map[string]*history.Op{}
	for _, text := range e.order {
		key, event, _ := strings.Cut(text, " ")
		p, o := pasts[key], e.heard[text]
		if p == nil || len(p.answers) == 0 || o.End > p.answers[len(p.answers)-1].o.Start {
			continue // the last answer may lack it
		}
		v.Stake(ruleLockTold, 1)
		id := newPastEvent(event, o).id
		by[key+" "+id] = o
		place := slices.IndexFunc(p.events, func(e *pastEvent) bool { return e.id == id })
		last, heard := at[key]
		at[key] = place
		switch {
		case place < 0:
			v.Add("told of nothing", o, "no answer of LOCKS HISTORY has it")
			delete(at, key)
		case heard && place <= last:
			v.Add("order differs", o, "it is older than the message before it")
		case heard && place > last+1:
			v.Add("missed", o, "before it came %s, and nothing in between", p.events[last].text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pasts)) {
		last, heard := at[key]
		p := pasts[key]
		for i, event := range p.events {
			o := p.named[event.name]
			if o == nil || !o.OK() || o.Start < e.from {
				continue
			}
			due := dueAt(h, o.End)
			if message := by[key+" "+event.id]; message != nil {
				v.Stake(ruleLockSoon, 1)
				if message.Start > due {
					v.Add("told late", message, "%.3f s after %s", sec(message.Start-o.End), o)
				}
			} else if e.listened(h, due) && !(heard && i < last) { // a gap is judged above
				v.Stake(ruleLockSoon, 1)
				v.Add("not told", o, "process %d listened since %s, was not cut off, and was not told: %s", e.process, e.start,
					event.text)
			}
		}
	}
}

// ofWholes judges the messages of a subscription to WholeChannels.
func (e *subscription) ofWholes(v *Verdict, h *history.History) {
	ends := map[string]*history.Op{} // by name
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "end-all" {
			ends[o.In[0]] = o
		}
	}
	var last *history.Op // of those that it heard of: the one that was requested last
	for _, text := range e.order {
		o, w := e.heard[text], strings.Split(text, "|")
		by := ends[w[0]]
		v.Stake(ruleWholeTold, 1)
		switch {
		case by == nil || !by.Maybe() || by.Start > o.End || !isWhole(by, w[1:]):
			v.Add("another end told", o, "that was %v", by)
		case last == nil || by.Start > last.Start:
			last = by
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ends)) {
		o := ends[name]
		if !o.OK() || o.Start < e.from {
			continue
		}
		due := dueAt(h, o.End)
		switch message := e.heard[strings.Join([]string{name, o.Key, wholeEnds[o.In[1]]}, "|")]; {
		case message != nil && message.Start > due:
			v.Add("told late", message, "%.3f s after %s", sec(message.Start-o.End), o)
		case message != nil:
			v.Stake(ruleLockSoon, 1)
		case last != nil && o.End < last.Start:
			v.Add("missed", o, "process %d was told of %s, and not of this", e.process, last)
		case e.listened(h, due):
			v.Add("not told", o, "process %d listened since %s, was not cut off, and was not told", e.process, e.start)
		}
	}
}

// wholeEnds are the events of what ends all locks of a database.
var wholeEnds = map[string]string{"FLUSHDB": "flushed", "SWAPDB": "swapped"}

// isWhole reports whether words, a database and an event, tell of an end, and of nothing more.
func isWhole(end *history.Op, words []string) bool {
	return len(words) == 2 && (words[0] == end.Key || words[0] == end.In[2]) && words[1] == wholeEnds[end.In[1]]
}

// listener is a client that took a lock and is told of its loss.
type listener struct {
	took           *history.Op
	fence          int64
	until          int64 // it listened so long
	forgot         int64 // when its connection had forgotten the lock; until: not before
	together       int   // so many clients took the lock with that fence
	lost, expiring []*history.Op
}

// listenersOf finds the clients that are told of losses.
func listenersOf(h *history.History) (all []*listener) {
	speaks, open := map[int]bool{}, map[int]*listener{} // by process
	together := map[int64]int{}                         // by fence
	for i := range h.Ops {
		o := &h.Ops[i]
		l := open[o.Process]
		switch {
		case o.Name == "hello":
			speaks[o.Process] = o.OK()
		case o.Name == "enter" && speaks[o.Process]:
			if fence, ok := fenceOf(o); ok {
				l = &listener{took: o, fence: fence, until: h.End, forgot: h.End}
				open[o.Process] = l
				all = append(all, l)
				together[fence]++
			}
		case l == nil:
		case o.Name == "cut":
			l.until = o.Start
			delete(open, o.Process)
		case o.Name == "forgot":
			l.forgot = o.Start
		case o.Name == "lost":
			l.lost = append(l.lost, o)
		case o.Name == "expiring":
			l.expiring = append(l.expiring, o)
		}
	}
	for _, l := range all {
		l.together = together[l.fence]
	}
	return all
}

// afterForgetting reports the pushes that came when the connection had forgotten its lock, and leaves the others.
func (l *listener) afterForgetting(v *Verdict, pushes []*history.Op) []*history.Op {
	return slices.DeleteFunc(pushes, func(o *history.Op) bool {
		if o.Start > l.forgot {
			v.Add("forgotten lock told", o, "it took %s, and forgot it at %.3f s", l.took, sec(l.forgot))
		}
		return o.Start > l.forgot
	})
}

// judge judges what a client was told.
func (l *listener) judge(v *Verdict, h *history.History, p *lockPast) {
	l.lost, l.expiring = l.afterForgetting(v, l.lost), l.afterForgetting(v, l.expiring)
	end := l.endOf(p, l.fence)
	leases, longest, over := 0, int64(0), int64(0) // over: when the last one can have ended
	for _, o := range p.of[l.took.In[0]] {
		if o.Maybe() && (o.Name == "enter" || o.Name == "renew") {
			leases++
			if h.Disturbed(o.Start, o.End, settleTime) > 0 && mayAskAgain(o) { // granted again, since the answer was late
				leases += 1 + int((o.Told-o.Start)/againTime)
			}
			longest, over = max(longest, millis(o.In[1])), max(over, latest(h, o)+millis(o.In[1]))
		}
	}
	if len(l.lost) > 0 || end != nil {
		v.Stake(ruleLossTrue, 1)
	}
	told := map[int64]*history.Op{} // by fence
	for _, o := range l.lost {
		if fence, _ := strconv.ParseInt(o.Out[1], 10, 64); l.isTrue(v, p, o, fence, told[fence]) {
			told[fence] = o
		}
	}
	l.announced(v, h, end, told[l.fence], leases, longest)
	if end == nil || isWanted(end) {
		return
	}
	if o := p.named[end.name]; o != nil && end.name != "" {
		over = latest(h, o)
	}
	kind := "loss not told"
	if l.together > 1 {
		kind = "loss not told to each"
	}
	switch due := dueAt(h, max(over, l.took.End)); {
	case told[l.fence] != nil:
		v.Stake(ruleLoss, 1)
		if l.together > 1 {
			v.Stake(ruleLossEach, 1)
		}
	case l.forgot < over && over+settledIn < l.until:
		v.Stake(ruleForgotten, 1)
	case l.until < due || l.forgot < due || h.End <= due:
	default:
		v.Stake(ruleLoss, 1)
		v.Add(kind, l.took, "it listened until %.3f s, and the lock had an end: %s", sec(l.until), end.text)
	}
}

// endOf returns how the token lost the lock that it had with a fence; nil: not at all.
func (l *listener) endOf(p *lockPast, fence int64) *pastEvent {
	i := slices.IndexFunc(p.events, func(e *pastEvent) bool {
		return e.ends() && e.fence == fence && e.token == l.took.In[0]
	})
	if i < 0 {
		return nil
	}
	return p.events[i]
}

// isWanted reports whether a lock was released by a command that compares the token, which no holder is told of.
func isWanted(end *pastEvent) bool {
	return end.kind == "released" && !strings.HasSuffix(end.by, " in a script")
}

// isTrue judges one push about a loss, if the last answer about the lock can tell of it, and reports whether there was
// one.
func (l *listener) isTrue(v *Verdict, p *lockPast, o *history.Op, fence int64, before *history.Op) bool {
	end := l.endOf(p, fence)
	switch {
	case o.Start > p.answers[len(p.answers)-1].o.Start:
		return false
	case before != nil:
		v.Add("loss told twice", o, "%s", before)
	case o.Out[0] != l.took.In[0] || fence != l.fence:
		v.Add("told of no loss", o, "it took %s", l.took)
	case end == nil || isWanted(end) || p.named[end.name] != nil && p.named[end.name].Start > o.End:
		v.Add("told of no loss", o, "the lock that it took by %s had not been taken from it", l.took)
	case o.Out[2] != end.kind && o.Out[2] != "unknown":
		v.Add("another loss told", o, "that was %s", end.text)
		return true
	default:
		return true
	}
	return false
}

// announced judges the announcements to a client that its leases are about to end. lost is the report of the loss to
// the client; nil: there was none.
func (l *listener) announced(v *Verdict, h *history.History, end *pastEvent, lost *history.Op, leases int, longest int64) {
	n := 0
	for _, o := range l.expiring {
		if o.Out[1] != strconv.FormatInt(l.fence, 10) {
			continue // of a grant that it was not told of
		}
		v.Stake(ruleExpiringOnce, 1)
		switch n++; {
		case n > leases:
			v.Add("end announced twice", o, "the lock had %d leases", leases)
		case 3*millis(o.Out[2]) > longest:
			v.Add("end announced early", o, "no lease was longer than %.3f s", sec(longest))
		case lost != nil && o.Start > lost.Start:
			v.Add("announced after the end", o, "%s", lost)
		}
	}
	if end == nil || end.kind != "expired" || lost == nil || h.Disturbed(l.took.Start, lost.End, settleTime) > 0 {
		return
	}
	v.Stake(ruleExpiring, 1)
	if n == 0 {
		v.Add("end not announced", lost, "the lease that it took by %s ended", l.took)
	}
}
