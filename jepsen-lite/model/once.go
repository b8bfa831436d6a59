package model

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"lockd/jepsen-lite/history"
)

// changes are operations by name, each of which is done once or never.
type changes map[string]*history.Op

// stakes counts the changes that the answers of a history show: those that were acknowledged, or had an unknown
// outcome, before one of the answers was requested; and those that an answer shows.
type stakes struct{ acked, unknown, shown map[*history.Op]bool }

func newStakes() stakes {
	return stakes{map[*history.Op]bool{}, map[*history.Op]bool{}, map[*history.Op]bool{}}
}

// count tells a verdict what was at stake.
func (s stakes) count(v *Verdict) {
	v.Stake(ruleKept, len(s.acked))
	v.Stake(ruleOnce, len(s.shown))
	v.Stake(ruleUnknown, len(s.unknown))
}

// check judges an answer that shows how often each change was made.
func (c changes) check(v *Verdict, s stakes, o *history.Op, seen map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		by := c[name]
		if seen[name] > 0 {
			s.shown[by] = true
		}
		switch {
		case seen[name] == 0:
		case by == nil || by.Start > o.End:
			v.Add("never sent", o, "nobody had sent %q", name)
		case by.Outcome == history.Fail:
			v.Add("failed but done", o, "%s", by)
		case seen[name] > 1:
			v.Add("done twice", o, "%s was done %d times", by, seen[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		by := c[name]
		switch {
		case by.Outcome == history.Info && by.Told < o.Start:
			s.unknown[by] = true
		case by.OK() && (by.End < o.Start || by == o):
			s.acked[by] = true
			if seen[name] == 0 {
				v.Add("update lost", o, "%s is missing", by)
			}
		}
	}
}

// A mark adds a power of four. So each mark has a digit in the sum, which tells whether it was added, and whether it
// was added again.
const (
	markBits  = 2
	MarksMax  = 62 / markBits // in one sum
	markDigit = 1<<markBits - 1
)

// Mark returns the value that mark number n adds.
func Mark(n int64) string { return strconv.FormatInt(1<<(markBits*n), 10) }

// marks judges sums of marks: mark number = sum; sum = sum. Each answer shows which marks were added before it. Of two
// answers one shows all marks of the other, and the later one does not show fewer.
func marks(v *Verdict, h *history.History) {
	keys := map[string]changes{}
	sums := map[string][]*history.Op{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "mark" && o.Name != "sum" {
			continue
		}
		if keys[o.Key] == nil {
			keys[o.Key] = changes{}
		}
		if o.Name == "mark" {
			keys[o.Key][o.In[0]] = o
		}
		if o.OK() {
			sums[o.Key] = append(sums[o.Key], o)
		}
	}
	total, s := 0, newStakes()
	defer s.count(v)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, o := range sums[key] {
			keys[key].check(v, s, o, digits(o))
		}
		v.Stake(ruleSums, max(len(sums[key])-1, 0))
		inOneOrder(v, sums[key])
		total += len(keys[key])
	}
	v.Note("%d additions with a digit of their own", total)
}

// value returns the sum in an answer.
func value(o *history.Op) int64 {
	n, _ := strconv.ParseInt(o.Out[0], 10, 64) // 0 for nil: nothing was added yet
	return n
}

// digits returns how often each mark is in a sum.
func digits(o *history.Op) map[string]int64 {
	seen := map[string]int64{}
	for n, sum := 0, value(o); sum > 0; n, sum = n+1, sum>>markBits {
		seen[strconv.Itoa(n)] = sum & markDigit
	}
	return seen
}

// inOneOrder checks that the answers can be ordered so that marks are only added, and that this is the order of their
// times.
func inOneOrder(v *Verdict, sums []*history.Op) {
	slices.SortStableFunc(sums, func(a, b *history.Op) int {
		return cmp.Or(
			cmp.Compare(bits.OnesCount64(uint64(value(a))), bits.OnesCount64(uint64(value(b)))),
			cmp.Compare(a.Start, b.Start),
		)
	})
	for i := 1; i < len(sums); i++ {
		if a, b := sums[i-1], sums[i]; value(a)&^value(b) != 0 {
			v.Add("order differs", b, "%s saw something that this one did not, and the other way round", a)
		}
	}
	var more, least *history.Op // the first to end: of the answers with more marks, and of these and those with as many
	for i := len(sums) - 1; i >= 0; i-- {
		o := sums[i]
		if i+1 < len(sums) && value(sums[i+1]) != value(o) {
			more = least
		}
		if more != nil && more.End < o.Start {
			v.Add("went back", o, "%s had seen more", more)
		}
		if least == nil || o.End < least.End {
			least = o
		}
	}
}

// stopped begins the answer to a script that met a limit.
const stopped = "error ERR Script stopped"

// Scripts judges scripts that write and then exceed a limit: poison key = answer; left key = the written value | nil. A
// script that was stopped is undone, and another one is not. Whether nodes die or differ is checked at the nodes.
func Scripts(h *history.History) *Verdict {
	v := &Verdict{}
	sent := map[string]*history.Op{}
	stops := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		p := sent[o.Key]
		switch {
		case o.Name == "poison":
			sent[o.Key] = o
			if o.OK() && strings.HasPrefix(o.Out[0], stopped) {
				stops++
			}
		case o.Name == "left" && o.OK() && p != nil:
			undone(v, p, o)
		}
	}
	v.Note("%d scripts that ask for too much, %d stopped at a limit", len(sent), stops)
	return v
}

