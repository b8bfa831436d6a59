package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lockd/resp"
	"lockd/resp/lockuse"
)

// Finding is a mistake in the locks of a template.
type Finding struct {
	Mistake  Mistake
	Template string
	Count    int64
	Example  string       // the key
	Client   *resp.Client // of the example, or nil
	Ms       int64        // how late, at most; for how long
}

// The bounds beyond which what happens is a mistake.
const (
	sameTimeMs     = 2000    // between the clocks of two nodes, with the way between them
	constantMin    = 3       // grants with one token
	twoStepsMin    = 3       // times that a key was taken by GET and SET
	redlockMin     = 3       // locks that one connection was refused after they were got by another node, and ...
	redlockShare   = 2       // ... and at least one refusal for this number of grants of its own
	zombieMs       = 600_000 // time for which a lock is held, ...
	zombieTimes    = 10      // ... as a multiple of the longest other one, ...
	zombieOthers   = 20      // ... where there were this number of others, ...
	zombieRenewals = 20      // ... and its lease was renewed as often
	suspectsMax    = 16
)

// StillTaken returns the observations of keys that were requested in vain and had no lease then. The caller, which knows
// the keys, calls NoLease for those that still have none.
func (c *Case) StillTaken() []*lockuse.Observation {
	var list []*lockuse.Observation
	for i := range c.Report.Observations {
		if s := &c.Report.Observations[i]; s.Kind == lockuse.StillTaken && len(s.Tokens) == 1 {
			list = append(list, s)
		}
	}
	return list
}

// NoLease records that the key of such an observation still exists, without a lease, and holds a token.
func (c *Case) NoLease(s *lockuse.Observation, token string) {
	if lockuse.Hash(token) != s.Tokens[0] {
		c.class(s.Key).found(SetNXNoLease, s.Key, &s.Client, 1, 0)
	}
}

// Suspect is a lock that has been held for a very long time.
type Suspect struct {
	DB    int
	Key   string
	Fence uint64
	hold  *hold
}

// Suspects returns the locks that possibly only a watchdog still holds: they are held far longer than others of their
// template, and their programs have neither got nor given up a lock since.
func (c *Case) Suspects() []Suspect {
	var list []Suspect
	for _, h := range c.open.byFence {
		heldMs := c.nowMs - h.fromMs
		if heldMs < zombieMs || h.client == nil || len(h.of.holds) < zombieOthers ||
			heldMs < zombieTimes*h.of.longest || c.active[programOf(h.client)] > h.fromMs {
			continue
		}
		list = append(list, Suspect{h.db, h.key, h.fence, h})
	}
	slices.SortFunc(list, func(a, b Suspect) int { return cmp.Compare(a.Fence, b.Fence) })
	return list[:min(len(list), suspectsMax)]
}

// Renewed records how often the lease of a suspect was renewed.
func (s *Suspect) Renewed(c *Case, renewals uint64) {
	if renewals >= zombieRenewals {
		s.hold.of.found(Zombie, s.Key, s.hold.client, 1, c.nowMs-s.hold.fromMs)
	}
}

// Findings compares the observations with the events. It is called once, after all events were added, and before Advice.
func (c *Case) Findings() []Finding {
	refused := map[uint64][]*hold{} // by client: what it had got by another node
	for i := range c.Report.Observations {
		switch s := &c.Report.Observations[i]; s.Kind {
		case lockuse.LeaseAfterwards:
			c.class(s.Key).found(SetNXExpire, s.Key, &s.Client, s.Count, 0)
		case lockuse.NoLease:
			c.class(s.Key).found(SetNXNoLease, s.Key, &s.Client, s.Count, 0)
		case lockuse.Polls:
			c.class(s.Key).found(Polling, s.Key, &s.Client, s.Count, 0)
		case lockuse.GetThenDel:
			c.class(s.Key).found(GetThenDel, s.Key, &s.Client, s.Count, 0)
		case lockuse.GetThenSet:
			if s.Count >= twoStepsMin {
				c.class(s.Key).found(GetThenSet, s.Key, &s.Client, s.Count, 0)
			}
		case lockuse.Extended:
			c.extended(s)
		case lockuse.LeaseDropped:
			if c.holdOf(s, func(h *hold) bool { return h.has(s) }) != nil {
				c.class(s.Key).found(LeaseDropped, s.Key, &s.Client, s.Count, 0)
			}
		case lockuse.Missed, lockuse.MissedDel:
			c.late(s)
		case lockuse.Refused:
			id := s.Client.ID
			h := c.holdOf(s, func(h *hold) bool { return h.elsewhere(s) })
			if h == nil || slices.Contains(refused[id], h) {
				continue
			}
			refused[id] = append(refused[id], h)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(refused)) {
		c.redlock(refused[id], c.grants[id])
	}
	return c.certain()
}

// redlock judges a connection by the locks that it was refused after another node had given them, and by the number
// that it was given itself. A client of Redlock asks every node for each lock, so one node gives it no more of them than
// another. A client that asks another node again, because an answer was lost, is given far more than it is refused.
func (c *Case) redlock(refused []*hold, grants int) {
	if len(refused) < max(redlockMin, (grants+redlockShare-1)/redlockShare) {
		return
	}
	for _, h := range refused {
		h.of.found(Redlock, h.key, h.client, 1, 0)
	}
}

// certain lists the mistakes that all events together prove.
func (c *Case) certain() []Finding {
	var list []Finding
	for _, w := range c.classes {
		// If most end with their leases, their keys are meant to expire: a pause, a limit, a cache.
		if isLock := w.freed > 0 && w.freed >= w.expired; !isLock {
			delete(w.mistakes, DelOfAnothers)
			delete(w.mistakes, SharedToken)
		} else if t := &w.tokens; t.grants >= constantMin && !t.vary && (t.programs || meansNothing(t.first)) {
			delete(w.mistakes, SharedToken)
			w.found(ConstantToken, t.last.Key, t.last.Client, int64(t.grants), 0)
		}
		if two, f := w.mistakes[GetThenDel], w.mistakes[DelOfAnothers]; two != nil && f != nil &&
			programOf(two.Client) == programOf(f.Client) {
			delete(w.mistakes, DelOfAnothers) // a consequence of that
		}
		for _, f := range w.mistakes {
			list = append(list, *f)
		}
	}
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Mistake, b.Mistake), cmp.Compare(b.Count, a.Count), strings.Compare(a.Template, b.Template))
	})
	return list
}

