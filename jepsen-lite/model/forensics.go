package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// The nodes are asked what happened to a lock (LOCKS HISTORY, LOCKS WHY), and must tell what its clients did. The clients
// use the words of lineLock and more. The last word of each request is a client name of its own: the worker and a number
// (w3.17):
// enter token ms wait name and try token ms 0 name = fence | nil | displaced, acquire token ms name = OK | nil,
// renew token ms name = fence | nil, release token name = 1 | 0, delete name = 1 | 0 (DEL),
// overwrite value ms name = OK (SET), force token reason fence name = n (LOCKS FORCE; without a token, or a fence: whoever
// holds it).
// hand token ms token-before name = OK | nil (SET IFEQ, IFDEQ, a script: from one token to another one).
// The questions: fence = token fence, history = since event ... (LOCKS HISTORY), and why token = what fence reason next fence sentence (LOCKS
// WHY).

// The problems of the answers.
const (
	toldApart     = "history differs"        // two answers do not belong to one history
	toldNoMore    = "history forgot"         // something that was done is missing
	toldOfNobody  = "nobody did that"        // something is told that nobody did
	toldOtherwise = "told as something else" // of another kind, token, fence, lease or reason
	toldMisplaced = "out of order"           // in an order that real time contradicts
	toldInPart    = "hole in the history"    // a lock is got, or lost, twice
	toldWrongWhy  = "wrong why"              // LOCKS WHY contradicts the history
	forcedOther   = "another one forced"     // LOCKS FORCE has freed what it did not name
	forcedNobody  = "forced in vain"         // or not what it named
	handedWrong   = "handed to nobody"       // one of the events of a lock that changes hands is missing
	fenceOfOther  = "another fence"          // FENCE contradicts the history
)

var ruleHanded = rule("handed-over",
	"A lock that is handed to another token is lost by the one and granted to the other, with the greater fence that FENCE tells.",
	handedWrong+", "+fenceOfOther+", fence not greater", "forensics", each(1, 10*time.Second)).
	judging("handed-over-is-granted fence-changes-with-the-token")

var ruleForce = rule("force-frees-whom-it-names", "LOCKS FORCE with TOKEN or FENCE frees that holder, and no other one.",
	forcedOther+", "+forcedNobody, "forensics", each(1, 10*time.Second)).
	judging("force-hands-on force-by-fence")

// Forensics judges what a server tells about the past of its locks by what the clients did and saw.
func Forensics(h *history.History) *Verdict {
	v := &Verdict{}
	of, known := pastsOf(h)
	events, whys := 0, 0
	for _, key := range slices.Sorted(maps.Keys(of)) {
		p := of[key]
		p.join(v, known)
		v.Stake(ruleCaused, len(p.events))
		v.Stake(ruleExact, len(p.events))
		for i, e := range p.events {
			if kind, why := p.contradiction(i); kind != "" {
				v.Add(kind, inBrief(e.told), "%s: %s", e.text, why)
			}
		}
		p.inOrder(v)
		p.holes(v)
		p.forgotten(v, known)
		whys += p.judgeWhys(v, known)
		p.judgeForces(v, known)
		p.judgeHands(v, known)
		events += len(p.events)
	}
	v.Note("%d events in %d answers of LOCKS HISTORY; %d answers of LOCKS WHY were judged",
		events, len(known.answers), whys)
	return v
}

// pastEvent is one event of an answer: kind|token|fence|by|name|reason|tick|held|lease|renewals.
type pastEvent struct {
	text                               string
	kind, token, by, name, reason      string
	fence, tick, held, lease, renewals int64
	id                                 string      // unlike that of any other event
	told                               *history.Op // the first answer with it
	hole                               bool        // earlier events may have been forgotten
}

