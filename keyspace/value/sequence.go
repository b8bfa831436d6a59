package value

import "slices"

// sequence is a list of strings by position: a B-tree that counts. Reading, changing, inserting and removing at any
// position takes the logarithm of its length, as does cutting out a range; a copy is O(1). It keeps the sum of its
// bytes.
type sequence struct {
	root *seqNode
	edit *seqEdit // what it may change in place has the same one
}

// seqEdit identifies the nodes that only one sequence can reach.
type seqEdit struct{ _ byte }

// seqNode is a leaf with vals, or has kids. Its shape depends on history, so no state and no reply may follow from it.
type seqNode struct {
	edit  *seqEdit
	count int   // of the strings in it
	bytes int64 // that they take
	vals  []string
	kids  []*seqNode // all of the same height
}

const (
	seqValsMax = 128
	seqKidsMax = 32
)

// elementOverheadBytes is the memory that a string counts for besides its bytes; see Aggregate.Size.
const elementOverheadBytes = 24

func elementBytes(s string) int64 { return elementOverheadBytes + int64(len(s)) }

func newSequence() sequence {
	edit := new(seqEdit)
	return sequence{&seqNode{edit: edit}, edit}
}

// copy returns a copy in O(1). Both sequences may then change, as each changes only its own nodes, and another
// goroutine may read one of them meanwhile.
func (q *sequence) copy() sequence {
	q.edit = new(seqEdit) // what they share belongs to neither
	return sequence{q.root, new(seqEdit)}
}

func (q *sequence) len() int     { return q.root.count }
func (q *sequence) bytes() int64 { return q.root.bytes }

// get returns the string at i, 0 <= i < len.
func (q *sequence) get(i int) string {
	n := q.root
	for n.kids != nil {
		k, at := n.find(i)
		n, i = n.kids[k], at
	}
	return n.vals[i]
}

// set replaces the string at i, 0 <= i < len. As insert, it keeps s, so the caller clones it.
func (q *sequence) set(i int, s string) {
	grow := int64(len(s) - len(q.get(i)))
	q.root = q.root.own(q.edit)
	n := q.root
	for n.kids != nil {
		n.bytes += grow
		k, at := n.find(i)
		n, i = n.ownKid(k), at
	}
	n.bytes += grow
	n.vals[i] = s
}

// insert inserts s before the string at i, or at the end if i is len.
func (q *sequence) insert(i int, s string) {
	q.root = q.root.own(q.edit)
	if right := q.root.insert(i, s); right != nil {
		left := q.root
		q.root = &seqNode{edit: q.edit, kids: []*seqNode{left, right}}
		q.root.count, q.root.bytes = left.count+right.count, left.bytes+right.bytes
	}
}

// cut removes the strings from i up to j, without the one at j.
func (q *sequence) cut(i, j int) {
	if i >= j {
		return
	}
	q.root = q.root.own(q.edit)
	q.root.cut(i, j)
	for len(q.root.kids) == 1 {
		q.root = q.root.kids[0]
	}
	if q.root.count == 0 {
		q.root = &seqNode{edit: q.edit}
	}
}

// ascend visits the strings from i on until visit returns false.
func (q *sequence) ascend(i int, visit func(s string) bool) {
	if i < q.len() {
		q.root.ascend(i, visit)
	}
}

// descend visits the strings from i down to the first until visit returns false.
func (q *sequence) descend(i int, visit func(s string) bool) {
	if i >= 0 {
		q.root.descend(i, visit)
	}
}

// find returns the kid that has position i, and the position within it. The position after the last belongs to the last
// kid.
func (n *seqNode) find(i int) (k, at int) {
	last := len(n.kids) - 1
	if from := n.count - n.kids[last].count; i >= from {
		return last, i - from // a list grows at its ends
	}
	for i >= n.kids[k].count {
		i -= n.kids[k].count
		k++
	}
	return k, i
}

// own returns n, or a copy of it that the sequence of edit may change.
func (n *seqNode) own(edit *seqEdit) *seqNode {
	if n.edit == edit {
		return n
	}
	c := *n
	c.edit, c.vals, c.kids = edit, slices.Clone(n.vals), slices.Clone(n.kids)
	return &c
}

// ownKid makes a kid of n changeable, as n is.
func (n *seqNode) ownKid(k int) *seqNode {
	n.kids[k] = n.kids[k].own(n.edit)
	return n.kids[k]
}

// insert returns the node that it had to split from n, at its right, or nil.
func (n *seqNode) insert(i int, s string) (right *seqNode) {
	if n.kids == nil {
		return n.insertVal(i, s)
	}
	k, at := n.find(i)
	n.count++
	n.bytes += elementBytes(s)
	if split := n.ownKid(k).insert(at, s); split != nil {
		n.kids = slices.Insert(n.kids, k+1, split)
	}
	if len(n.kids) <= seqKidsMax {
		return nil
	}
	return n.split(len(n.kids) / 2)
}

