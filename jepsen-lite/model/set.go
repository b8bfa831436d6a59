package model

import (
	"strconv"
	"strings"

	"lockd/jepsen-lite/history"
)

// Set judges sets to which unique members are added: add member = 1; read = all members. No acknowledged member is
// missing, no failed or unsent one appears, and a member that was seen stays.
func Set(h *history.History) *Verdict {
	v := &Verdict{}
	adds := map[string]map[string]*history.Op{} // key -> member -> add
	reads := map[string][]*history.Op{}
	for i := range h.Ops {
		o := &h.Ops[i]
		switch {
		case o.Name == "add":
			if adds[o.Key] == nil {
				adds[o.Key] = map[string]*history.Op{}
			}
			adds[o.Key][o.In[0]] = o
			if o.OK() && o.Out[0] != "1" {
				v.Add("added twice", o, "it was there before it was added")
			}
		case o.OK():
			reads[o.Key] = append(reads[o.Key], o)
		}
	}
	for key, rs := range reads {
		first, kept := map[string]*history.Op{}, map[string]bool{} // member -> the first completed read with it
		for _, r := range rs {
			checkSetRead(v, adds[key], first, kept, r)
		}
		v.Stake(ruleMembers, len(kept))
		v.Stake(ruleMembersOnce, len(first))
	}
	return v
}

// checkSetRead judges one read; reads come in the order of their starts. kept are the members that may not be missing.
func checkSetRead(v *Verdict, adds, first map[string]*history.Op, kept map[string]bool, r *history.Op) {
	has := map[string]bool{}
	for _, m := range r.Out {
		if has[m] {
			v.Add("listed twice", brief(r), "%q is there twice", m)
		}
		has[m] = true
		switch a := adds[m]; {
		case a == nil || a.Start > r.End:
			v.Add("never added", r, "nobody had sent %q", m)
		case a.Outcome == history.Fail:
			v.Add("failed but done", r, "%s", a)
		}
	}
	var lost []string
	for m, a := range adds {
		must := first[m] != nil && first[m].End < r.Start || a.OK() && a.End < r.Start
		if must {
			kept[m] = true
		}
		if has[m] {
			if f := first[m]; f == nil || r.End < f.End {
				first[m] = r
			}
		} else if must {
			lost = append(lost, m)
		}
	}
	if len(lost) > 0 {
		short := *r
		short.Out = []string{"..."}
		v.Add("lost", &short, "%d members are missing that had been acknowledged or seen before, among them %s: %s",
			len(lost), lost[0], adds[lost[0]])
	}
}

// Bank judges transfers between accounts: read = all balances; transfer from to amount id = "done", "aborted" or
// "poor", on the ledger to which it writes its id; ledger = ids and how often each was done. The sum never changes, no
// account is overdrawn, and each successful transfer is done once.
func Bank(h *history.History) *Verdict {
	v := &Verdict{}
	ledgers(v, h)
	sum := int64(-1)
	reads := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name == "init" && sum < 0 && len(o.In) > 0 {
			sum = total(o.In)
		}
		if o.Name != "read" || !o.OK() {
			continue
		}
		reads++
		if sum >= 0 {
			v.Stake(ruleSum, 1)
		}
		if got := total(o.Out); got != sum {
			v.Add("sum changed", o, "the balances add up to %d, not to %d", got, sum)
		}
		for _, b := range o.Out {
			if strings.HasPrefix(b, "-") {
				v.Add("overdrawn", o, "a transfer that was too large took effect")
				break
			}
		}
	}
	v.Note("%d reads of all accounts", reads)
	return v
}

// total adds up balances. A balance that is no number counts as far off.
func total(balances []string) int64 {
	sum := int64(0)
	for _, b := range balances {
		n := millis(b) / msNs
		if b != "0" && n == 0 {
			n = -1 << 40
		}
		sum += n
	}
	return sum
}

// ledgers judges the ledgers.
func ledgers(v *Verdict, h *history.History) {
	books, s := map[string]changes{}, newStakes()
	defer s.count(v)
	for _, o := range h.Ops {
		if o.Name != "transfer" || len(o.In) < 4 {
			continue
		}
		if o.OK() && o.Out[0] != "done" {
			o.Outcome, o.Error = history.Fail, o.Out[0]
		}
		if books[o.Key] == nil {
			books[o.Key] = changes{}
		}
		books[o.Key][o.In[3]] = &o
	}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Name == "ledger" && o.OK() {
			short := *o
			short.Out = []string{"..."}
			books[o.Key].check(v, s, &short, timesOf(o.Out))
		}
	}
}

// timesOf makes a map of names and how often each occurs.
func timesOf(out []string) map[string]int64 {
	times := map[string]int64{}
	for i := 0; i+1 < len(out); i += 2 {
		times[out[i]], _ = strconv.ParseInt(out[i+1], 10, 64)
	}
	return times
}
