package model

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"lockd/jepsen-lite/history"
)

const msNs = int64(1e6)

// lease is the state of a lock that one owner holds for some time, as bounds. By real time a lease lasts at least from
// before its request was sent for its length. By the log clock it ends exactly, as far as the log clock of its grant is
// known.
type lease struct {
	owner string // "": the lock is free
	count int    // of a reentrant lock
	fence int64  // 0: not known yet
	until int64  // the lease has not ended before
	now   int64  // the last operation took effect no earlier
	ends  deadline
	tick  int64 // log clock of the last write, at least
	gone  int64 // since then the lock may be taken back, since its client is gone; 0: it may not
}

// given returns the lease after o has set it, at a log clock no later than latest.
func (s lease) given(o *history.Op, latest int64) lease {
	s.until = o.Start + millis(o.In[1])
	s.ends = deadlineAfter(s.tick, latest, millis(o.In[1]))
	return s
}

// released returns the lease of a lock that was released.
func (s lease) released() lease { return lease{now: s.now, tick: s.tick} }

// moment bounds the log clock of an operation.
type moment struct {
	from, to int64 // between these
	passed   int64 // log clock of the state that the operation saw, at least
	logged   bool  // the operation is an entry; entries are in the order of the log clock
}

// possible returns the states in which o may take effect: the present one, and a free lock if o may be after the end of
// the lease.
func (s lease) possible(o *history.Op, at moment) []lease {
	s.now = max(s.now, o.Start)
	if at.logged {
		s.tick = max(s.tick, at.from)
	}
	if s.now > o.End || at.logged && s.tick > at.to {
		return nil
	}
	if s.owner == "" {
		return []lease{s}
	}
	var states []lease
	if !s.ends.isOver(max(at.passed, s.tick)) {
		states = append(states, s)
	}
	if o.End >= s.until && s.ends.mayBeOver(at.to) {
		free := lease{now: max(s.now, s.until), tick: s.tick}
		if at.logged {
			free.tick = max(s.tick, s.ends.from+clockGrain)
		}
		states = append(states, free)
	}
	if s.gone != 0 && o.End >= s.gone {
		states = append(states, lease{now: max(s.now, s.gone), tick: s.tick})
	}
	return states
}

// told narrows the lease by a script's answer about its remaining time and its holder, if o has one. ok is false if the
// answer contradicts the lease.
func (s lease) told(o *history.Op, at moment) (as lease, ok bool) {
	if !o.OK() || len(o.Out) != 4 {
		return s, true
	}
	left, who := o.Out[leftWord], o.Out[whoWord]
	if s.owner == "" {
		return s, (left == "-2" || left == "") && (who == "nil" || who == "")
	}
	if ok = who == s.owner || who == ""; ok && left != "" {
		s.ends, _, ok = s.ends.narrowed(left, at.from, at.to)
	}
	return s, ok
}

// leaseCovers reports whether lease a allows all that b allows: times are bounds, and wider ones allow more.
func leaseCovers(a, b any) bool {
	l, than := a.(lease), b.(lease)
	if l.now > than.now || l.until > than.until || l.tick > than.tick ||
		l.ends.from > than.ends.from || l.ends.to < than.ends.to {
		return false
	}
	l.now, l.until, l.tick, l.ends = than.now, than.until, than.tick, than.ends
	return l == than
}

// lockKind is a kind of lock with leases.
type lockKind struct {
	rule    *Rule // at stake with each answer; nil: see holdings.go
	kind    string
	ops     []string // names of its operations
	writes  []string // the operations that go through the log, which proves a leader
	leasing leasing
	// step is the step of a machine without time. A lease that o sets is given at a log clock no later than latest.
	step func(s lease, o *history.Op, latest int64) (next lease, out string)
	name func(o *history.Op) string // the promise that an answer breaks if no order explains it
}

// judge judges the locks of a history: exactly by the log clock, as far as scripts have told it, and by real time.
func (k *lockKind) judge(v *Verdict, h *history.History) {
	t := k.clock(v, h)
	linearizable(v, h, k.machine(t))
	overlong(v, h, k)
	for _, s := range t.seen {
		if s.op.Out[leftWord] != "-2" {
			v.Stake(ruleByClock, 1) // there is a lease
		}
	}
}

