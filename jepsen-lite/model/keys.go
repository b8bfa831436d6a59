package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"lockd/jepsen-lite/history"
)

// A scene is a lock that one client has and two others wait for, until a third one renames it, wipes its database, and
// the like. It has four places: two keys in each of two databases that no other scene uses at the time.
//
//	try, enter token ms wait place mode = fence | nil | wrongtype | taken (mode hash: Redisson's lock)
//	renew token ms place = fence | nil             release token place = 1 | 0 | wrongtype
//	look place = type, value, fence, remaining ms
//	change what scene ... = its answer; the key is the scene, or dbsN or all if it changes whole databases

// Rules of keys.
var (
	ruleScene = rule("keys-in-order",
		"All answers about locks whose keys are renamed, moved, copied, swapped or wiped fit one order.",
		"no order of keys, two holders, lock lost early, refused although free", "keys", each(5, 5*time.Second)).
		judging("linearizable key-of-many")
	ruleNeverFree = rule("taken-again-never-free", "A lock that a transaction or a script frees and takes was never free.",
		"two holders, refused although free", "keys", once(1, 10*time.Second)).
		judging("taken-again-was-never-free")
	ruleCarried = rule("lock-carried-along",
		"A lock is held at the new place of its key, with a greater fence, and no more at the old one.",
		"no order of keys, lock lost early, fence not greater", "keys", each(1, 10*time.Second)).
		judging("whatever-frees-a-lock")
	ruleApart = rule("databases-apart", "What is done in one database changes nothing in another one.",
		"no order of keys, lock lost early, two holders", "keys", each(1, 10*time.Second)).
		judgingNone("Redis means it so, and the pages promise nothing of their own")
	ruleGivenLease = rule("lease-given", "EXPIRE, PEXPIRE and PERSIST set the lease of a lock, for all its holders.",
		"wrong lease, two holders, lock lost early", "keys", each(1, 10*time.Second)).
		judging("expire-of-many")
	ruleHandsOn = lateRule("freed-goes-on", "Whatever frees a lock gives it to the first in line at once.",
		"left in line, overtaken", "keys", quietly(1, 10*time.Second)).
		judging("whatever-frees-a-lock")
	ruleForeign = lateRule("no-lock-is-told", "Clients in line for a key that is no lock any more are told so at once.",
		"left in line", "keys", quietly(1, 20*time.Second)).
		judging("no-lock-any-more")
)

// Keys whose changes concern whole databases.
const (
	PairKey = "dbs" // and the number of the two databases of a scene
	AllKey  = "all"
)

// sceneMost is the time of a scene that is judged: its locks have longer leases.
const sceneMost = int64(25 * time.Second)

// Places of a scene.
const (
	placeA1 = iota
	placeA2
	placeB1
	placeB2
	places
)

var placeNames = []string{"a1", "a2", "b1", "b2"}

// Kinds of what a place holds.
const (
	nothingHeld = iota
	heldByOne
	heldByMany
	heldAsHash
	aList
)

var typeNames = []string{"none", "string", "lock", "hash", "list"}

// foreign is the answer to a client that asks for a lock where there is something else.
const foreign = "wrongtype"

// placed describes the value in a place.
type placed struct {
	kind   int
	tokens string // of the holders, each in spaces
	ms     int64  // of the lease; 0: none
	until  int64  // the lease has not ended before
	fence  int64  // 0: not known; then it is greater than above
	above  int64
	gone   int64 // since then it may be taken back, since its client is gone; 0: it may not
}

// sceneState is a scene at a moment.
type sceneState struct {
	at  [places]placed
	top int64 // the greatest fence that was told
	now int64 // the last operation took effect no earlier
}

// Keys judges scenes.
func Keys(h *history.History) *Verdict {
	v := &Verdict{}
	scenes, wide := map[string][]*history.Op{}, map[string][]*history.Op{}
	for i := range h.Ops {
		switch o := &h.Ops[i]; {
		case o.Key == AllKey || strings.HasPrefix(o.Key, PairKey):
			wide[o.Key] = append(wide[o.Key], o)
		case o.Key != "":
			scenes[o.Key] = append(scenes[o.Key], o)
		}
	}
	all := &history.History{Faults: h.Faults, End: h.End}
	for _, key := range slices.Sorted(maps.Keys(scenes)) {
		pair, _, _ := strings.Cut(key, ".")
		c := newScene(key, scenes[key], slices.Concat(wide[PairKey+pair], wide[AllKey]))
		all.Ops = append(all.Ops, c.forSearch(h)...)
		c.judge(v, h)
	}
	linearizable(v, all, sceneMachine())
	return v
}