// newPastEvent parses an event.
func newPastEvent(text string, told *history.Op) *pastEvent {
	w := strings.Split(text, "|")
	n := func(i int) int64 {
		n, _ := strconv.ParseInt(w[i], 10, 64)
		return n
	}
	e := &pastEvent{
		text: text, kind: w[0], token: w[1], fence: n(2), by: w[3], name: w[4], reason: w[5],
		tick: n(6), held: n(7), lease: n(8), renewals: n(9), id: text, told: told,
	}
	if e.by == "DEL" { // its kind is released only while the node knows that the client had the lock
		e.id = strings.Join(w[1:], "|")
	}
	return e
}

// inBrief returns an answer without its events.
func inBrief(o *history.Op) *history.Op {
	b := *o
	b.Out = []string{o.Out[0], "..."}
	return &b
}

// ends reports whether a token lost the lock by the event.
func (e *pastEvent) ends() bool {
	return slices.Contains([]string{"released", "expired", "deleted", "overwritten", "forced"}, e.kind)
}

// grantOf names a grant.
func grantOf(token, fence string) string { return token + " " + fence }

func (e *pastEvent) grant() string { return grantOf(e.token, strconv.FormatInt(e.fence, 10)) }

// pastAnswer is an answer of LOCKS HISTORY.
type pastAnswer struct {
	o        *history.Op
	since    string
	events   []*pastEvent
	from, to int // places of its events among all; to is behind the last
	names    map[string]bool
	grants   map[string]bool
	oldest   int64 // the earliest end of a request that it tells of
}

// memory bounds how far back the answers reach.
type memory struct {
	since   string        // answers with this word have forgotten nothing
	answers []*pastAnswer // of all locks, in the order of their starts
	oldest  []int64       // of each answer and those after it
}

// whole reports whether nothing had been forgotten before an answer.
func (m *memory) whole(a *pastAnswer) bool { return a.since == m.since }

// forgets reports whether any answer was given after something had been forgotten.
func (m *memory) forgets() bool {
	return slices.ContainsFunc(m.answers, func(a *pastAnswer) bool { return !m.whole(a) })
}

// horizon returns a moment: an answer must tell of everything that ended later. It is the beginning if nothing was
// forgotten. Else everything was still known that ended no earlier than an event of this answer or of a later one,
// since the oldest is forgotten first.
func (m *memory) horizon(a *pastAnswer) int64 {
	if m.whole(a) {
		return math.MinInt64
	}
	later, _ := slices.BinarySearchFunc(m.answers, a.o.End, func(b *pastAnswer, end int64) int {
		return cmp.Compare(b.o.Start, end+1)
	})
	if later < len(m.oldest) {
		return min(a.oldest, m.oldest[later])
	}
	return a.oldest
}

// lockPast is one lock, with all that was done to it and told about it.
type lockPast struct {
	h       *history.History
	named   map[string]*history.Op
	of      map[string][]*history.Op // by token
	done    []*history.Op            // the operations that must be told
	first   int64                    // the first request
	data    int64                    // when it may first have been no lock
	answers []*pastAnswer            // in the order of their ends
	whys    []*history.Op
	fences  []*history.Op
	events  []*pastEvent // all events of the answers, in order
}

// pastsOf returns the pasts of the locks, by key.
func pastsOf(h *history.History) (map[string]*lockPast, *memory) {
	of, m := map[string]*lockPast{}, &memory{}
	for i := range h.Ops {
		o := &h.Ops[i]
		p := of[o.Key]
		if p == nil {
			p = &lockPast{
				h: h, named: map[string]*history.Op{}, of: map[string][]*history.Op{}, first: math.MaxInt64, data: math.MaxInt64,
			}
			of[o.Key] = p
		}
		switch o.Name {
		case "history":
			if o.OK() {
				p.answers = append(p.answers, newPastAnswer(o))
			}
		case "why":
			if o.OK() {
				p.whys = append(p.whys, o)
			}
		case "fence":
			if o.OK() {
				p.fences = append(p.fences, o)
			}
		case "enter", "try", "acquire", "renew", "release", "delete", "overwrite", "force", "hand":
			p.add(o)
		}
	}
	for _, p := range of {
		p.finish()
		m.answers = append(m.answers, p.answers...)
	}
	m.finish()
	return of, m
}

