package model

import (
	"strconv"

	"lockd/jepsen-lite/history"
)

// reentrant: lock owner ms = nil (taken) | held; unlock owner ms = 1 (free) | 0 (one
// level less) | nil (not the owner); renew owner ms = 1 | 0; count owner = number | nil.
// "held" stands for any remaining time. All may tell more, as those of plainLock.
var reentrant = &lockKind{
	kind:    "reentrant lock",
	ops:     []string{"lock", "unlock", "renew", "count"},
	writes:  []string{"lock", "unlock", "renew"},
	leasing: reentrantLeasing,
	step:    reentrantStep,
	name:    func(*history.Op) string { return "reentrant lock" },
}

// ReentrantMachine is for Picture.
var ReentrantMachine = Machine{reentrant.picture}

// Reentrant judges Redisson's lock: who holds it, how often, and until when.
func Reentrant(h *history.History) *Verdict {
	v := &Verdict{}
	reentrant.judge(v, h)
	return v
}

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