// scene is the operations of one scene, and those on whole databases that may have concerned it.
type scene struct {
	key string
	ops []*history.Op // in the order of their starts
	end int64         // of what is judged
}

func newScene(key string, own, wide []*history.Op) *scene {
	s := &scene{key: key, end: own[0].Start + sceneMost}
	last := int64(0)
	for _, o := range own {
		last = max(last, o.Told)
	}
	for _, o := range slices.Concat(own, wide) {
		if o.Start < min(s.end, last) && o.End >= own[0].Start {
			s.ops = append(s.ops, o)
		}
	}
	slices.SortStableFunc(s.ops, func(a, b *history.Op) int { return cmp.Compare(a.Start, b.Start) })
	return s
}

// forSearch returns the operations as those of one key. What was answered too late counts as unknown. A request that
// waited while there was a fault may have held the lock once before: see untold. So may one that waited while another
// scene wiped all databases: what that gave to it may have been taken, or moved, before it was told, and it waited on.
// So may one that waited while a request was refused, as then a leader was lost, whatever the reason: on a busy machine
// that needs no fault.
func (s *scene) forSearch(h *history.History) (ops []history.Op) {
	twice := slices.Clone(h.Faults)
	for _, o := range s.ops {
		if s.isOthers(o) || o.Outcome == history.Fail {
			twice = append(twice, history.Window{Start: o.Start, End: o.Told})
		}
		one := *o
		one.Key = s.key
		if one.OK() && one.End > s.end {
			one.Outcome, one.Out, one.End = history.Info, nil, history.Forever
		}
		ops = append(ops, one)
	}
	slices.SortStableFunc(twice, func(a, b history.Window) int { return cmp.Compare(a.Start, b.Start) })
	return untold(&history.History{Ops: ops, Faults: twice}).Ops
}

// isOthers reports whether an operation wiped all databases for another scene.
func (s *scene) isOthers(o *history.Op) bool { return o.Key == AllKey && o.In[1] != s.key }

// sceneMachine returns the sequential specification of a scene.
func sceneMachine() machine {
	return machine{
		rule:  ruleScene,
		kind:  "no order of keys",
		name:  sceneBroken,
		init:  sceneState{},
		reads: func(o *history.Op) bool { return o.Name == "look" },
		covers: func(a, b any) bool {
			s, than := a.(sceneState), b.(sceneState)
			if s.now > than.now {
				return false
			}
			s.now = than.now
			return s == than
		},
		step: sceneStep,
	}
}

// sceneStep is the step of a scene.
func sceneStep(state any, o *history.Op, horizon int64) (next []any) {
	if !o.OK() {
		next = append(next, state)
	}
	for _, s := range state.(sceneState).possible(o) {
		n, fits := s.after(o)
		if o.OK() && !fits || !o.OK() && (n == s || n.now > horizon) {
			continue
		}
		next = append(next, n)
	}
	return next
}

// sceneBroken names what is wrong with o, which no order explains.
func sceneBroken(ops []*history.Op, o *history.Op) string {
	without := func(word int) bool {
		less, known := *o, slices.Clone(ops)
		less.Out = slices.Clone(o.Out)
		less.Out[word] = ""
		known[slices.Index(known, o)] = &less
		return sceneMachine().search(known, decideMax/4) == porcupine.Ok
	}
	switch {
	case o.Name == "look" && without(3):
		return "wrong lease"
	case o.Name == "look" && without(2):
		return "fence not greater"
	case (o.Name == "try" || o.Name == "enter") && o.Out[0] == absent:
		return "refused although free"
	case o.Name == "try" || o.Name == "enter":
		return "two holders"
	case o.Name == "renew" || o.Name == "release":
		return "lock lost early"
	}
	return "no order of keys"
}

