// Package algebra computes sets and sorted sets from others: their union, intersection or difference.
//
// An operation changes nothing that is stored, so it may stop at any moment. It counts the work of each member, and
// gives up if its Payer refuses or if the result becomes too large: then Err is not nil, and the result is void. The
// package knows values, and nothing of the machine.
package algebra

import (
	"slices"

	"lockd/keyspace/value"
)

// Payer counts work that is about to be done. An error forbids it, and says why.
type Payer func(work int64) error

// operation is the common part of Sets and Zsets.
type operation struct {
	Err error // why it gave up

	pay Payer
}

// spend counts work, and reports whether the operation may go on.
func (op *operation) spend(work int64) bool {
	if err := op.pay(work); err != nil {
		op.Err = err
	}
	return op.Err == nil
}

// Sets computes a set. The order of the result follows from the orders of its sources alone.
type Sets struct {
	operation
	Result *value.Set

	owner uint64
	room  SetRoom
}

// SetRoom bounds the size of a set: Of measures it, Max is the bound, Err the error of a larger set.
type SetRoom struct {
	Of  func(s *value.Set) (bytes int64)
	Max int64
	Err error
}

// NewSets returns an operation whose result belongs to the generation owner.
func NewSets(owner uint64, limits value.SetLimits, pay Payer, room SetRoom) *Sets {
	op := &Sets{operation: operation{pay: pay}, Result: value.NewSet(owner), owner: owner, room: room}
	op.Result.Limit(limits)
	return op
}

// add puts a member into the result, and reports whether the operation may go on.
// The member is shared with its source: strings do not change.
func (op *Sets) add(member string) bool {
	form := op.Result.Form()
	if !op.spend(op.Result.FindWork(member)) {
		return false
	}
	op.Result.Add(member)
	if op.Result.Form() != form {
		op.spend(int64(op.Result.Len())*value.TreeWork(op.Result.Len()) + value.HashWork*op.Result.Size())
	}
	if op.room.Of(op.Result) > op.room.Max {
		op.Err = op.room.Err
	}
	return op.Err == nil
}

// isIn looks for a member in one of the sources.
func (op *Sets) isIn(s *value.Set, member string) bool {
	return op.spend(s.FindWork(member)) && s.Has(member)
}

// Union adds all members of all sets, in their order.
func (op *Sets) Union(sets []*value.Set) {
	for _, s := range sets {
		if op.Err == nil {
			s.Each(op.add)
		}
	}
}

// Common calls visit with each member that all sets have, in the order of the smallest
// of them, until it returns false.
func (op *Sets) Common(sets []*value.Set, visit func(member string) bool) {
	op.inter(smallestFirst(sets), visit)
}

// inter is Common for sets in the order of their size.
func (op *Sets) inter(sets []*value.Set, visit func(member string) bool) {
	sets[0].Each(func(member string) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		for _, s := range sets[1:] {
			if s != sets[0] && !op.isIn(s, member) {
				return op.Err == nil
			}
		}
		return op.Err == nil && visit(member)
	})
}

// Inter computes the intersection. As in Redis it begins with the form of the smallest set, and ends with an intset if
// that is possible.
func (op *Sets) Inter(sets []*value.Set) {
	sets = smallestFirst(sets)
	if sets[0].Len() > 0 && sets[0].Form() != value.SetInts {
		op.Result.BeginSmall()
	}
	op.inter(sets, op.add)
	if op.Err == nil {
		op.Result.Compact()
	}
}

// smallestFirst returns the sets in the order of their sizes.
func smallestFirst(sets []*value.Set) []*value.Set {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *value.Set) int { return a.Len() - b.Len() })
	return sets
}

// Diff adds the members of the first set that no other set has, in the order of the first.
func (op *Sets) Diff(sets []*value.Set) {
	first, others := sets[0], sets[1:]
	if cheaperFromOthers(first, others) {
		others = []*value.Set{op.common(first, others)}
	}
	first.Each(func(member string) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		for _, s := range others {
			if op.isIn(s, member) {
				return op.Err == nil
			}
		}
		return op.Err == nil && op.add(member)
	})
}

// cheaperFromOthers reports whether looking in first for each member of the others is less work than looking in the
// others for each member of first.
func cheaperFromOthers(first *value.Set, others []*value.Set) bool {
	var inOthers, inFirst int64
	for _, s := range others {
		inOthers += int64(first.Len()) * s.FindWork("")
		inFirst += int64(s.Len()) * first.FindWork("")
	}
	return inFirst+int64(first.Len())*value.FindWork < inOthers
}

// common returns the members of first that any of the others has.
func (op *Sets) common(first *value.Set, others []*value.Set) *value.Set {
	found := value.NewSet(op.owner)
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