// newPastAnswer parses an answer.
func newPastAnswer(o *history.Op) *pastAnswer {
	a := &pastAnswer{o: o, since: o.Out[0], names: map[string]bool{}, grants: map[string]bool{}, oldest: math.MaxInt64}
	for _, text := range o.Out[1:] {
		e := newPastEvent(text, o)
		a.events = append(a.events, e)
		a.names[e.name] = true
		if e.kind == "granted" {
			a.grants[e.grant()] = true
		}
	}
	return a
}

// add adds a request.
func (p *lockPast) add(o *history.Op) {
	p.named[o.In[len(o.In)-1]] = o
	p.first = min(p.first, o.Start)
	switch o.Name {
	case "overwrite":
		if o.Maybe() {
			p.data = min(p.data, o.Start)
		}
	case "delete", "force":
	default:
		p.of[o.In[0]] = append(p.of[o.In[0]], o)
	}
}

// isHanded reports whether a lock was handed to another token.
func isHanded(o *history.Op) bool { return o.Name == "hand" && o.OK() && o.Out[0] == "OK" }

// finish collects the operations that must be told. DEL may have deleted something that is no lock.
func (p *lockPast) finish() {
	for _, o := range p.named {
		ends := o.Name == "release" || o.Name == "force" || o.Name == "delete" && o.End < p.data
		if ends && o.OK() && o.Out[0] != "0" || isGrant(o) && o.Name != "renew" || isHanded(o) {
			p.done = append(p.done, o)
		}
	}
	slices.SortFunc(p.done, func(a, b *history.Op) int { return cmp.Compare(a.Line, b.Line) })
	slices.SortStableFunc(p.answers, func(a, b *pastAnswer) int { return cmp.Compare(a.o.End, b.o.End) })
	for _, a := range p.answers {
		for name := range a.names {
			if o := p.named[name]; o != nil {
				a.oldest = min(a.oldest, o.End)
			}
		}
	}
}

// finish sorts the answers.
func (m *memory) finish() {
	slices.SortFunc(m.answers, func(a, b *pastAnswer) int { return cmp.Compare(a.o.Start, b.o.Start) })
	m.oldest = make([]int64, len(m.answers))
	oldest := int64(math.MaxInt64)
	for i, a := range slices.Backward(m.answers) {
		oldest = min(oldest, a.oldest)
		m.oldest[i] = oldest
	}
	if len(m.answers) > 0 {
		m.since = m.answers[0].since
	}
}

// join joins the answers to one history, and reports those that contradict the others.
func (p *lockPast) join(v *Verdict, m *memory) {
	for _, a := range p.answers {
		p.joinOne(a, m)
	}
	at, told := map[string]int{}, map[string]bool{}
	for i, e := range p.events {
		at[e.id] = i
	}
	for _, a := range p.answers {
		if len(a.events) == 0 {
			continue
		}
		if slices.ContainsFunc(a.events, func(e *pastEvent) bool { return told[e.id] }) {
			v.Stake(ruleAgrees, 1) // another answer had told of it
		}
		for _, e := range a.events {
			told[e.id] = true
		}
		a.from = at[a.events[0].id]
		a.to = a.from + len(a.events)
		for i, e := range a.events {
			if at[e.id] != a.from+i {
				v.Add(toldApart, inBrief(a.o), "another answer has %s in another place, or something else in this one", e.text)
				break
			}
		}
	}
}

// joinOne adds the events of an answer, which ended after those before it.
func (p *lockPast) joinOne(a *pastAnswer, m *memory) {
	if len(a.events) == 0 {
		return
	}
	place := func(e *pastEvent, in []*pastEvent) int {
		return slices.IndexFunc(in, func(b *pastEvent) bool { return b.id == e.id })
	}
	first := len(p.events)
	if at := place(a.events[0], p.events); at >= 0 {
		first = at
	} else if len(p.events) > 0 {
		if back := place(p.events[0], a.events); back > 0 { // its request was earlier
			p.events[0].hole = false
			p.events = append(slices.Clone(a.events[:back]), p.events...)
			first = 0
		}
	}
	if known := len(p.events) - first; known < len(a.events) {
		p.events = append(p.events, a.events[known:]...)
	}
	if m.horizon(a) >= p.first {
		a.events[0].hole = true // a joined event has a hole only if it is the first of an answer
	}
}