// possible returns the states in which o may take effect: leases may have ended, and locks of clients that are gone may
// have been taken back.
func (s sceneState) possible(o *history.Op) []sceneState {
	s.now = max(s.now, o.Start)
	states := []sceneState{s}
	for i := range s.at {
		p := s.at[i]
		for _, s := range slices.Clone(states) {
			if p.kind != nothingHeld && p.kind != aList && o.End >= p.until {
				s.at[i], s.now = placed{}, max(s.now, p.until)
				states = append(states, s)
			}
		}
		for _, s := range slices.Clone(states) {
			if p.gone != 0 && o.End >= p.gone && s.at[i] == p {
				s.at[i], s.now = placed{}, max(s.now, p.gone)
				states = append(states, s)
			}
		}
	}
	return slices.DeleteFunc(states, func(s sceneState) bool { return s.now > o.End })
}

// after returns the state after o, and whether o can have had its answer.
func (s sceneState) after(o *history.Op) (next sceneState, fits bool) {
	switch o.Name {
	case "try", "enter":
		return s.take(o, placeOf(o.In[3]), o.In[0], o.In[1], o.In[4], answerOf(o, 0))
	case "release":
		return s.release(placeOf(o.In[1]), o.In[0], answerOf(o, 0))
	case "renew":
		return s.renew(o)
	case "look":
		return s.look(o)
	}
	return s.change(o)
}

// answerOf returns a word of the answer; "": it is not known.
func answerOf(o *history.Op, word int) string {
	if !o.OK() || word >= len(o.Out) {
		return ""
	}
	return o.Out[word]
}

func placeOf(name string) int { return max(slices.Index(placeNames, name), 0) }

// told learns the fence of a place; false if it contradicts what is known.
func (s *sceneState) told(i int, text string) bool {
	fence, err := strconv.ParseInt(text, 10, 64)
	p := &s.at[i]
	switch {
	case text == "":
		return true
	case err != nil || p.fence != 0 && fence != p.fence || p.fence == 0 && fence <= p.above:
		return false
	}
	p.fence, s.top = fence, max(s.top, fence)
	return true
}

// take is a request for a lock.
func (s sceneState) take(o *history.Op, i int, token, lease, mode, answer string) (sceneState, bool) {
	p, held := &s.at[i], " "+token+" "
	ms, _ := strconv.ParseInt(lease, 10, 64)
	kind := heldByOne
	switch mode {
	case "shared":
		kind = heldByMany
	case "hash":
		kind = heldAsHash
	}
	switch {
	case p.kind == nothingHeld:
		*p = placed{kind: kind, tokens: held, ms: ms, until: o.Start + ms*msNs, above: s.top}
		if !o.OK() {
			p.gone = max(o.Start, 1)
		}
	case kind == heldByMany && p.kind == kind && !strings.Contains(p.tokens, held):
		p.tokens += held
		p.fence, p.above = 0, s.top
	case p.kind == kind && p.tokens == held:
		p.ms, p.until = ms, o.Start+ms*msNs
		if o.OK() {
			p.gone = 0
		}
	case p.kind == aList || p.kind == heldAsHash && kind != heldAsHash:
		return s, answer == foreign
	default:
		return s, answer == absent
	}
	if kind == heldAsHash {
		return s, answer == "taken"
	}
	return s, s.told(i, answer)
}

// release is UNLOCK.
func (s sceneState) release(i int, token, answer string) (sceneState, bool) {
	p, held := &s.at[i], " "+token+" "
	switch {
	case p.kind == aList || p.kind == heldAsHash:
		return s, answer == foreign
	case !strings.Contains(p.tokens, held):
		return s, answer == "0"
	}
	if p.tokens = strings.Replace(p.tokens, held, "", 1); p.tokens == "" {
		*p = placed{}
	}
	return s, answer == "1"
}

// renew is RENEW of a lock of one.
func (s sceneState) renew(o *history.Op) (sceneState, bool) {
	i := placeOf(o.In[2])
	p, answer := &s.at[i], answerOf(o, 0)
	switch {
	case p.kind == aList || p.kind == heldAsHash:
		return s, answer == foreign
	case p.tokens != " "+o.In[0]+" ":
		return s, answer == absent
	}
	p.ms = millis(o.In[1]) / msNs
	p.until = o.Start + millis(o.In[1])
	return s, s.told(i, answer)
}