// clock returns the bounds of the log clock in the history, or no bounds if it is not sound.
func (k *lockKind) clock(v *Verdict, h *history.History) *ticks {
	if t := newTicks(h, k.writes...); t.judge(v) {
		return t
	}
	return &ticks{}
}

// picture returns the machine for Picture.
func (k *lockKind) picture(h *history.History) machine { return k.machine(k.clock(&Verdict{}, h)) }

// machine returns the specification for a history with these bounds of the log clock.
func (k *lockKind) machine(t *ticks) machine {
	moments := map[*history.Op]moment{}
	for _, s := range t.seen {
		moments[s.op] = k.moment(t, s.op)
	}
	return machine{
		rule:   k.rule,
		kind:   k.kind,
		ops:    k.ops,
		init:   lease{tick: math.MinInt64 / 2},
		reads:  func(o *history.Op) bool { return !slices.Contains(k.writes, o.Name) },
		covers: leaseCovers,
		name:   func(ops []*history.Op, o *history.Op) string { return k.broken(t, ops, o) },
		step: func(state any, o *history.Op, horizon int64) []any {
			at, known := moments[o]
			if !known {
				at = k.moment(t, o)
			}
			return k.next(state.(lease), o, at, horizon)
		},
	}
}

// moment returns the bounds of the log clock of an operation.
func (k *lockKind) moment(t *ticks, o *history.Op) moment {
	from, to := t.during(o)
	return moment{from, to, t.passed(o), slices.Contains(k.writes, o.Name) && !refused(o)}
}

// refused reports whether o is a plain SET NX, or a LOCK without WAIT, that found the lock held: it may have been a
// read.
func refused(o *history.Op) bool {
	return o.OK() && (o.Name == "acquire" || o.Name == "try") && len(o.Out) == 1 && o.Out[0] == absent
}

// next lists the states after o. An operation of unknown outcome may never happen, and need not be tried later than
// horizon, after which nothing was seen.
func (k *lockKind) next(state lease, o *history.Op, at moment, horizon int64) []any {
	var next []any
	if !o.OK() {
		next = append(next, state)
	}
	for _, s := range state.possible(o, at) {
		latest := at.to
		if s.owner != "" {
			latest = min(latest, s.ends.to)
		}
		n, out := k.step(s, o, latest)
		if o.OK() && o.Out[0] != out || !o.OK() && (n == s || n.now > horizon) {
			continue
		}
		if n, ok := n.told(o, at); ok && !slices.Contains(next, any(n)) {
			next = append(next, n)
		}
	}
	return next
}

// Words of a result that tells the log clock.
const (
	leftWord = 1 // remaining time of the lease
	whoWord  = 2 // the holder
)

// broken names what is wrong with o, the last of these operations, which no order explains: it finds the part of the
// answers without which there would be an order.
func (k *lockKind) broken(t *ticks, ops []*history.Op, o *history.Op) string {
	explained := func(t *ticks, ops []*history.Op) bool {
		return k.machine(t).search(ops, decideMax/4) == porcupine.Ok
	}
	only := func(p *history.Op) bool { return p == o }
	all := func(*history.Op) bool { return true }
	switch {
	case explained(t, forget(ops, whoWord, only)):
		return "lock held by the wrong one"
	case explained(t, forget(ops, leftWord, all)): // of o, or of an answer before it
		return "wrong remaining time"
	case !explained(&ticks{}, ops):
		return k.name(o)
	case k.leasing.shows(o):
		return "ended late"
	}
	return "ended early"
}

// forget returns the operations without one word of some answers.
func forget(ops []*history.Op, word int, which func(o *history.Op) bool) []*history.Op {
	left := slices.Clone(ops)
	for i, o := range left {
		if o.OK() && len(o.Out) == 4 && which(o) {
			less := *o
			less.Out = slices.Clone(o.Out)
			less.Out[word] = ""
			left[i] = &less
		}
	}
	return left
}

// millis returns a text of milliseconds in ns.
func millis(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n * msNs
}

// plainLock: acquire token ms = OK | nil; renew token ms = 1 | 0; release token = 1 | 0; holder = token | nil; fence =
// number | nil. All but fence may also tell the remaining time, the holder (lease.told), and the log clock in ms.
var plainLock = &lockKind{
	kind:    "lock",
	ops:     []string{"acquire", "renew", "release", "holder", "fence"},
	writes:  []string{"acquire", "renew", "release"},
	leasing: lockLeasing,
	step:    lockStep,
	name:    lockBroken,
}

