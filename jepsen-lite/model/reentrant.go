package model

import (
	"strconv"

	"lockd/jepsen-lite/history"
)

// reentrant: lock owner ms = nil (taken) | held; unlock owner ms = 1 (free) | 0 (one
// level less) | nil (not the owner); renew owner ms = 1 | 0; count owner = number | nil.
// "held" stands for any remaining time.
var reentrant = machine{
	kind:   "reentrant lock",
	init:   lease{},
	reads:  func(o *history.Op) bool { return o.Name == "count" },
	step:   leaseStep(reentrantStep),
	covers: leaseCovers,
}

// ReentrantMachine is for Picture.
var ReentrantMachine = Machine{reentrant}

// Reentrant judges Redisson's lock: who holds it, how often, and until when.
func Reentrant(h *history.History) *Verdict {
	v := linearizable(h, reentrant)
	overlong(v, h, reentrantLeasing, "lock", "unlock", "renew")
	return v
}

func reentrantStep(s lease, o *history.Op) (lease, string) {
	mine := s.owner == o.In[0]
	switch o.Name {
	case "lock":
		if s.owner != "" && !mine {
			return s, "held"
		}
		return lease{owner: o.In[0], count: s.count + 1, until: o.Start + millis(o.In[1]), now: s.now}, "nil"
	case "unlock":
		switch {
		case !mine:
			return s, "nil"
		case s.count == 1:
			return lease{now: s.now}, "1"
		}
		s.count--
		s.until = o.Start + millis(o.In[1])
		return s, "0"
	case "renew":
		if !mine {
			return s, "0"
		}
		s.until = o.Start + millis(o.In[1])
		return s, "1"
	}
	if !mine {
		return s, "nil"
	}
	return s, strconv.Itoa(s.count)
}