// undone judges what a script p left.
func undone(v *Verdict, p, left *history.Op) {
	there := left.Out[0] != "nil"
	switch {
	case p.Outcome == history.Info:
	case p.Outcome == history.Fail:
		v.Stake(ruleScript, 1)
		if there {
			v.Add("failed but done", left, "%s", p)
		}
	case strings.HasPrefix(p.Out[0], stopped):
		v.Stake(ruleUndone, 1)
		if there {
			v.Add("not undone", left, "%s left this behind", p)
		}
	case !strings.HasPrefix(p.Out[0], "error "):
		v.Stake(ruleScript, 1)
		if !there {
			v.Add("acknowledged write lost", left, "%s wrote it", p)
		}
	}
}

// Counter judges counters that only grow, by one: add = the new value; read = the value. No acknowledged addition is
// lost, and none is done twice. As many additions as there are unknown outcomes could hide a second execution, so there
// are also marks, each with a digit of its own: mark number = the new value; sum = the value.
func Counter(h *history.History) *Verdict {
	v := &Verdict{}
	for _, c := range countersOf(h, 0, 1) {
		c.check(v)
	}
	marks(v, h)
	return v
}

// stockStart is the number of pieces in a new stock.
const stockStart = 1_000_000

// StockStart returns the number of pieces in a new stock.
func StockStart() string { return strconv.Itoa(stockStart) }

// Stock judges stocks that shrink by one: take buyer = pieces that are left, and pieces of the buyer; read = pieces
// that are left; sold = buyers and their pieces, in several keys.
func Stock(h *history.History) *Verdict {
	v := &Verdict{}
	for _, c := range countersOf(h, stockStart, -1) {
		c.check(v)
	}
	takes, s := map[string]changes{}, newStakes()
	defer s.count(v)
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "take" {
			continue
		}
		buyer, list := o.In[0], o.In[1]
		if takes[list] == nil {
			takes[list] = changes{}
		}
		takes[list][buyer] = o
		if o.OK() && o.Out[1] != "1" {
			v.Add("done twice", o, "its buyer has %s pieces now, and asked for one", o.Out[1])
		}
	}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Name != "sold" || !o.OK() {
			continue
		}
		short := *o
		short.Out = []string{"..."}
		takes[o.Key].check(v, s, &short, timesOf(o.Out))
	}
	return v
}

// tally is one counter, with the number of changes that each operation saw.
type tally struct {
	changes []*history.Op // done or perhaps done
	seen    []reading
}

// reading is a number that an operation saw.
type reading struct {
	op     *history.Op
	count  int64
	change bool // the operation is change number count
}

// tallied are the operations that change or show a number.
var tallied = []string{"add", "take", "read"}

// countersOf collects the counters of a history.
func countersOf(h *history.History, start, step int64) map[string]*tally {
	all := map[string]*tally{}
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Outcome == history.Fail || !slices.Contains(tallied, o.Name) {
			continue
		}
		c := all[o.Key]
		if c == nil {
			c = &tally{}
			all[o.Key] = c
		}
		change := o.Name != "read"
		if change {
			c.changes = append(c.changes, o)
		}
		if !o.OK() {
			continue
		}
		value := start
		if o.Out[0] != "nil" {
			value, _ = strconv.ParseInt(o.Out[0], 10, 64)
		}
		c.seen = append(c.seen, reading{o, (value - start) / step, change})
	}
	return all
}

// check compares each reading with the number of changes that were acknowledged before it began, with the number that
// were sent before it ended, and with earlier readings.
func (c *tally) check(v *Verdict) {
	var acked, sent []int64
	for _, o := range c.changes {
		sent = append(sent, o.Start)
		if o.OK() {
			acked = append(acked, o.End)
		}
	}
	slices.Sort(acked)
	slices.Sort(sent)
	by := map[int64]*history.Op{}
	byEnd := slices.Clone(c.seen)
	slices.SortFunc(byEnd, func(a, b reading) int { return cmp.Compare(a.op.End, b.op.End) })
	slices.SortFunc(c.seen, func(a, b reading) int { return cmp.Compare(a.op.Start, b.op.Start) })
	next, top, kept := 0, reading{}, 0
	for _, s := range c.seen {
		least, _ := slices.BinarySearch(acked, s.op.Start)
		most, _ := slices.BinarySearch(sent, s.op.End)
		if kept = max(kept, least); !s.change && least > 0 {
			v.Stake(ruleRead, 1)
		}
		if s.change {
			least++
			if other := by[s.count]; other != nil {
				v.Add("update lost", s.op, "%s had the same result", other)
			}
			by[s.count] = s.op
		}
		for ; next < len(byEnd) && byEnd[next].op.End < s.op.Start; next++ {
			if byEnd[next].count > top.count {
				top = byEnd[next]
			}
		}
		switch {
		case s.count < int64(least):
			v.Add(
				c.missing(s, int64(least)),
				s.op,
				"it saw %d changes; %d were acknowledged before it, or are its own",
				s.count,
				least,
			)
		case s.count > int64(most):
			v.Add("done twice", s.op, "it saw %d changes; only %d had been sent", s.count, most)
		case top.op != nil && s.count < top.count:
			v.Add("went back", s.op, "%s had seen %d changes, this one saw %d", top.op, top.count, s.count)
		}
	}
	v.Stake(ruleKept, kept)
	v.Stake(ruleOnce, kept)
}

// missing names an answer that shows too few changes: others saw them later, or nobody saw them again.
func (c *tally) missing(s reading, least int64) string {
	if !s.change &&
		slices.ContainsFunc(c.seen, func(l reading) bool { return l.op.Start > s.op.End && l.count >= least }) {
		return "stale read"
	}
	return "update lost"
}

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
