package keyspace

import "slices"

// setOp computes a set from others: their union, intersection or difference. It
// changes nothing that is stored, so it gives up where the result, or the work, is
// more than one request may ask for; why is the error then.
//
// The order of the result follows from the orders of its sources alone.
type setOp struct {
	c      *ctx
	stored bool // the result is to be stored, not answered
	result *set
	why    string
}

func (c *ctx) newSetOp(stored bool) *setOp {
	op := &setOp{c: c, stored: stored, result: newSet(c.m.generation)}
	op.result.limit(c.m.settings.sets)
	return op
}

// spend counts work, and reports whether the operation may go on.
func (op *setOp) spend(work int64) bool {
	op.c.m.spend(work)
	if op.c.m.tired() {
		op.why = errWorkMeter
	}
	return op.why == ""
}

// add puts a member into the result, and reports whether the operation may go on.
// The member is shared with its source: strings do not change.
func (op *setOp) add(member string) bool {
	form := op.result.form()
	if !op.spend(op.result.findWork(member)) {
		return false
	}
	op.result.add(member)
	if op.result.form() != form {
		op.spend(int64(op.result.len())*treeWork(op.result.len()) + hashWork*op.result.size())
	}
	switch {
	case op.stored && op.result.size() > growthBytesMax:
		op.why = errGrowthMeter
	case !op.stored && op.result.replyBytes() > replyBytesMax:
		op.why = errReplyTooLarge
	}
	return op.why == ""
}

// isIn looks for a member in one of the sources.
func (op *setOp) isIn(s *set, member string) bool {
	return op.spend(s.findWork(member)) && s.has(member)
}

// union adds all members of all sets, in their order.
func (op *setOp) union(sets []*set) {
	for _, s := range sets {
		if op.why == "" {
			s.each(op.add)
		}
	}
}

// inter calls visit with each member that all sets have, in the order of the first
// of them, until it returns false. The smallest should be the first.
func (op *setOp) inter(sets []*set, visit func(member string) bool) {
	sets[0].each(func(member string) bool {
		if !op.spend(visitWork) {
			return false
		}
		for _, s := range sets[1:] {
			if s != sets[0] && !op.isIn(s, member) {
				return op.why == ""
			}
		}
		return op.why == "" && visit(member)
	})
}

// interset is the intersection as a set. Redis begins with the form of the smallest
// set, and ends with an intset where that is possible.
func (op *setOp) interset(sets []*set) {
	if sets[0].len() > 0 && sets[0].form() != setInts {
		op.result.beginSmall()
	}
	op.inter(sets, op.add)
	if op.why == "" {
		op.result.compact()
	}
}

// smallestFirst orders sets by their size.
func smallestFirst(sets []*set) []*set {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *set) int { return a.len() - b.len() })
	return sets
}

// diff adds the members of the first set that none of the others has, in its order.
func (op *setOp) diff(first *set, others []*set) {
	if cheaperFromOthers(first, others) {
		others = []*set{op.common(first, others)}
	}
	first.each(func(member string) bool {
		if !op.spend(visitWork) {
			return false
		}
		for _, s := range others {
			if op.isIn(s, member) {
				return op.why == ""
			}
		}
		return op.why == "" && op.add(member)
	})
}

// cheaperFromOthers reports whether it is less work to look in first for every
// member of the others than to look for those of first in every other one.
func cheaperFromOthers(first *set, others []*set) bool {
	var inOthers, inFirst int64
	for _, s := range others {
		inOthers += int64(first.len()) * s.findWork("")
		inFirst += int64(s.len()) * first.findWork("")
	}
	return inFirst+int64(first.len())*findWork < inOthers
}

// common is the set of the members of first that any of the others has.
func (op *setOp) common(first *set, others []*set) *set {
	found := newSet(op.c.m.generation)
	for _, s := range others {
		s.each(func(member string) bool {
			if op.isIn(first, member) && op.spend(growWork(found, []string{member})) {
				found.add(member)
			}
			return op.spend(visitWork)
		})
	}
	return found
}