// contradiction returns what the clients know to be wrong about the event at a place.
func (p *lockPast) contradiction(at int) (kind, why string) {
	e := p.events[at]
	o := p.named[e.name]
	inVain := p.inVain(at)
	switch {
	case e.kind == "expired" && e.name == "" && e.by == "":
		return p.leaseWrong(e)
	case e.kind == "released" && e.by == "UNLOCK" && p.unheard(e) &&
		(e.name == "" || o != nil && asksFor(o) && o.In[0] == e.token):
		return p.leaseWrong(e) // the node took it back, since the client was not told
	case o == nil || !o.Maybe() && e.kind != "gone" && !inVain: // a waiter that was told that nothing was done is "gone"
		return toldOfNobody, "no request of that name asked for it"
	case o.OK() && !inVain && !p.causes(o, e.kind):
		return toldOfNobody, "that was " + o.String()
	case e.kind == "forced" && o.Name == "force" && !names(o, e.token, e.fence):
		return forcedOther, "that was " + o.String()
	case !inVain && !p.mayCause(o, e):
		return toldOtherwise, "that was " + o.String()
	case e.kind == "granted" && strconv.FormatInt(e.lease, 10) != o.In[1]:
		return toldOtherwise, "the lease was that of " + o.String()
	case e.kind == "forced" && e.reason != o.In[1]:
		return toldOtherwise, "the reason was that of " + o.String()
	case e.ends():
		return p.leaseWrong(e)
	}
	return "", ""
}

// unheard reports whether a token's clients may not have been told of a grant: a request has no answer, or waited and
// was answered otherwise, since the grant was taken back before.
func (p *lockPast) unheard(e *pastEvent) bool {
	return slices.ContainsFunc(p.of[e.token], func(o *history.Op) bool {
		return asksFor(o) && (!o.OK() || mayAskAgain(o) && !p.toldOf(o, e))
	}) && !slices.ContainsFunc(p.of[e.token], func(o *history.Op) bool { return p.toldOf(o, e) })
}

// toldOf reports whether a request was answered with the fence of an event.
func (p *lockPast) toldOf(o *history.Op, e *pastEvent) bool {
	fence, ok := fenceOf(o)
	return ok && fence == e.fence
}

// lateGrant is the age of a grant from which on a node asks again instead of telling it, although nobody waited.
const lateGrant = int64(time.Second)

// mayAskAgain reports whether a request may have been granted, and have lost that before it was answered, so that its
// node asked again: a LOCK that waited, or that was granted late.
func mayAskAgain(o *history.Op) bool {
	return o.Name == "enter" && waits(o) > 0 || (o.Name == "enter" || o.Name == "try") && o.Told-o.Start > lateGrant
}

// inVain reports whether the event at a place is a grant that its client was not told of: the lock was lost before the
// answer, and the request waited again, or was told that nothing was done. The event that ended it comes before the next
// grant, and was requested before that answer, or by nobody. What a client was not told of goes back behind its answer.
func (p *lockPast) inVain(at int) bool {
	e := p.events[at]
	o := p.named[e.name]
	if e.kind != "granted" || e.by != "LOCK" || o == nil || o.Outcome == history.Info || !mayAskAgain(o) ||
		o.In[0] != e.token || !p.unheard(e) {
		return false
	}
	over := o.End
	if !o.OK() {
		over = dueAt(p.h, o.End)
	}
	for _, next := range p.events[at+1:] { // other clients may begin to wait, and give up, in between
		switch by := p.named[next.name]; {
		case next.hole:
			return true // its end was forgotten
		case next.kind == "granted":
			return false
		case next.ends():
			return next.grant() == e.grant() && (by == nil || by.Start < over)
		}
	}
	return false
}

