package model

import (
	"slices"
	"strconv"

	"lockd/jepsen-lite/history"
)

const msNs = int64(1e6)

// lease is the state of a lock that one owner holds for some time. The times are
// bounds that hold for sure, not what the server computed: a lease runs at least
// until the time before its request was sent, plus its length.
type lease struct {
	owner string // "" : free
	count int    // of a reentrant lock
	fence int64  // once it is known
	until int64  // the lease has not ended before
	now   int64  // the last operation took effect no earlier
}

// possible lists what the state may be when o takes effect: unchanged, or, if o
// may lie after the end of the lease, free.
func (s lease) possible(o *history.Op) []lease {
	s.now = max(s.now, o.Start)
	if s.now > o.End {
		return nil
	}
	states := []lease{s}
	if s.owner != "" && o.End >= s.until {
		states = append(states, lease{now: max(s.now, s.until)})
	}
	return states
}

// leaseCovers: times are lower bounds, so the lower ones allow more.
func leaseCovers(a, b any) bool {
	l, than := a.(lease), b.(lease)
	if l.now > than.now || l.until > than.until {
		return false
	}
	l.now, l.until = than.now, than.until
	return l == than
}

// leaseStep makes a step of a machine over leases from one that knows no time. An
// operation whose outcome is unknown may never happen; and it need not be tried
// later than horizon, after which nothing was seen.
func leaseStep(step func(s lease, o *history.Op) (next lease, out string)) func(any, *history.Op, int64) []any {
	return func(state any, o *history.Op, horizon int64) []any {
		var next []any
		if !o.OK() {
			next = append(next, state)
		}
		for _, s := range state.(lease).possible(o) {
			n, out := step(s, o)
			if o.OK() && o.Out[0] != out || !o.OK() && (n == s || n.now > horizon) {
				continue
			}
			if !slices.Contains(next, any(n)) {
				next = append(next, n)
			}
		}
		return next
	}
}

func millis(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n * msNs
}

// lock: acquire token ms = OK | nil; renew token ms = 1 | 0; release token = 1 | 0;
// holder = token | nil; fence = number | nil.
var lock = machine{
	kind:   "lock",
	init:   lease{},
	reads:  func(o *history.Op) bool { return o.Name == "holder" || o.Name == "fence" },
	step:   leaseStep(lockStep),
	covers: leaseCovers,
}

// LockMachine is for Picture.
var LockMachine = Machine{lock}

func lockStep(s lease, o *history.Op) (lease, string) {
	switch o.Name {
	case "acquire":
		if s.owner != "" {
			return s, "nil"
		}
		return lease{owner: o.In[0], until: o.Start + millis(o.In[1]), now: s.now}, "OK"
	case "renew":
		if s.owner != o.In[0] {
			return s, "0"
		}
		s.until = o.Start + millis(o.In[1])
		return s, "1"
	case "release":
		if s.owner != o.In[0] {
			return s, "0"
		}
		return lease{now: s.now}, "1"
	case "fence":
		return fenceStep(s, o)
	case "holder":
		if s.owner == "" {
			return s, "nil"
		}
		return s, s.owner
	}
	return s, "" // events of the resource are not about the lock
}

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

// lockOps are the operations of a lock itself.
var lockOps = []string{"acquire", "renew", "release", "holder", "fence"}

// Lock judges plain locks: SET NX PX with a token. Nobody holds one for longer than its
// lease. Operations named "write" are
// those of the fenced resource: In is the token and the fence, Out "accepted" or
// "refused"; "unfenced" those of a resource that knows no fences.
func Lock(h *history.History) *Verdict {
	only := &history.History{Faults: h.Faults, End: h.End}
	for _, o := range h.Ops {
		if slices.Contains(lockOps, o.Name) {
			only.Ops = append(only.Ops, o)
		}
	}
	v := linearizable(only, lock)
	explain(v, only)
	fences(v, h)
	overlong(v, h, lockLeasing, "acquire", "renew", "release")
	return v
}

// explain gives what the search found its name: which promise was broken.
func explain(v *Verdict, h *history.History) {
	for i := range v.Problems {
		p := &v.Problems[i]
		o := h.At(p.Line)
		if p.Kind != lock.kind || o == nil {
			continue
		}
		switch {
		case o.Name == "acquire" && o.Out[0] == "OK":
			p.Kind = "two holders"
		case o.Name == "acquire":
			p.Kind = "refused although free"
		case o.Name == "fence" && o.Out[0] != "nil":
			p.Kind = "fence changed"
		case o.Out[0] == "0" || o.Out[0] == "nil":
			p.Kind = "lock lost early"
		default:
			p.Kind = "lock held by the wrong one"
		}
	}
}
