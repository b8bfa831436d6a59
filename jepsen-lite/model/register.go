package model

import "lockd/jepsen-lite/history"

// absent is the value of a register that does not exist.
const absent = "nil"

// register: get = value | nil; set v = OK; swap v = the value before | nil; setnx v = OK | nil; cas old new = 1 | 0;
// del = 1 | 0.
var register = machine{
	rule:  ruleRegister,
	kind:  "not linearizable",
	init:  absent,
	reads: func(o *history.Op) bool { return o.Name == "get" },
	step:  registerStep,
}

// RegisterMachine is the machine of Register, for Picture.
var RegisterMachine = always(register)

// Register judges single keys that are read, written, compared and deleted: each is linearizable. Each "set" and each
// successful "cas" also appends its value to the versions of the key; "versions" = all of them. They show a write that
// was lost or done twice even after another write.
func Register(h *history.History) *Verdict {
	only := &history.History{Faults: h.Faults, End: h.End}
	writes := map[string]changes{}
	for _, o := range h.Ops {
		if o.Name != "versions" {
			only.Ops = append(only.Ops, o)
		}
		if o.Name != "set" && o.Name != "cas" {
			continue
		}
		if writes[o.Key] == nil {
			writes[o.Key] = changes{}
		}
		if o.OK() && o.Out[0] == "0" {
			o.Outcome, o.Error = history.Fail, "it was another value"
		}
		writes[o.Key][o.In[len(o.In)-1]] = &o
	}
	v, s := &Verdict{}, newStakes()
	defer s.count(v)
	linearizable(v, only, register)
	for i := range v.Problems {
		if o := h.At(v.Problems[i].Line); o != nil {
			v.Problems[i].Kind = registerKind(h, o)
		}
	}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "versions" && o.OK() {
			seen := map[string]int64{}
			for _, value := range o.Out {
				seen[value]++
			}
			writes[o.Key].check(v, s, brief(o), seen)
		}
	}
	return v
}

// registerKind names a wrong answer where that is plain: it ignores a write that was acknowledged before, and others
// saw that write later (a stale read), or nobody saw it again (a lost write).
func registerKind(h *history.History, o *history.Op) string {
	var last *history.Op // the last write of this key that completed before o began
	for i := range h.Ops {
		w := &h.Ops[i]
		if w.Key == o.Key && w.OK() && w.End < o.Start && wrote(w) != "" && (last == nil || w.Start > last.Start) {
			last = w
		}
	}
	switch {
	case last == nil || o.Name != "get" && o.Name != "swap" && o.Out[0] == "1" || o.Out[0] == wrote(last):
		return register.kind
	case removed(h, last, o):
		return register.kind
	}
	for i := range h.Ops {
		r := &h.Ops[i]
		if r.Key == o.Key && r.Name == "get" && r.OK() && r.Start > o.End && r.Out[0] == wrote(last) {
			return "stale read"
		}
	}
	return "acknowledged write lost"
}

// wrote returns the value that an acknowledged operation left, or "".
func wrote(o *history.Op) string {
	switch {
	case o.Name == "set", o.Name == "swap", o.Name == "setnx" && o.Out[0] == "OK":
		return o.In[0]
	case o.Name == "cas" && o.Out[0] == "1":
		return o.In[1]
	}
	return ""
}

// removed reports whether another operation may have replaced w's value before o ended.
func removed(h *history.History, w, o *history.Op) bool {
	for i := range h.Ops {
		x := &h.Ops[i]
		if x == w || x == o || x.Key != w.Key || !x.Maybe() || x.End < w.Start || x.Start > o.End {
			continue
		}
		if x.Name == "del" || x.Name == "set" || x.Name == "swap" || x.Name == "cas" && !(x.OK() && x.Out[0] == "0") ||
			x.Name == "setnx" && !x.OK() {
			return true
		}
	}
	return false
}

// registerStep is the step of register.
func registerStep(state any, o *history.Op, _ int64) []any {
	now := state.(string)
	next, out := now, now
	switch o.Name {
	case "versions": // judged elsewhere, and only drawn here
		return []any{state}
	case "get":
	case "set":
		next, out = o.In[0], "OK"
	case "swap":
		next = o.In[0]
	case "setnx":
		out = "nil"
		if now == absent {
			next, out = o.In[0], "OK"
		}
	case "cas":
		out = "0"
		if now == o.In[0] {
			next, out = o.In[1], "1"
		}
	case "del":
		out = "0"
		if now != absent {
			next, out = absent, "1"
		}
	}
	if o.OK() && o.Out[0] != out {
		return nil
	}
	return []any{next}
}
