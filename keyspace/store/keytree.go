package store

import (
	"cmp"
	"strings"
	"unsafe"

	"lockd/keyspace/value"
)

// KeyTree has the entries of a database in the order of (position, key). It is a B-tree of its own, because finding a
// key is most of the cost of a short command. Positions come from a hash, so they are spread evenly, and a search
// computes where a position should be: it reads two or three cache lines of a node, where halving reads six. A node has
// what is compared; a search reads only the entry that it finds.
//
// One goroutine at a time uses a KeyTree. Its shape depends on history, so no state and no reply may follow from it.
type KeyTree struct {
	KeyView
	generation uint64 // of the nodes that no view has
}

// KeyView is a KeyTree as it was at a moment. It does not change, so any goroutine may read it.
type KeyView struct {
	root   keyNode // nil if there are no keys
	height int     // number of inner nodes above each leaf
	count  int
}

// keyNode is a *keyLeaf at height 0, and a *keyInner above.
type keyNode unsafe.Pointer

// A leaf takes 480 bytes and an inner node 3,064, which fill what Go allocates for them (3,072, less a word).
const (
	leafMax  = 39
	innerMax = 127
)

// keyLeaf has entries in order.
type keyLeaf struct {
	generation uint64
	n          int32
	tags       [leafMax]uint32 // the upper bits of their positions
	entries    [leafMax]*Entry
}

// keyInner has nodes in the order of their entries.
type keyInner struct {
	generation uint64
	n          int
	from       [innerMax]uint64 // not above any position in a node, nor below one in the node before; the first is unused
	nodes      [innerMax]keyNode
	counts     [innerMax]int // of the entries in each
}

// tagShift is the number of bits of a position that are not in its tag.
const tagShift = value.PositionBits - 32

func tagOf(pos uint64) uint32 { return uint32(pos >> tagShift) }

// Len returns the number of keys.
func (v KeyView) Len() int { return v.count }

// Copy returns the tree as it is now, in O(1): later changes copy the nodes that they change.
func (t *KeyTree) Copy() KeyView {
	t.generation++
	return t.KeyView
}

// Get finds a key.
func (v KeyView) Get(key string) (e *Entry, ok bool) { return v.find(value.Position(key), key) }

func (v KeyView) find(pos uint64, key string) (e *Entry, ok bool) {
	if v.root == nil {
		return nil, false
	}
	node := v.root
	for height := v.height; height > 0; height-- {
		n := (*keyInner)(node)
		node = n.nodes[n.find(pos, key, height)]
	}
	l := (*keyLeaf)(node)
	at, ok := l.find(pos, key)
	if !ok {
		return nil, false
	}
	return l.entries[at], true
}

// At returns the i-th entry, 0 <= i < len.
func (v KeyView) At(i int) *Entry {
	node := v.root
	for range v.height {
		n, j := (*keyInner)(node), 0
		for ; i >= n.counts[j]; j++ {
			i -= n.counts[j]
		}
		node = n.nodes[j]
	}
	return (*keyLeaf)(node).entries[i]
}

// Each visits the entries in their order, until visit returns false.
func (v KeyView) Each(visit func(e *Entry) bool) {
	v.ascend(0, "", func(l *keyLeaf, at int) bool { return visit(l.entries[at]) })
}

// From visits the entries from first on, until visit returns false.
func (v KeyView) From(first *Entry, visit func(e *Entry) bool) {
	key := first.Key()
	v.ascend(value.Position(key), key, func(l *keyLeaf, at int) bool { return visit(l.entries[at]) })
}

// Scan does a step of SCAN: it visits about count entries from a cursor on, which is a position, and returns the next
// cursor, 0 at the end. It stops only between positions, so a cursor never divides keys that share one.
func (v KeyView) Scan(cursor uint64, count int, visit func(e *Entry)) (next uint64) {
	if cursor>>value.PositionBits != 0 { // greater than every position
		return 0
	}
	seen, last := 0, uint64(0)
	v.ascend(cursor, "", func(l *keyLeaf, at int) bool {
		if seen >= count {
			if pos := l.position(at); pos != last {
				next = pos
				return false
			}
		}
		visit(l.entries[at])
		if seen++; seen == count {
			last = l.position(at)
		}
		return true
	})
	return next
}

// ascend visits the places of the entries from (pos, key) on, until visit returns false.
func (v KeyView) ascend(pos uint64, key string, visit func(l *keyLeaf, at int) bool) {
	if v.root != nil {
		ascend(v.root, v.height, pos, key, visit)
	}
}

func ascend(node keyNode, height int, pos uint64, key string, visit func(l *keyLeaf, at int) bool) bool {
	if height == 0 {
		l := (*keyLeaf)(node)
		for at, _ := l.find(pos, key); at < int(l.n); at++ {
			if !visit(l, at) {
				return false
			}
		}
		return true
	}
	n := (*keyInner)(node)
	for at := n.find(pos, key, height); at < n.n; at++ {
		if !ascend(n.nodes[at], height-1, pos, key, visit) {
			return false
		}
	}
	return true
}