// look is an answer about a place.
func (s sceneState) look(o *history.Op) (sceneState, bool) {
	i := placeOf(o.In[0])
	p := s.at[i]
	value := ""
	if p.kind == heldByOne {
		value = strings.TrimSpace(p.tokens)
	}
	if answerOf(o, 0) != typeNames[p.kind] || answerOf(o, 1) != value {
		return s, false
	}
	switch fence := answerOf(o, 2); {
	case p.kind == nothingHeld && fence != absent && fence != "":
		return s, false
	case p.kind == heldByOne && !s.told(i, fence):
		return s, false
	}
	return s, p.leaseFits(o)
}

// leaseFits reports whether a place has the remaining time that o tells. By real time no more than its lease less the
// time since it began can be missing.
func (p *placed) leaseFits(o *history.Op) bool {
	left, err := strconv.ParseInt(answerOf(o, 3), 10, 64)
	switch {
	case answerOf(o, 3) == "":
		return true
	case err != nil:
		return false
	case p.kind == nothingHeld:
		return left == -2
	case p.kind == aList || p.ms == 0:
		return left == -1
	}
	return left >= 0 && left <= p.ms && (left+1)*msNs >= p.until-o.End
}

// change is a change of keys or of whole databases.
func (s sceneState) change(o *history.Op) (sceneState, bool) {
	answer, arg := answerOf(o, 0), func(n int) int { return placeOf(o.In[2+n]) }
	switch what := o.In[0]; what {
	case "del", "persist", "expire":
		return s.edit(o, what, arg(0), answer)
	case "rename", "renamenx", "move", "copy":
		return s.carry(what, arg(0), arg(1), answer)
	case "list":
		s.at[arg(0)] = placed{kind: aList, until: math.MaxInt64}
		return s, answer == "OK"
	case "give":
		s, freed := s.release(arg(1), o.In[2], answer)
		s, taken := s.take(o, arg(3), o.In[4], o.In[6], "", answerOf(o, 1))
		return s, freed && taken
	case "wipe":
		s.at[placeA1], s.at[placeA2] = placed{}, placed{}
	case "flushall":
		s.at = [places]placed{}
	case "swap":
		s.at[placeA1], s.at[placeB1] = s.at[placeB1], s.at[placeA1]
		s.at[placeA2], s.at[placeB2] = s.at[placeB2], s.at[placeA2]
		for i := range s.at {
			s.at[i].renewed(s.top)
		}
	}
	return s, answer == "OK"
}

// renewed gives what a place holds another fence, as a key that has come into being.
func (p *placed) renewed(top int64) {
	if p.kind != nothingHeld {
		p.fence, p.above = 0, top
	}
}

// edit is DEL, PERSIST, EXPIRE or PEXPIRE.
func (s sceneState) edit(o *history.Op, what string, i int, answer string) (sceneState, bool) {
	p, had := &s.at[i], "1"
	if p.kind == nothingHeld || what == "persist" && (p.ms == 0 || p.kind == aList) {
		return s, answer == "0"
	}
	switch {
	case what == "persist":
		p.ms, p.until = 0, math.MaxInt64
	case what == "expire" && o.In[3] != "0":
		p.ms = millis(o.In[3]) / msNs
		p.until = o.Start + millis(o.In[3])
	default:
		*p = placed{}
	}
	return s, answer == had
}

// carry is RENAME, RENAMENX, MOVE or COPY with REPLACE.
func (s sceneState) carry(what string, from, to int, answer string) (sceneState, bool) {
	done, not := "1", "0"
	if what == "rename" {
		done, not = "OK", "nokey"
	}
	switch {
	case s.at[from].kind == nothingHeld && what == "renamenx":
		return s, answer == "nokey"
	case s.at[from].kind == nothingHeld, (what == "renamenx" || what == "move") && s.at[to].kind != nothingHeld:
		return s, answer == not
	}
	s.at[to] = s.at[from]
	s.at[to].renewed(s.top)
	if what != "copy" {
		s.at[from] = placed{}
	}
	return s, answer == done
}