// LockMachine is the machine of Lock, for Picture.
var LockMachine = Machine{plainLock.picture}

// lockStep is the step of plainLock.
func lockStep(s lease, o *history.Op, latest int64) (lease, string) {
	switch o.Name {
	case "acquire":
		if s.owner != "" {
			return s, "nil"
		}
		return lease{owner: o.In[0], now: s.now, tick: s.tick}.given(o, latest), "OK"
	case "renew":
		if s.owner != o.In[0] {
			return s, "0"
		}
		return s.given(o, latest), "1"
	case "release":
		if s.owner != o.In[0] {
			return s, "0"
		}
		return s.released(), "1"
	case "fence":
		return fenceStep(s, o)
	}
	if s.owner == "" {
		return s, "nil"
	}
	return s, s.owner
}

// fenceStep is the step of an answer with a fence.
func fenceStep(s lease, o *history.Op) (lease, string) {
	switch {
	case s.owner == "":
		return s, "nil"
	case s.fence != 0:
		return s, strconv.FormatInt(s.fence, 10)
	case o.OK() && o.Out[0] != "nil":
		s.fence, _ = strconv.ParseInt(o.Out[0], 10, 64)
		return s, o.Out[0]
	}
	return s, "a number"
}

// Lock judges plain locks: SET NX PX with a token. No two clients hold a lock at once, and none holds it longer than
// its lease. Operations "write" are on a resource that checks fences: In is the token and the fence, Out "accepted" or
// "refused". Operations "unfenced" are on a resource that does not.
func Lock(h *history.History) *Verdict {
	v := &Verdict{}
	plainLock.judge(v, h)
	linearizable(v, h, compared)
	fences(v, h)
	contests(v, h)
	return v
}

// Rules of commands that compare a token first.
var (
	ruleCompared = rule("compared-as-a-whole",
		"IFEQ, IFNE, IFDEQ and IFDNE compare a value as a whole, also with one that begins alike.",
		"wrong comparison", "lock", each(2, 5*time.Second)).
		judging("ifeq-compares-the-token pexpire-ifeq-renews")
	ruleOwnToken = rule("own-token-only", "A token that begins like the holder's neither renews nor releases the lock.",
		"lock held by the wrong one", "lock", each(1, 10*time.Second)).
		judging("renew-what-is-held unlock-what-is-held")
)

// compared is a value that commands change only as it compares with an operand: equal to it (IFEQ, IFDEQ), or not
// (IFNE, IFDNE). compare-set how operand value = OK | nil (SET); compare-del how operand = 1 | 0 (DELEX, DELIFEQ);
// compare-expire how operand = 1 | 0 (PEXPIRE, EXPIRE); compare-get = value | nil. An absent value differs from all.
var compared = machine{
	rule:  ruleCompared,
	kind:  "wrong comparison",
	init:  absent,
	ops:   []string{"compare-set", "compare-del", "compare-expire", "compare-get"},
	reads: func(o *history.Op) bool { return o.Name == "compare-get" || o.Name == "compare-expire" },
	step:  comparedStep,
}

// comparedStep is the step of compared.
func comparedStep(state any, o *history.Op, _ int64) []any {
	now := state.(string)
	next, out := now, now
	if o.Name != "compare-get" {
		met := (now == o.In[1]) == strings.HasSuffix(o.In[0], "EQ")
		switch {
		case o.Name == "compare-set" && met:
			next, out = o.In[2], "OK"
		case o.Name == "compare-set":
			out = absent
		case !met || now == absent:
			out = "0"
		default:
			out = "1"
			if o.Name == "compare-del" {
				next = absent
			}
		}
	}
	if o.OK() && o.Out[0] != out {
		return nil
	}
	return []any{next}
}

