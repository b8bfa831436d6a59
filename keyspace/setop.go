package keyspace

import (
	"slices"

	"lockd/keyspace/value"
	"lockd/resp"
)

// setOp computes a set from others: their union, intersection or difference. It
// changes nothing that is stored, so it gives up where the result, or the work, is
// more than one request may ask for; err says so then.
//
// The order of the result follows from the orders of its sources alone.
type setOp struct {
	c      *ctx
	stored bool // the result is to be stored, not answered
	result *value.Set
	err    error
}

func (c *ctx) newSetOp(stored bool) *setOp {
	op := &setOp{c: c, stored: stored, result: value.NewSet(c.m.generation)}
	op.result.Limit(c.m.settings.sets)
	return op
}

// spend counts work, and reports whether the operation may go on.
func (op *setOp) spend(work int64) bool {
	op.c.m.spend(work)
	if op.c.m.tired() {
		op.err = resp.Error(errWorkMeter)
	}
	return op.err == nil
}

// add puts a member into the result, and reports whether the operation may go on.
// The member is shared with its source: strings do not change.
func (op *setOp) add(member string) bool {
	form := op.result.Form()
	if !op.spend(op.result.FindWork(member)) {
		return false
	}
	op.result.Add(member)
	if op.result.Form() != form {
		op.spend(int64(op.result.Len())*value.TreeWork(op.result.Len()) + value.HashWork*op.result.Size())
	}
	switch {
	case op.stored && op.result.Size() > growthBytesMax:
		op.err = resp.Error(errGrowthMeter)
	case !op.stored && op.result.ReplyBytes() > replyBytesMax:
		op.err = resp.Error(errReplyTooLarge)
	}
	return op.err == nil
}

// isIn looks for a member in one of the sources.
func (op *setOp) isIn(s *value.Set, member string) bool {
	return op.spend(s.FindWork(member)) && s.Has(member)
}

// union adds all members of all sets, in their order.
func (op *setOp) union(sets []*value.Set) {
	for _, s := range sets {
		if op.err == nil {
			s.Each(op.add)
		}
	}
}

// inter calls visit with each member that all sets have, in the order of the first
// of them, until it returns false. The smallest should be the first.
func (op *setOp) inter(sets []*value.Set, visit func(member string) bool) {
	sets[0].Each(func(member string) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		for _, s := range sets[1:] {
			if s != sets[0] && !op.isIn(s, member) {
				return op.err == nil
			}
		}
		return op.err == nil && visit(member)
	})
}

// interset is the intersection as a set. Redis begins with the form of the smallest
// set, and ends with an intset where that is possible.
func (op *setOp) interset(sets []*value.Set) {
	if sets[0].Len() > 0 && sets[0].Form() != value.SetInts {
		op.result.BeginSmall()
	}
	op.inter(sets, op.add)
	if op.err == nil {
		op.result.Compact()
	}
}

// smallestFirst orders sets by their size.
func smallestFirst(sets []*value.Set) []*value.Set {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *value.Set) int { return a.Len() - b.Len() })
	return sets
}

// diff adds the members of the first set that none of the others has, in its order.
func (op *setOp) diff(first *value.Set, others []*value.Set) {
	if cheaperFromOthers(first, others) {
		others = []*value.Set{op.common(first, others)}
	}
	first.Each(func(member string) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		for _, s := range others {
			if op.isIn(s, member) {
				return op.err == nil
			}
		}
		return op.err == nil && op.add(member)
	})
}

// cheaperFromOthers reports whether it is less work to look in first for every
// member of the others than to look for those of first in every other one.
func cheaperFromOthers(first *value.Set, others []*value.Set) bool {
	var inOthers, inFirst int64
	for _, s := range others {
		inOthers += int64(first.Len()) * s.FindWork("")
		inFirst += int64(s.Len()) * first.FindWork("")
	}
	return inFirst+int64(first.Len())*value.FindWork < inOthers
}

// common is the set of the members of first that any of the others has.
func (op *setOp) common(first *value.Set, others []*value.Set) *value.Set {
	found := value.NewSet(op.c.m.generation)
	for _, s := range others {
		s.Each(func(member string) bool {
			if op.isIn(first, member) && op.spend(value.GrowWork(found, []string{member})) {
				found.Add(member)
			}
			return op.spend(value.VisitWork)
		})
	}
	return found
}