// causes reports whether an answered request caused an event of a kind.
func (p *lockPast) causes(o *history.Op, kind string) bool {
	switch {
	case o.Name == "release" || o.Name == "delete" || o.Name == "force":
		return o.Out[0] != "0"
	case o.Name == "hand":
		return isHanded(o)
	case kind == "granted" && asksFor(o):
		return isGrant(o)
	case kind == "gave-up" || kind == "left":
		return o.Name == "enter" && o.Out[0] == absent
	}
	return true
}

// mayCause reports whether a request is of the kind, and about the token, of an event.
func (p *lockPast) mayCause(o *history.Op, e *pastEvent) bool {
	own := o.In[0] == e.token
	switch e.kind {
	case "granted":
		if o.Name == "hand" {
			return own && e.by != "LOCK"
		}
		fence, fenced := fenceOf(o)
		return own && asksFor(o) && (!fenced || fence == e.fence) && (e.by == "LOCK") == (o.Name != "acquire")
	case "released":
		if o.Name == "delete" {
			return e.by == "DEL" && len(p.of[e.token]) > 0 && workerOf(o) == workerOf(p.of[e.token][0])
		}
		return own && o.Name == "release"
	case "deleted":
		return o.Name == "delete"
	case "overwritten":
		return o.Name == "overwrite" || o.Name == "hand" && o.In[2] == e.token
	case "forced":
		return o.Name == "force"
	case "left":
		return own && o.Name == "enter" &&
			slices.ContainsFunc(p.of[e.token], func(o *history.Op) bool { return o.Name == "release" })
	case "gave-up", "gone", "replaced":
		return own && o.Name == "enter"
	}
	return false // refused, moved ...
}

// names reports whether a LOCKS FORCE is about the holder with a token and a fence.
func names(o *history.Op, token string, fence int64) bool {
	return (o.In[0] == "" || o.In[0] == token) &&
		(len(o.In) < 4 || o.In[2] == "" || o.In[2] == strconv.FormatInt(fence, 10))
}

// judgeForces judges answers of LOCKS FORCE that name a holder, where a later answer tells all events until then.
func (p *lockPast) judgeForces(v *Verdict, m *memory) {
	if !p.isWhole() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.named)) {
		o := p.named[name]
		if o.Name != "force" || !o.OK() || names(o, "", -1) || !p.toldAfter(o, m) {
			continue
		}
		from, to := p.during(o)
		all, other := true, false // at every moment of the request; at one
		for n := from; n <= to; n++ {
			held := heldAfter(p.events[:n])
			all = all && held != nil && names(o, held.token, held.fence)
			other = other || held != nil && !names(o, held.token, held.fence)
		}
		if all || other {
			v.Stake(ruleForce, 1)
		}
		if all && o.Out[0] == "0" {
			v.Add(forcedNobody, o, "that was the holder all the time")
		}
	}
}

// judgeHands judges locks that changed hands, and their fences, where a later answer tells all events until then.
func (p *lockPast) judgeHands(v *Verdict, m *memory) {
	if !p.isWhole() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.named)) {
		o := p.named[name]
		if !isHanded(o) || !p.toldAfter(o, m) {
			continue
		}
		v.Stake(ruleHanded, 1)
		has := func(kind, token string) bool {
			return slices.ContainsFunc(p.events, func(e *pastEvent) bool {
				return e.name == name && e.kind == kind && e.token == token
			})
		}
		if !has("overwritten", o.In[2]) || !has("granted", o.In[0]) {
			v.Add(handedWrong, o, "the history has not both, its loss and its grant")
		}
	}
	for _, o := range p.fences {
		if !p.toldAfter(o, m) || len(p.of[o.Out[0]]) == 0 {
			continue // it is no token
		}
		if !slices.ContainsFunc(p.events, func(e *pastEvent) bool {
			return e.kind == "granted" && e.grant() == grantOf(o.Out[0], o.Out[1])
		}) {
			v.Add(fenceOfOther, o, "no grant of that token has that fence")
		}
	}
}