// set adds e, or replaces the entry of its key.
func (t *KeyTree) set(e *Entry) { t.put(value.Position(e.Key()), e, leafMax/2, innerMax/2) }

// load is set for an entry that comes after all others. It leaves full nodes behind.
func (t *KeyTree) load(pos uint64, e *Entry) { t.put(pos, e, leafMax, innerMax) }

// put is set for an entry at a position. A full node that is divided keeps leafKeeps entries, or innerKeeps nodes.
func (t *KeyTree) put(pos uint64, e *Entry, leafKeeps, innerKeeps int) {
	e.placeAt(pos)
	if t.root == nil {
		t.root = keyNode(&keyLeaf{generation: t.generation})
	}
	p := keyPut{t, pos, e, leafKeeps, innerKeeps}
	node, right, added := p.into(t.root, t.height)
	t.root = node
	t.count += added
	if right.node != nil {
		above := &keyInner{generation: t.generation}
		above.insert(0, keyBranch{node: node, count: t.count - right.count})
		above.insert(1, right)
		t.root = keyNode(above)
		t.height++
	}
}

// keyPut is a call of put.
type keyPut struct {
	t                     *KeyTree
	pos                   uint64
	e                     *Entry
	leafKeeps, innerKeeps int
}

// keyBranch is a node as its parent has it.
type keyBranch struct {
	from  uint64
	node  keyNode
	count int
}

// into puts the entry below a node. It returns the node that replaces it, a new node behind that one, or none, and the
// number of entries that were added.
func (p *keyPut) into(node keyNode, height int) (changed keyNode, right keyBranch, added int) {
	if height == 0 {
		l := p.t.ownLeaf(node)
		right, added = p.intoLeaf(l)
		return keyNode(l), right, added
	}
	n := p.t.ownInner(node)
	at := n.find(p.pos, p.e.Key(), height)
	if height == 1 && n.counts[at] == leafMax && p.t.makeRoom(n, at) {
		at = n.find(p.pos, p.e.Key(), height)
	}
	child, behind, added := p.into(n.nodes[at], height-1)
	n.nodes[at] = child
	n.counts[at] += added - behind.count
	if behind.node != nil {
		right = p.insertBranch(n, at+1, behind)
	}
	return keyNode(n), right, added
}

func (p *keyPut) intoLeaf(l *keyLeaf) (right keyBranch, added int) {
	at, found := l.find(p.pos, p.e.Key())
	switch {
	case found:
		l.entries[at] = p.e
		return right, 0
	case l.n < leafMax:
		l.insert(at, tagOf(p.pos), p.e)
		return right, 1
	}
	r := &keyLeaf{generation: p.t.generation}
	l.move(p.leafKeeps, r)
	if at < p.leafKeeps {
		l.insert(at, tagOf(p.pos), p.e)
	} else {
		r.insert(at-p.leafKeeps, tagOf(p.pos), p.e)
	}
	return keyBranch{r.position(0), keyNode(r), int(r.n)}, 1
}

func (p *keyPut) insertBranch(n *keyInner, at int, b keyBranch) (right keyBranch) {
	if n.n < innerMax {
		n.insert(at, b)
		return right
	}
	r := &keyInner{generation: p.t.generation}
	n.move(p.innerKeeps, r)
	if at < p.innerKeeps {
		n.insert(at, b)
	} else {
		r.insert(at-p.innerKeeps, b)
	}
	return keyBranch{r.from[0], keyNode(r), r.total()}
}

// makeRoom divides the entries of a full leaf and of a neighbour that has room evenly. Otherwise leaves whose keys come
// in random order would be two thirds full. It may be in vain, as the key may turn out not to be new.
func (t *KeyTree) makeRoom(n *keyInner, at int) (done bool) {
	room := func(i int) int {
		if i < 0 || i >= n.n {
			return 0
		}
		return leafMax - n.counts[i]
	}
	if room(at-1) > room(at+1) {
		at--
	}
	if max(room(at), room(at+1)) < leafRoom {
		return false
	}
	l, r := t.ownLeaf(n.nodes[at]), t.ownLeaf(n.nodes[at+1])
	l.level(r)
	n.nodes[at], n.counts[at] = keyNode(l), int(l.n)
	n.nodes[at+1], n.counts[at+1] = keyNode(r), int(r.n)
	n.from[at+1] = r.position(0)
	return true
}

// leafRoom is the room that a leaf must have to take entries from a neighbour: less would soon be taken again.
const leafRoom = leafMax / 6

// del removes the entry of e's key.
func (t *KeyTree) del(e *Entry) { t.cut(value.Position(e.Key()), e.Key()) }

