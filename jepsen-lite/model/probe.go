package model

import (
	"maps"
	"slices"
	"strings"

	"lockd/jepsen-lite/history"
)

// Moved begins an element of rest that was moved away from its key.
const Moved = ">"

// Probes judges keys to which one client adds some elements at once, and for which two clients wait: offer how elements
// = number; seize how ms = elements | nil; rest = the elements that are there, in order, and the moved ones. how tells
// from which end elements are taken, and how many: left, right, left-two, left-move, right-move.
//
// Each element is given to one client, or is there. An element for a client that hung up, or whose node had died, is
// put back at its place, or another client has it, in time.
func Probes(h *history.History) *Verdict {
	v := &Verdict{}
	keys := map[string]*probed{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "offer" && o.Name != "seize" && o.Name != "rest" {
			continue
		}
		if keys[o.Key] == nil {
			keys[o.Key] = &probed{h: h}
		}
		keys[o.Key].add(o)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		p := keys[key]
		if p.offer == nil {
			continue
		}
		p.judge(v)
		p.succession().judge(v)
	}
	return v
}

// probed is one key.
type probed struct {
	h      *history.History
	offer  *history.Op
	seizes []*history.Op // in the order of their starts
	rests  []*history.Op // the answered ones
}

func (p *probed) add(o *history.Op) {
	switch {
	case o.Name == "seize":
		p.seizes = append(p.seizes, o)
	case o.Name == "offer":
		p.offer = o
	case o.OK():
		p.rests = append(p.rests, o)
	}
}

// succession finds the roles of the clients.
func (p *probed) succession() *succession {
	w := &succession{h: p.h, tried: p.offer.Start, got: hasElements, before: p.before}
	if len(p.seizes) == 2 {
		w.first, w.second = p.seizes[0], p.seizes[1]
	}
	if p.offer.OK() {
		w.given = p.offer
	}
	all := strings.HasSuffix(p.offer.In[0], "-two") || len(p.elements()) == 1
	if all && w.first != nil && w.first.OK() {
		w.second = nil // no element is left for it
	}
	return w
}

// hasElements reports whether an operation got elements.
func hasElements(o *history.Op) bool { return o.OK() && o.Out[0] != absent }

// before reports whether b, which has elements, has one that is taken before those of a.
func (p *probed) before(b, a *history.Op) bool {
	if !hasElements(a) {
		return true
	}
	of, than := slices.Index(p.elements(), b.Out[0]), slices.Index(p.elements(), a.Out[0])
	if strings.HasPrefix(p.offer.In[0], "right") {
		of, than = than, of
	}
	return of < than
}

// elements returns the offered elements.
func (p *probed) elements() []string { return p.offer.In[1:] }

// judge judges the contents of all answers.
func (p *probed) judge(v *Verdict) {
	by := map[string]*history.Op{}
	for _, o := range p.seizes {
		if !o.OK() || o.Out[0] == absent {
			continue
		}
		for _, e := range o.Out {
			switch {
			case !slices.Contains(p.elements(), e):
				v.Add("never pushed", o, "nobody had sent %q", e)
			case by[e] != nil:
				v.Add("given out twice", o, "%s had been given it", by[e])
			case p.offer.Outcome == history.Fail:
				v.Add("failed but done", o, "%s", p.offer)
			}
			by[e] = o
		}
	}
	for i, rest := range p.rests {
		p.judgeRest(v, rest, by, i == len(p.rests)-1)
	}
}

// judgeRest judges what was there at a moment. last tells that nobody looked later.
func (p *probed) judgeRest(v *Verdict, rest *history.Op, by map[string]*history.Op, last bool) {
	moves := strings.HasSuffix(p.offer.In[0], "-move")
	settled := rest.Start > p.settled()
	if p.leavers() > 0 && p.offer.OK() && p.offer.End < rest.Start && settled {
		v.Stake(ruleBackSoon, 1)
		if last {
			v.Stake(ruleBack, 1)
		}
	}
	there, places := map[string]bool{}, []int(nil)
	for _, word := range rest.Out {
		e, moved := strings.CutPrefix(word, Moved)
		i := slices.Index(p.elements(), e)
		switch {
		case i < 0:
			v.Add("never pushed", rest, "nobody had sent %q", e)
		case there[e]:
			v.Add("given out twice", rest, "%s is there twice", e)
		case by[e] != nil && (!moved || !moves):
			v.Add("given out twice", rest, "%s is there, and %s", word, by[e])
		case moved && by[e] == nil && settled && last && p.doubts() == 0:
			v.Add("moved for nobody", rest, "%s was moved, and the client that had asked for that is gone", e)
		}
		if there[e] = true; !moved {
			places = append(places, i)
		}
	}
	if !slices.IsSorted(places) && p.unanswered() < 2 {
		v.Add("put back elsewhere", rest, "the order was that of %s", p.offer)
	}
	if !p.offer.OK() || p.offer.End > rest.Start || !settled {
		return
	}
	var lost []string
	for _, e := range p.elements() {
		if by[e] == nil && !there[e] || moves && by[e] != nil && !there[e] {
			lost = append(lost, e)
		}
	}
	if len(lost) > p.doubts() {
		kind := "put back late"
		if last {
			kind = "lost"
		}
		v.Add(kind, p.offer, "%q are missing, and at most %d can have been given to clients that do not know it: %s", lost, p.doubts(), rest)
	}
}

// settled returns when all elements have certainly been put back, of clients that are gone and of those whose node was
// silent.
func (p *probed) settled() int64 {
	at := p.offer.Told
	for _, o := range p.seizes {
		at = max(at, o.Told)
	}
	return dueAt(p.h, at)
}

// doubts returns how many elements may have been given to clients that do not know it.
func (p *probed) doubts() (n int) {
	for _, o := range p.seizes {
		if o.Outcome != history.Info || p.offer.Start > mayHear(p.h, o) {
			continue
		}
		if n++; strings.HasSuffix(o.In[0], "-two") {
			n++
		}
	}
	return n
}

// leavers returns how many waiters had no answer.
func (p *probed) leavers() (n int) {
	for _, o := range p.seizes {
		if o.Outcome == history.Info {
			n++
		}
	}
	return n
}

// unanswered returns how many waiters got no element.
func (p *probed) unanswered() (n int) {
	for _, o := range p.seizes {
		if !o.OK() || o.Out[0] == absent {
			n++
		}
	}
	return n
}

// mayHear returns the latest moment at which a node may have answered an operation of unknown outcome, since it took
// the client for connected. It is before all others if the client saw the connection closed by a living node, and no
// later than the end of the node's process.
func mayHear(h *history.History, o *history.Op) int64 {
	gone, silent := silentFrom(h, o.Node, o.Start, o.Told+settledIn)
	if o.Error == Gone && !silent {
		return -1
	}
	until := dueAt(h, o.Told)
	if h.Disturbed(o.Told, o.Told+hangUpTime, settledIn) == 0 {
		until = o.Told + hangUpTime
	}
	if silent && gone.dead {
		until = min(until, downAt(h, o.Node, gone.from))
	}
	return until
}

// downAt returns when the process of a node had certainly ended, if it ended after a moment.
func downAt(h *history.History, node string, after int64) int64 {
	for _, m := range h.Marks {
		if m.Op == history.Down && m.Node == node && m.Time >= after {
			return m.Time
		}
	}
	return history.Forever
}