// insertVal is insert for a leaf. A full leaf that grows at an end stays full, and a new leaf takes the string, so a
// list that is only pushed to has full leaves.
func (n *seqNode) insertVal(i int, s string) (right *seqNode) {
	into := n
	if len(n.vals) == seqValsMax {
		half := seqValsMax / 2
		if i == 0 || i == seqValsMax {
			half = i
		}
		right = n.split(half)
		if i > half || i == seqValsMax {
			into, i = right, i-half
		}
	}
	into.vals = slices.Insert(into.vals, i, s)
	into.count++
	into.bytes += elementBytes(s)
	return right
}

// split splits off all that n has from the i-th kid or string on.
func (n *seqNode) split(i int) (right *seqNode) {
	right = &seqNode{edit: n.edit}
	switch {
	case n.kids != nil:
		right.kids = slices.Clone(n.kids[i:])
		clear(n.kids[i:])
		n.kids = n.kids[:i]
	case i == 0:
		right.vals, n.vals = n.vals, nil
	default:
		right.vals = slices.Clone(n.vals[i:])
		clear(n.vals[i:])
		n.vals = n.vals[:i]
	}
	for _, kid := range right.kids {
		right.count += kid.count
		right.bytes += kid.bytes
	}
	for _, s := range right.vals {
		right.count++
		right.bytes += elementBytes(s)
	}
	n.count -= right.count
	n.bytes -= right.bytes
	return right
}

// cut removes the strings from i up to j and returns the bytes they took.
func (n *seqNode) cut(i, j int) (bytes int64) {
	if n.kids != nil {
		bytes = n.cutKids(i, j)
	} else {
		for _, s := range n.vals[i:j] {
			bytes += elementBytes(s)
		}
		n.vals = slices.Delete(n.vals, i, j)
	}
	n.count -= j - i
	n.bytes -= bytes
	return bytes
}

// cutKids drops the kids that lie in the range, and cuts those at its ends.
func (n *seqNode) cutKids(i, j int) (bytes int64) {
	k, at := n.find(i)
	left := j - i
	if at > 0 {
		here := min(left, n.kids[k].count-at)
		bytes += n.ownKid(k).cut(at, at+here)
		left -= here
		k++
	}
	end := k
	for left > 0 && left >= n.kids[end].count {
		bytes += n.kids[end].bytes
		left -= n.kids[end].count
		end++
	}
	if n.kids = slices.Delete(n.kids, k, end); left > 0 {
		bytes += n.ownKid(k).cut(0, left)
	}
	n.join(k)
	n.join(k - 1)
	return bytes
}

// join joins the kid at k with a neighbour, if it has little and both fit into one node. Otherwise a list from which
// much was removed would consist of nodes.
func (n *seqNode) join(k int) {
	if k < 0 || k >= len(n.kids) || !n.kids[k].small() {
		return
	}
	for _, l := range []int{k, k - 1} {
		if l < 0 || l+1 >= len(n.kids) || !n.kids[l].fits(n.kids[l+1]) {
			continue
		}
		left, right := n.ownKid(l), n.kids[l+1]
		left.vals = append(left.vals, right.vals...)
		left.kids = append(left.kids, right.kids...)
		left.count += right.count
		left.bytes += right.bytes
		n.kids = slices.Delete(n.kids, l+1, l+2)
		return
	}
}

func (n *seqNode) small() bool {
	return len(n.vals) <= seqValsMax/4 && len(n.kids) <= seqKidsMax/4
}

func (n *seqNode) fits(right *seqNode) bool {
	return len(n.vals)+len(right.vals) <= seqValsMax && len(n.kids)+len(right.kids) <= seqKidsMax
}

func (n *seqNode) ascend(i int, visit func(s string) bool) bool {
	if n.kids == nil {
		for _, s := range n.vals[i:] {
			if !visit(s) {
				return false
			}
		}
		return true
	}
	k, at := n.find(i)
	for ; k < len(n.kids); k++ {
		if !n.kids[k].ascend(at, visit) {
			return false
		}
		at = 0
	}
	return true
}

func (n *seqNode) descend(i int, visit func(s string) bool) bool {
	if n.kids == nil {
		for ; i >= 0; i-- {
			if !visit(n.vals[i]) {
				return false
			}
		}
		return true
	}
	k, at := n.find(i)
	for {
		if !n.kids[k].descend(at, visit) {
			return false
		}
		if k--; k < 0 {
			return true
		}
		at = n.kids[k].count - 1
	}
}
