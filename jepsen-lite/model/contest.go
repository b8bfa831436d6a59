package model

import (
	"slices"

	"lockd/jepsen-lite/history"
)

// grip is a time in which a token certainly held a lock: from the answer that told so until its lease, counted from
// before its request, can end, or until the token's next request.
type grip struct {
	token, mode string
	from, to    int64
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
	for _, o := range ops {
		if len(o.In) == 0 || !o.Maybe() || o.Name == "fence" {
			continue
		}
		token := o.In[0]
		if i, held := last[token]; held {
			grips[i].to = min(grips[i].to, max(o.Start, grips[i].from))
		}
		if asksFor(o) {
			modes[token] = modeOf(o)
		}
		if isGrant(o) || o.Name == "renew" && o.OK() && o.Out[0] == "1" {
			last[token] = len(grips)
			grips = append(grips, grip{token, modes[token], o.End, o.Start + millis(o.In[1])})
		}
	}
	return grips
}

// contest counts what an answered operation puts at stake. fenced are the tokens that were told their fence.
func contest(v *Verdict, grips []grip, fenced map[string]bool, o *history.Op) {
	token, mode := tokenOf(o), modeOf(o)
	held, own, inTheWay, before, beside := false, false, false, false, 0
	for _, g := range grips {
		during := g.from < o.Start && min(o.End, o.Start+settledIn) < g.to // a waiter is in line by then
		held = held || during
		switch {
		case g.token == token:
			own = own || g.from < o.Start && o.Start <= g.to
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
	_, told := fenceOf(o)
	if told || o.Name == "fence" && o.Out[0] != absent && slices.Contains(o.In, token) {
		if fenced[token] {
			v.Stake(ruleSameFence, 1)
		}
		fenced[token] = true
	}
}