// cut removes the entry of a key, if there is one.
func (t *KeyTree) cut(pos uint64, key string) {
	if t.root == nil {
		return
	}
	t.root = t.remove(t.root, t.height, pos, key)
	for t.height > 0 && (*keyInner)(t.root).n == 1 {
		t.root = (*keyInner)(t.root).nodes[0]
		t.height--
	}
	if t.count == 0 {
		t.root, t.height = nil, 0
	}
}

// remove removes a key below a node, and returns the node that replaces it.
func (t *KeyTree) remove(node keyNode, height int, pos uint64, key string) (changed keyNode) {
	if height == 0 {
		l := t.ownLeaf(node)
		if at, found := l.find(pos, key); found {
			l.remove(at)
			t.count--
		}
		return keyNode(l)
	}
	n, before := t.ownInner(node), t.count
	at := n.find(pos, key, height)
	n.nodes[at] = t.remove(n.nodes[at], height-1, pos, key)
	n.counts[at] += t.count - before
	if height == 1 {
		t.joinLeaves(n, at)
	} else {
		t.joinInners(n, at)
	}
	return keyNode(n)
}

// A node that is a third full is joined with a neighbour if both together are three quarters full, so that they are not
// divided again soon.
const (
	leafSmall, leafJoined   = leafMax / 3, leafMax * 3 / 4
	innerSmall, innerJoined = innerMax / 3, innerMax * 3 / 4
)

// joinLeaves takes an empty leaf out of its parent, and joins a small one with a neighbour.
func (t *KeyTree) joinLeaves(n *keyInner, at int) {
	switch size := n.counts[at]; {
	case size == 0:
		n.remove(at)
		return
	case size > leafSmall:
		return
	case at > 0 && n.counts[at-1]+size <= leafJoined:
		at--
	case at+1 < n.n && n.counts[at+1]+size <= leafJoined:
	default:
		return
	}
	l, r := t.ownLeaf(n.nodes[at]), t.ownLeaf(n.nodes[at+1])
	r.move(0, l)
	n.joined(at, keyNode(l))
}

// joinInners is joinLeaves for inner nodes.
func (t *KeyTree) joinInners(n *keyInner, at int) {
	size := func(i int) int { return (*keyInner)(n.nodes[i]).n }
	switch {
	case size(at) == 0:
		n.remove(at)
		return
	case size(at) > innerSmall:
		return
	case at > 0 && size(at-1)+size(at) <= innerJoined:
		at--
	case at+1 < n.n && size(at+1)+size(at) <= innerJoined:
	default:
		return
	}
	l, r := t.ownInner(n.nodes[at]), t.ownInner(n.nodes[at+1])
	r.from[0] = n.from[at+1] // which moves to where it means something
	r.move(0, l)
	n.joined(at, keyNode(l))
}

// ownLeaf returns a leaf, or a copy of it if a view has it.
func (t *KeyTree) ownLeaf(node keyNode) *keyLeaf {
	l := (*keyLeaf)(node)
	if l.generation == t.generation {
		return l
	}
	own := *l
	own.generation = t.generation
	return &own
}

// ownInner is ownLeaf for an inner node.
func (t *KeyTree) ownInner(node keyNode) *keyInner {
	n := (*keyInner)(node)
	if n.generation == t.generation {
		return n
	}
	own := *n
	own.generation = t.generation
	return &own
}

// find returns the place that a key has, or would have.
func (l *keyLeaf) find(pos uint64, key string) (at int, found bool) {
	tag := tagOf(pos)
	at = l.seek(tag)
	until := at
	for until < int(l.n) && l.tags[until] == tag {
		until++
	}
	for at < until { // mostly once
		middle := (at + until) / 2
		switch order := l.compare(middle, pos, key); {
		case order == 0:
			return middle, true
		case order < 0:
			at = middle + 1
		default:
			until = middle
		}
	}
	return at, false
}

// compare compares the key at a place with another one of its tag.
func (l *keyLeaf) compare(at int, pos uint64, key string) int {
	stored := l.entries[at].Key()
	if stored == key {
		return 0
	}
	if order := cmp.Compare(l.position(at), pos); order != 0 {
		return order
	}
	return strings.Compare(stored, key)
}

// seek returns the first place whose tag is not less than tag. It begins where that is if positions are spread evenly.
func (l *keyLeaf) seek(tag uint32) (at int) {
	n := int(l.n)
	if n == 0 || tag <= l.tags[0] {
		return 0
	}
	first, last := l.tags[0], l.tags[n-1]
	if tag > last {
		return n
	}
	at = int(uint64(tag-first) * uint64(n-1) / uint64(last-first))
	for l.tags[at] >= tag {
		at--
	}
	for l.tags[at] < tag {
		at++
	}
	return at
}