// meansNothing reports whether a token is a mere flag, and names nobody.
func meansNothing(token string) bool {
	return len(token) <= 1 || slices.ContainsFunc([]string{"true", "yes", "ok", "lock", "locked", "on", "value"},
		func(word string) bool { return resp.Is(token, word) })
}

// holdOf returns the newest hold that an observation may be about.
func (c *Case) holdOf(s *lockuse.Observation, fits func(h *hold) bool) *hold {
	for _, h := range slices.Backward(c.observed[s.Hash]) {
		if h.db == s.DB && fits(h) {
			return h
		}
	}
	return nil
}

// has reports whether the token of a hold is among those of an observation.
func (h *hold) has(s *lockuse.Observation) bool { return slices.Contains(s.Tokens, h.token) }

// elsewhere reports whether the program that was refused had just got the lock, through another node.
func (h *hold) elsewhere(s *lockuse.Observation) bool {
	return h.has(s) && h.client != nil && h.client.Node != s.Client.Node &&
		programOf(h.client) == programOf(&s.Client) && max(h.fromMs-s.AtMs, s.AtMs-h.fromMs) <= sameTimeMs
}

// extended looks for the hold of another program whose lease a client extended after its own had ended. The connections
// of one program may renew for each other.
func (c *Case) extended(s *lockuse.Observation) {
	own := c.holdOf(s, func(h *hold) bool { return h.has(s) && h.end == Expired && h.toMs < s.AtMs })
	if own == nil {
		return
	}
	by := programOf(&s.Client)
	other := c.holdOf(s, func(h *hold) bool {
		return h.fence > own.fence && !h.has(s) && h.client != nil && programOf(h.client) != by && h.fromMs <= s.AtMs &&
			(h.end == 0 || h.toMs >= s.AtMs)
	})
	if other != nil {
		own.outlived(s.AtMs)
		other.of.found(ExpireOfAnothers, other.key, &s.Client, 1, s.AtMs-own.toMs)
	}
}

// late looks for the hold that a client believed to have when it found the lock gone: the last hold before of its
// token, or of its connection. A miss just before a grant was an attempt to get the lock, and a script that found
// nothing before the end of the lease may have reported a renewal that way.
func (c *Case) late(s *lockuse.Observation) {
	mine := func(h *hold) bool {
		if s.Kind == lockuse.MissedDel {
			return h.client.Same(&s.Client)
		}
		return h.has(s)
	}
	h := c.holdOf(s, func(h *hold) bool { return mine(h) && h.fromMs <= s.AtMs+sameTimeMs })
	switch {
	case h == nil || h.end != Expired || h.script || s.AtMs < h.toMs-min(sameTimeMs, h.lease)/2:
	case s.Kind == lockuse.MissedDel && h.of.freed < h.of.expired:
	default:
		if !h.late {
			h.of.found(LateRelease, h.key, &s.Client, 1, 0)
		}
		h.outlived(s.AtMs)
		f := h.of.mistakes[LateRelease]
		if f != nil {
			f.Ms = max(f.Ms, h.lateMs)
		}
	}
}