// beginAlike reports whether one of two tokens begins with the other one.
func beginAlike(a, b string) bool {
	return a != b && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// lockBroken names the promise that an answer breaks.
func lockBroken(o *history.Op) string {
	switch {
	case o.Name == "acquire" && o.Out[0] == "OK":
		return "two holders"
	case o.Name == "acquire":
		return "refused although free"
	case o.Name == "fence" && o.Out[0] != "nil":
		return "fence changed"
	case o.Out[0] == "0" || o.Out[0] == "nil":
		return "lock lost early"
	}
	return "lock held by the wrong one"
}

// reentrant: lock owner ms = nil (taken) | held; unlock owner ms = 1 (free) | 0 (one level less) | nil (not the owner);
// renew owner ms = 1 | 0; count owner = number | nil. "held" is any remaining time. All may tell the log clock, as
// those of plainLock.
var reentrant = &lockKind{
	rule:    ruleReentrant,
	kind:    "reentrant lock",
	ops:     []string{"lock", "unlock", "renew", "count"},
	writes:  []string{"lock", "unlock", "renew"},
	leasing: reentrantLeasing,
	step:    reentrantStep,
	name:    func(*history.Op) string { return "reentrant lock" },
}

// ReentrantMachine is the machine of Reentrant, for Picture.
var ReentrantMachine = Machine{reentrant.picture}

// Reentrant judges Redisson's lock: its owner, its depth, and its deadline; and who joins and leaves a read-write lock:
// join token leaving = fence (its mode follows from the token), leave token = 1, joined = kind|token|fence ... (LOCKS
// HISTORY).
func Reentrant(h *history.History) *Verdict {
	v := &Verdict{}
	reentrant.judge(v, h)
	locks := map[string]*joinedLock{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "join" && o.Name != "leave" && o.Name != "joined" {
			continue
		}
		if locks[o.Key] == nil {
			locks[o.Key] = &joinedLock{}
		}
		locks[o.Key].after(v, o)
	}
	return v
}

var ruleJoins = rule("redisson-fences",
	"FENCE of a lock of Redisson's rises with each holder that does not share it, and an older holder's end has no fence.",
	"wrong fence of a hash", "reentrant", each(1, 10*time.Second)).
	judging("fences-of-redisson")

// AloneSuffix ends the token of a holder that does not share a read-write lock.
const AloneSuffix = ":write"

// joinedLock is a read-write lock that one client changes.
type joinedLock struct {
	lost    bool     // an outcome is unknown
	holders []string // in the order in which they came
	fence   int64
	events  []string
}

// after judges an operation.
func (l *joinedLock) after(v *Verdict, o *history.Op) {
	if l.lost = l.lost || !o.OK(); l.lost {
		return
	}
	v.Stake(ruleJoins, 1)
	switch o.Name {
	case "join":
		fence, _ := strconv.ParseInt(o.Out[0], 10, 64)
		rises := len(l.holders) == 0 || strings.HasSuffix(o.In[0], AloneSuffix)
		if rises != (fence > l.fence) || !rises && fence != l.fence {
			v.Add("wrong fence of a hash", o, "it was %d, and %d hold it", l.fence, len(l.holders))
		}
		l.fence, l.holders = fence, append(l.holders, o.In[0])
		l.tell("granted", o.In[0], o.Out[0])
		if o.In[1] != "" {
			l.leave(o.In[1])
		}
	case "leave":
		l.leave(o.In[0])
	case "joined":
		told := slices.Clone(o.Out)
		for i, event := range told {
			told[i] = strings.Replace(event, "deleted", "released", 1) // by another connection than that of its grant
		}
		if !slices.Equal(told, l.events) {
			v.Add("wrong fence of a hash", o, "expected are %q", l.events)
		}
	}
}

// leave removes a holder. Only that of the newest, and of those who share the lock, has a fence.
func (l *joinedLock) leave(token string) {
	fence := strconv.FormatInt(l.fence, 10)
	if strings.HasSuffix(token, AloneSuffix) && token != l.holders[len(l.holders)-1] {
		fence = ""
	}
	l.holders = slices.DeleteFunc(l.holders, func(t string) bool { return t == token })
	l.tell("released", token, fence)
}

func (l *joinedLock) tell(kind, token, fence string) {
	token, _, _ = strings.Cut(token, "-")
	l.events = append(l.events, kind+"|"+token+"|"+fence)
}

// reentrantStep is the step of reentrant.
func reentrantStep(s lease, o *history.Op, latest int64) (lease, string) {
	mine := s.owner == o.In[0]
	switch o.Name {
	case "lock":
		if s.owner != "" && !mine {
			return s, "held"
		}
		return lease{owner: o.In[0], count: s.count + 1, now: s.now, tick: s.tick}.given(o, latest), "nil"
	case "unlock":
		switch {
		case !mine:
			return s, "nil"
		case s.count == 1:
			return s.released(), "1"
		}
		s.count--
		return s.given(o, latest), "0"
	case "renew":
		if !mine {
			return s, "0"
		}
		return s.given(o, latest), "1"
	}
	if !mine {
		return s, "nil"
	}
	return s, strconv.Itoa(s.count)
}

// grip is a time in which a token certainly held a lock: from the answer that told so until its lease, counted from
// before its request, can end, or until the token's next request.
type grip struct {
	token, mode string
	from, to    int64
	before      int64 // if the token had the lock and asked again: when its lease would have ended; 0: it had not
}

// contests counts how often the rules of locks were at stake: a client asked for a lock that another one certainly
// held, a client asked for its own lock, or a client got a lock that another one had had.
func contests(v *Verdict, h *history.History) {
	byKey := map[string][]*history.Op{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if asksFor(o) || o.Name == "renew" || o.Name == "release" || o.Name == "holder" || o.Name == "fence" {
			byKey[o.Key] = append(byKey[o.Key], o)
		}
	}
	for _, ops := range byKey {
		grips, fenced := gripsOf(ops), map[string]bool{}
		for _, o := range ops {
			if o.OK() {
				contest(v, grips, fenced, o)
			}
		}
	}
}

// gripsOf returns the certain holdings of a lock. ops are in the order of their starts.
func gripsOf(ops []*history.Op) (grips []grip) {
	last, modes := map[string]int{}, map[string]string{} // by token: its last grip
	var ends []int64                                     // of the leases of the grips
	for _, o := range ops {
		if len(o.In) == 0 || !o.Maybe() || o.Name == "fence" {
			continue
		}
		token := o.In[0]
		before, i, held := int64(0), 0, false
		if i, held = last[token]; held {
			before = ends[i]
			grips[i].to = min(grips[i].to, max(o.Start, grips[i].from))
		}
		if asksFor(o) {
			modes[token] = modeOf(o)
		}
		if isGrant(o) || o.Name == "renew" && o.OK() && o.Out[0] == "1" {
			if !asksFor(o) {
				before = 0
			}
			last[token] = len(grips)
			grips = append(grips, grip{token, modes[token], o.End, o.Start + millis(o.In[1]), before})
			ends = append(ends, o.End+millis(o.In[1]))
		}
	}
	return grips
}

// contest counts what an answered operation puts at stake. fenced are the tokens that were told their fence.
func contest(v *Verdict, grips []grip, fenced map[string]bool, o *history.Op) {
	token, mode := tokenOf(o), modeOf(o)
	held, own, anew, inTheWay, before, beside := false, false, false, false, false, 0
	for _, g := range grips {
		during := g.from < o.Start && min(o.End, o.Start+settledIn) < g.to // a waiter is in line by then
		held = held || during
		switch {
		case g.token == token:
			holds := g.from < o.Start && o.Start <= g.to
			own, anew = own || holds, anew || holds && g.before > 0 && g.before < o.Start
		case during && !goTogether(g.mode, mode):
			inTheWay = true
		case during:
			beside++
		case g.from < o.End:
			before = true
		}
	}
	if n := permits(mode); n > 0 && beside >= n {
		inTheWay = true
	}
	switch {
	case o.Name == "holder" && held || !asksFor(o) && o.Name != "holder" && own:
		v.Stake(ruleHeld, 1)
	case !asksFor(o):
	case inTheWay:
		v.Stake(ruleHolder, 1)
	case before && isGrant(o):
		v.Stake(ruleFree, 1)
	}
	if anew {
		v.Stake(ruleAnew, 1)
	}
	if (o.Name == "renew" || o.Name == "release") && slices.ContainsFunc(grips, func(g grip) bool {
		return g.from < o.Start && o.End < g.to && beginAlike(g.token, token)
	}) {
		v.Stake(ruleOwnToken, 1)
	}
	_, told := fenceOf(o)
	if told || o.Name == "fence" && o.Out[0] != absent && slices.Contains(o.In, token) {
		if fenced[token] {
			v.Stake(ruleSameFence, 1)
		}
		fenced[token] = true
	}
}