// judge counts what a scene puts at stake, and judges how soon its waiters were served.
func (s *scene) judge(v *Verdict, h *history.History) {
	var waiters []*history.Op
	state, changed := sceneState{}, (*history.Op)(nil)
	for _, o := range s.ops {
		switch {
		case o.Name == "enter":
			waiters = append(waiters, o)
		case o.OK() && o.Name == "look":
			s.counts(v, state, changed, o)
		case !o.OK() || s.isWaiters(waiters, o):
		default:
			before := state
			if state, _ = state.after(o); o.Name == "change" && o.In[1] == s.key {
				changed = o
			}
			s.event(v, h, waiters, before, state, o)
		}
	}
}

// isWaiters reports whether an operation is one by a client that waited before.
func (s *scene) isWaiters(waiters []*history.Op, o *history.Op) bool {
	return slices.ContainsFunc(waiters, func(w *history.Op) bool { return slices.Contains(o.In[:1], w.In[0]) })
}

// counts counts what a look puts at stake after a change.
func (s *scene) counts(v *Verdict, state sceneState, changed, look *history.Op) {
	if changed == nil {
		return
	}
	p, what := state.at[placeOf(look.In[0])], changed.In[0]
	other := look.In[0][0] == 'b'
	switch what {
	case "persist", "expire":
		if look.In[0] == changed.In[2] && p.kind != nothingHeld {
			v.Stake(ruleGivenLease, 1)
		}
	case "rename", "renamenx", "move", "copy", "swap":
		if p.kind == heldByOne && (what == "swap" || look.In[0] == changed.In[3]) {
			v.Stake(ruleCarried, 1)
		}
	}
	if other && p.kind == heldByOne && what != "swap" && what != "move" && what != "flushall" {
		v.Stake(ruleApart, 1)
	}
}

// event judges what an operation of a client that does not wait means for those in line.
func (s *scene) event(v *Verdict, h *history.History, waiters []*history.Op, before, after sceneState, o *history.Op) {
	was, is, at := before.at[placeA1], after.at[placeA1], o.End
	var sure []*history.Op // in line before it, and still
	for _, w := range waiters {
		if w.OK() && w.Start+settledIn < o.Start && w.End > o.Start {
			sure = append(sure, w)
		}
	}
	if len(sure) == 0 || was.kind == nothingHeld {
		return
	}
	if o.Name == "change" && o.In[0] == "give" && o.In[3] == o.In[5] {
		v.Stake(ruleNeverFree, 1)
	}
	if shortly := is.ms*msNs < sceneMost && o.Name == "change" && o.In[0] == "expire"; shortly {
		at += is.ms * msNs
		is = placed{}
	}
	due := at + answerMax
	if h.Disturbed(sure[0].Start, due, settleTime) > 0 || h.End < due || s.unclear(due) {
		return
	}
	switch {
	case is.kind == nothingHeld, is.tokens == " "+sure[0].In[0]+" ":
		v.Stake(ruleHandsOn, 1)
		sure = s.inTurn(v, sure)
	case is.kind == aList:
		v.Stake(ruleForeign, 1)
	default:
		return
	}
	for _, w := range sure {
		if w.Told > due {
			v.Add("left in line", w, "it had to be answered within %.1f s of %s", sec(due-o.End), o)
		}
	}
}

// unclear reports whether something may have happened in the scene before a moment, and nobody knows when.
func (s *scene) unclear(moment int64) bool {
	return slices.ContainsFunc(s.ops, func(o *history.Op) bool {
		return o.Start < moment && (o.Outcome == history.Info || s.isOthers(o))
	})
}

// inTurn judges which of two waiters came first, and returns it.
func (s *scene) inTurn(v *Verdict, sure []*history.Op) []*history.Op {
	if len(sure) > 1 {
		first, known := fenceOf(sure[0])
		second, both := fenceOf(sure[1])
		if known && both && second < first {
			v.Add("overtaken", sure[1], "the waiter is %s", sure[0])
		}
	}
	return sure[:1]
}
