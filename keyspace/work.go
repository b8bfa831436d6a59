package keyspace

import "math/bits"

// The unit of work is a byte that is read in a row: five of them take a nanosecond. All
// else counts for as many as take as long at the worst, with memory that is in no cache.
const (
	visitWork   = 256 // an element visited in their order
	farWork     = 768 // an element of a tree: each is in memory of its own
	findWork    = 512 // of which treeWork makes that of a tree
	compareWork = 8   // an element of a small aggregate compared in search of one
	copyWork    = 2   // a byte copied into memory of its own
	hashWork    = 12  // a byte of what is looked for in a tree
	numeralWork = 32  // a byte read as a number
)

// treeWork is the work of finding, adding or removing one of n elements of a tree.
func treeWork(n int) int64 { return findWork * int64(3+bits.Len(uint(n))) / 3 }

// sortWork is the work of sorting n texts that have so many bytes together.
func sortWork(n int, bytes int64) int64 {
	return int64(bits.Len(uint(n))) * (visitWork/2*int64(n) + bytes)
}

// findAll is the work of finding each of some names in an aggregate.
func findAll(in interface{ findWork(name string) int64 }, names []string) (work int64) {
	for _, name := range names {
		work += in.findWork(name)
	}
	return work
}

// growWork is the work of adding names, which may be many more than there are.
func growWork(in interface{ findWork(name string) int64 }, names []string) int64 {
	n, bytes := int64(len(names)), int64(0)
	for _, name := range names {
		bytes += int64(len(name))
	}
	return max(findAll(in, names), n*treeWork(len(names))+hashWork*bytes)
}

// cloneWork is the work of a copy: that of a small form whole, or of some nodes of a tree.
func cloneWork(v aggregate) int64 {
	if v.len() > smallMax {
		return compareWork * smallMax
	}
	return 160 * int64(v.len())
}

// smallWork is the work of looking for a name in a small form of n elements, which have
// so many bytes together: only those of its length are compared with it.
func smallWork(n int, bytes int64, name string) int64 {
	return compareWork*int64(1+n) + min(bytes, int64(n*len(name)))/4
}