// heldAfter returns the grant of the holder after some events; nil: there is none.
func heldAfter(events []*pastEvent) (held *pastEvent) {
	for _, e := range events {
		switch {
		case e.kind == "granted":
			held = e
		case e.ends():
			held = nil
		}
	}
	return held
}

// workerOf returns the worker in the name of a request.
func workerOf(o *history.Op) string {
	worker, _, _ := strings.Cut(o.In[len(o.In)-1], ".")
	return worker
}

// againTime is the shortest time after which a waiting request asks for its lock again: the leader does not agree that
// the client is told, since it has lost touch with the node, or the lease is too old. The first time may come at once.
const againTime = int64(100 * time.Millisecond)

// leaseWrong judges what is told about the lease of a lost lock: that a request gave it, how often it was renewed, and
// that it ended no earlier.
func (p *lockPast) leaseWrong(e *pastEvent) (kind, why string) {
	gave, least, most := false, int64(0), int64(-1)
	for _, o := range p.of[e.token] {
		if o.Name == "release" || !mayAskAgain(o) && (!o.Maybe() || o.OK() && !isGrant(o) && !isHanded(o)) {
			continue
		}
		if most++; mayAskAgain(o) {
			most += 1 + (o.End-o.Start)/againTime
		}
		gave = gave || o.In[1] == strconv.FormatInt(e.lease, 10)
		if fence, ok := fenceOf(o); ok && o.Name == "renew" && fence == e.fence {
			least++
		}
	}
	switch {
	case !gave:
		return toldOtherwise, "nobody gave the token that lease"
	case e.renewals < least || e.renewals > most:
		return toldOtherwise, fmt.Sprintf("it was renewed from %d to %d times", least, most)
	case e.kind == "expired" && (e.held < e.lease || e.renewals == 0 && e.held != e.lease):
		return toldOtherwise, "that was not the end of its lease"
	}
	return "", ""
}

// inOrder reports events after another one that was requested only when they were done.
func (p *lockPast) inOrder(v *Verdict) {
	var last *history.Op // of the events before: the request that began last
	for _, e := range p.events {
		o := p.named[e.name]
		if o == nil {
			continue
		}
		if last != nil {
			v.Stake(ruleOrdered, 1)
		}
		if last != nil && o.End < last.Start {
			v.Add(toldMisplaced, inBrief(e.told), "%s: it comes after %s", e.text, last)
		}
		if last == nil || o.Start > last.Start {
			last = o
		}
	}
}

// holes reports grants and losses that are missing between others.
func (p *lockPast) holes(v *Verdict) {
	var held *pastEvent
	known, fence := true, int64(0)
	for _, e := range p.events {
		if e.hole {
			held, known = nil, false
		}
		switch {
		case e.kind == "granted":
			if known && fence > 0 {
				v.Stake(ruleWhole, 1)
				v.Stake(ruleFence, 1)
			}
			if held != nil {
				v.Add(toldInPart, inBrief(e.told), "%s: the end of %s is missing", e.text, held.text)
			}
			if e.fence <= fence {
				v.Add("fence not greater", inBrief(e.told), "%s: there was fence %d before", e.text, fence)
			}
			held, known, fence = e, true, max(fence, e.fence)
		case e.ends():
			switch {
			case known && (held == nil || held.grant() != e.grant()):
				v.Add(toldInPart, inBrief(e.told), "%s: its grant is missing", e.text)
			case held != nil && e.held != e.tick-held.tick:
				v.Add(toldOtherwise, inBrief(e.told), "%s: it was got by %s", e.text, held.text)
			}
			held, known = nil, true
		}
	}
}