// position returns the position of the entry at a place.
func (l *keyLeaf) position(at int) uint64 {
	return uint64(l.tags[at])<<tagShift | uint64(l.entries[at].positionLow())&(1<<tagShift-1)
}

func (l *keyLeaf) insert(at int, tag uint32, e *Entry) {
	copy(l.tags[at+1:], l.tags[at:l.n])
	copy(l.entries[at+1:], l.entries[at:l.n])
	l.tags[at], l.entries[at] = tag, e
	l.n++
}

func (l *keyLeaf) remove(at int) {
	copy(l.tags[at:], l.tags[at+1:l.n])
	copy(l.entries[at:], l.entries[at+1:l.n])
	l.n--
	l.entries[l.n] = nil
}

// move appends the entries from a place on to another leaf.
func (l *keyLeaf) move(from int, to *keyLeaf) {
	copy(to.tags[to.n:], l.tags[from:l.n])
	to.n += int32(copy(to.entries[to.n:], l.entries[from:l.n]))
	clear(l.entries[from:l.n])
	l.n = int32(from)
}

// level divides the entries of a leaf and of the next one evenly.
func (l *keyLeaf) level(r *keyLeaf) {
	keep := (l.n + r.n) / 2
	if more := l.n - keep; more > 0 {
		copy(r.tags[more:], r.tags[:r.n])
		copy(r.entries[more:], r.entries[:r.n])
		copy(r.tags[:], l.tags[keep:l.n])
		copy(r.entries[:], l.entries[keep:l.n])
		clear(l.entries[keep:l.n])
		l.n, r.n = keep, r.n+more
		return
	}
	more := keep - l.n
	copy(l.tags[l.n:], r.tags[:more])
	copy(l.entries[l.n:], r.entries[:more])
	copy(r.tags[:], r.tags[more:r.n])
	copy(r.entries[:], r.entries[more:r.n])
	clear(r.entries[r.n-more : r.n])
	l.n, r.n = keep, r.n-more
}

// find returns the place of the node in which a key is, or would be put; n is at a height.
func (n *keyInner) find(pos uint64, key string, height int) (at int) {
	at = n.seek(pos)
	if at == 0 || n.from[at] < pos {
		return at
	}
	// Several nodes, and the node before them, may have keys of this very position: the key belongs into the last of
	// them that does not begin with a greater key.
	first := at
	for first > 0 && n.from[first] == pos {
		first--
	}
	for first < at {
		middle := (first + at + 1) / 2
		l := firstLeaf(n.nodes[middle], height-1)
		if l.position(0) > pos || l.position(0) == pos && l.entries[0].Key() > key {
			at = middle - 1
		} else {
			first = middle
		}
	}
	return at
}

func firstLeaf(node keyNode, height int) *keyLeaf {
	for range height {
		node = (*keyInner)(node).nodes[0]
	}
	return (*keyLeaf)(node)
}

// seek returns the last place whose from is not greater than pos; it searches as in a leaf.
func (n *keyInner) seek(pos uint64) (at int) {
	if n.n == 1 || pos < n.from[1] {
		return 0
	}
	first, last := n.from[1], n.from[n.n-1]
	if pos >= last {
		return n.n - 1
	}
	at = 1 + int((pos-first)*uint64(n.n-2)/(last-first))
	for n.from[at] > pos {
		at--
	}
	for n.from[at+1] <= pos {
		at++
	}
	return at
}

func (n *keyInner) insert(at int, b keyBranch) {
	copy(n.from[at+1:], n.from[at:n.n])
	copy(n.nodes[at+1:], n.nodes[at:n.n])
	copy(n.counts[at+1:], n.counts[at:n.n])
	n.from[at], n.nodes[at], n.counts[at] = b.from, b.node, b.count
	n.n++
}

func (n *keyInner) remove(at int) {
	copy(n.from[at:], n.from[at+1:n.n])
	copy(n.nodes[at:], n.nodes[at+1:n.n])
	copy(n.counts[at:], n.counts[at+1:n.n])
	n.n--
	n.nodes[n.n] = nil
}

// joined replaces two nodes by one that has the entries of both.
func (n *keyInner) joined(at int, node keyNode) {
	n.nodes[at] = node
	n.counts[at] += n.counts[at+1]
	n.remove(at + 1)
}

// move appends the nodes from a place on to another inner node.
func (n *keyInner) move(from int, to *keyInner) {
	copy(to.from[to.n:], n.from[from:n.n])
	copy(to.counts[to.n:], n.counts[from:n.n])
	to.n += copy(to.nodes[to.n:], n.nodes[from:n.n])
	clear(n.nodes[from:n.n])
	n.n = from
}

// total returns the number of entries below a node.
func (n *keyInner) total() (count int) {
	for _, c := range n.counts[:n.n] {
		count += c
	}
	return count
}
