package value

import "math/bits"

// The unit of work is a byte that is read in sequence; five of them take a nanosecond. Everything else counts for the
// number of bytes that take as long in the worst case, with memory that is in no cache. Functions with Work in their
// names return this unit, and take O(1) for each name that they are given.
const (
	VisitWork   = 256 // an element visited in their order
	FarWork     = 768 // an element of a tree: each is in memory of its own
	FindWork    = 512 // of which TreeWork makes that of a tree
	CompareWork = 8   // an element of a small aggregate compared in search of one
	CopyWork    = 2   // a byte copied into memory of its own
	HashWork    = 12  // a byte of what is looked for in a tree
	NumeralWork = 32  // a byte read as a number
)

// TreeWork returns the work of finding, adding or removing one of n elements of a tree.
func TreeWork(n int) int64 { return FindWork * int64(3+bits.Len(uint(n))) / 3 }

// SortWork returns the work of sorting n texts of bytes bytes together.
func SortWork(n int, bytes int64) int64 {
	return int64(bits.Len(uint(n))) * (VisitWork/2*int64(n) + bytes)
}

// FindAllWork returns the work of finding each of some names in an aggregate.
func FindAllWork(in interface{ FindWork(name string) int64 }, names []string) (work int64) {
	for _, name := range names {
		work += in.FindWork(name)
	}
	return work
}

// GrowWork returns the work of adding names, which may be many more than there are.
func GrowWork(in interface{ FindWork(name string) int64 }, names []string) int64 {
	n, bytes := int64(len(names)), int64(0)
	for _, name := range names {
		bytes += int64(len(name))
	}
	return max(FindAllWork(in, names), n*TreeWork(len(names))+HashWork*bytes)
}

// EditWork returns the work of adding a member to a sorted set, of removing one, or of finding its rank: also in the
// order of the scores, where the members of one score are compared.
func EditWork(z *Zset, member string) int64 {
	work := z.FindWork(member) + int64(bits.Len(uint(z.Len()))*len(member))
	if z.IsTree() {
		work += 2 * TreeWork(z.Len())
	}
	return work
}

// EditAllWork returns the work of adding members to a sorted set, or of removing them.
func EditAllWork(z *Zset, members []Scored) (work int64) {
	for _, m := range members {
		work += EditWork(z, m.Member)
	}
	return work
}

// GrowScoredWork returns the work of adding members to a sorted set, which may be many more than there are.
func GrowScoredWork(z *Zset, members []Scored) int64 {
	n := len(members)
	each := 3*TreeWork(n) + VisitWork
	return max(EditAllWork(z, members), int64(n)*each+(HashWork+int64(bits.Len(uint(n))))*BytesOf(members, 0))
}

// RangeWork returns the work of finding the ends of a range of a sorted set.
func RangeWork(z *Zset, low, high string) int64 { return 2 * (EditWork(z, low) + EditWork(z, high)) }

// smallWork returns the work of looking for a name in a small form of n elements with bytes bytes together: the search
// compares only those of the same length.
func smallWork(n int, bytes int64, name string) int64 {
	return CompareWork*int64(1+n) + min(bytes, int64(n*len(name)))/4
}