// forgotten reports what an answer must tell and does not: earlier operations, and earlier answers' events.
func (p *lockPast) forgotten(v *Verdict, m *memory) {
	for i, a := range p.answers {
		horizon := m.horizon(a)
		for _, o := range p.done {
			if o.End >= a.o.Start || o.Start <= horizon {
				continue
			}
			v.Stake(ruleRemembers, 1)
			if !a.tells(o) {
				v.Add(toldNoMore, inBrief(a.o), "%s is missing", o)
			}
		}
		all := horizon < p.first
		if len(a.events) == 0 && !all {
			continue
		}
		for _, b := range p.answers[:i] {
			if b.o.End < a.o.Start && b.to > a.to || all && b.from < a.from && len(b.events) > 0 {
				v.Add(toldNoMore, inBrief(a.o), "%s had told more", inBrief(b.o))
				break
			}
		}
	}
}

// tells reports whether an answer has the event of an operation.
func (a *pastAnswer) tells(o *history.Op) bool {
	if _, fenced := fenceOf(o); fenced {
		return a.grants[grantOf(o.In[0], o.Out[0])]
	}
	return a.names[o.In[len(o.In)-1]]
}

// judgeWhys judges answers about single tokens for which a later answer tells all events until then. It returns how
// many it judged.
func (p *lockPast) judgeWhys(v *Verdict, m *memory) (judged int) {
	for _, o := range p.whys {
		if !p.isWhole() || !p.toldAfter(o, m) {
			continue
		}
		judged++
		v.Stake(ruleWhy, 1)
		if !p.explains(o, m.forgets()) {
			v.Add(toldWrongWhy, o, "the history tells something else about the token")
		}
	}
	return judged
}

// isWhole reports whether no event between others was forgotten.
func (p *lockPast) isWhole() bool {
	return !slices.ContainsFunc(p.events, func(e *pastEvent) bool { return e.hole })
}

// toldAfter reports whether an answer tells all events until the end of a question.
func (p *lockPast) toldAfter(o *history.Op, m *memory) bool {
	return slices.ContainsFunc(p.answers, func(a *pastAnswer) bool {
		return a.o.Start > o.End && (len(a.events) > 0 || m.horizon(a) < p.first)
	})
}

// explains reports whether an answer about a token was right at some moment during its request.
func (p *lockPast) explains(o *history.Op, forgets bool) bool {
	token := o.In[0]
	if o.Out[0] == "waits" {
		return slices.ContainsFunc(p.of[token], func(w *history.Op) bool {
			return w.Name == "enter" && w.Start < o.End && w.End > o.Start
		})
	}
	from, to := p.during(o)
	for n := from; n <= to; n++ {
		for start := 0; start <= n; start++ {
			if start > 0 && (!forgets || p.events[start-1].token != token) {
				continue
			}
			if slices.Equal(becameOf(p.events[start:n], token), o.Out[:5]) {
				return true
			}
		}
	}
	return false
}

// during returns the least and the greatest number of events during a request.
func (p *lockPast) during(o *history.Op) (from, to int) {
	to = len(p.events)
	for i, e := range p.events {
		cause := p.named[e.name]
		switch {
		case cause == nil:
		case cause.End < o.Start:
			from = i + 1
		case cause.Start > o.End:
			to = min(to, i)
		}
	}
	for _, a := range p.answers {
		if a.o.End < o.Start {
			from = max(from, a.to)
		}
	}
	return from, max(from, to)
}

// becameOf returns what became of a token's lock, in the words of why.
func becameOf(events []*pastEvent, token string) []string {
	var grant, end, next *pastEvent
	for _, e := range events {
		switch own := e.token == token; {
		case own && e.kind == "granted":
			grant, end, next = e, nil, nil
		case own && e.ends():
			end, next = e, nil
		case own:
			grant, end, next = nil, e, nil
		case e.kind == "granted" && end != nil && next == nil:
			next = e
		}
	}
	said := []string{"nothing", "", "", "", ""}
	switch {
	case end != nil && end.by == "DEL":
		said[0] = "DEL"
	case end != nil:
		said[0], said[2] = end.kind, end.reason
	case grant != nil:
		said[0] = "held"
	}
	if has := cmp.Or(grant, end); has != nil && has.fence > 0 {
		said[1] = strconv.FormatInt(has.fence, 10)
	}
	if next != nil {
		said[3], said[4] = next.token, strconv.FormatInt(next.fence, 10)
	}
	return said
}
