package store

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/value"
)

// keyModel is what a keyTree must be: a sorted slice.
type keyModel []keyAt

type keyAt struct {
	pos uint64
	e   *Entry
}

func (m keyModel) find(pos uint64, key string) (at int, found bool) {
	return slices.BinarySearchFunc(m, pos, func(k keyAt, pos uint64) int {
		return cmp.Or(cmp.Compare(k.pos, pos), strings.Compare(k.e.Key(), key))
	})
}

func (m keyModel) put(pos uint64, e *Entry) keyModel {
	at, found := m.find(pos, e.Key())
	if found {
		m[at].e = e
		return m
	}
	return slices.Insert(m, at, keyAt{pos, e})
}

// outsideEntryOf is an entry that takes any position for that of its key: a tree gives it one.
func outsideEntryOf(key string) *Entry {
	return newOutside(key, value.Value{}, Never, nil, NoLock)
}

// compareKeys compares a tree with its model, whole.
func compareKeys(t *testing.T, v KeyView, m keyModel) {
	t.Helper()
	if v.Len() != len(m) {
		t.Fatalf("%d keys, want %d", v.Len(), len(m))
	}
	i := 0
	v.ascend(0, "", func(l *keyLeaf, at int) bool {
		if i == len(m) || l.entries[at] != m[i].e || l.position(at) != m[i].pos {
			t.Fatalf("the %d-th of %d is another", i, len(m))
		}
		i++
		return true
	})
	if i != len(m) {
		t.Fatalf("%d visited of %d", i, len(m))
	}
	if v.root != nil {
		checkNode(t, v.root, v.height, 0, 1<<value.PositionBits)
	}
}

// checkNode checks what is promised of a node, whose positions are from low to high, and returns how many entries it has.
func checkNode(t *testing.T, node keyNode, height int, low, high uint64) (count int) {
	t.Helper()
	if height == 0 {
		l := (*keyLeaf)(node)
		if l.n == 0 || l.position(0) < low || l.position(int(l.n)-1) > high {
			t.Fatalf("a leaf of %d entries, from %d to %d", l.n, low, high)
		}
		for _, e := range l.entries[l.n:] {
			if e != nil {
				t.Fatal("a leaf holds on to an entry that has gone")
			}
		}
		return int(l.n)
	}
	n := (*keyInner)(node)
	for i := range n.n {
		from, until := low, high
		if i > 0 {
			from = n.from[i]
		}
		if i+1 < n.n {
			until = n.from[i+1]
		}
		if from < low || from > until {
			t.Fatalf("node %d of %d is from %d to %d, in one from %d", i, n.n, from, until, low)
		}
		if below := checkNode(t, n.nodes[i], height-1, from, until); below != n.counts[i] {
			t.Fatalf("a count of %d, of %d entries", n.counts[i], below)
		}
		count += n.counts[i]
	}
	for _, free := range n.nodes[n.n:] {
		if free != nil || n.n == 0 {
			t.Fatal("an inner node holds on to one that has gone, or has none")
		}
	}
	return count
}

// A tree of keys is a sorted slice, wherever the keys are: evenly, at a few positions, at positions that differ in
// their lower bits only, or all near each other, but for one. So are its copies, later.
func TestKeyTree(t *testing.T) {
	const bits = value.PositionBits
	for name, position := range map[string]func(r *rand.Rand) uint64{
		"even":      func(r *rand.Rand) uint64 { return r.Uint64N(1 << bits) },
		"few":       func(r *rand.Rand) uint64 { return 1<<50 + r.Uint64N(4)<<r.IntN(2)<<tagShift },
		"one":       func(r *rand.Rand) uint64 { return 1<<bits - 1 },
		"zero":      func(r *rand.Rand) uint64 { return 0 },
		"lower":     func(r *rand.Rand) uint64 { return 7<<tagShift | r.Uint64N(1<<tagShift) },
		"near":      func(r *rand.Rand) uint64 { return max(r.Uint64N(3000)<<tagShift, r.Uint64()>>63*(1<<bits-1)) },
		"two sides": func(r *rand.Rand) uint64 { return -r.Uint64N(2)&(1<<bits-1) ^ r.Uint64N(1<<21) },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 5))
			var tree KeyTree
			var model, frozenModel keyModel
			var frozen KeyView
			for step := range 60_000 {
				pos := position(rng)
				key := fmt.Sprint(pos, " ", rng.IntN(4000))
				grows := step%20_000 < 12_000
				if i := 0; !grows && len(model) > 0 && rng.IntN(4) > 0 { // one that is there
					if i = rng.IntN(len(model)); step%40_000 > 20_000 {
						i = min(len(model)-1, rng.IntN(3)) // from the first on
					}
					pos, key = model[i].pos, strings.Clone(model[i].e.Key())
				}
				at, found := model.find(pos, key)
				if e, ok := tree.find(pos, key); ok != found || found && e != model[at].e {
					t.Fatalf("step %d: %s at %d found: %v", step, key, pos, ok)
				}
				if remove := rng.IntN(4) == 0; remove == grows {
					tree.cut(pos, key)
					if found {
						model = slices.Delete(model, at, at+1)
					}
				} else {
					e := outsideEntryOf(key)
					tree.put(pos, e, leafMax/2, innerMax/2)
					model = model.put(pos, e)
				}
				if tree.Len() != len(model) {
					t.Fatalf("step %d: %d keys, want %d", step, tree.Len(), len(model))
				}
				if len(model) > 0 {
					i := rng.IntN(len(model))
					if tree.At(i) != model[i].e {
						t.Fatalf("step %d: the %d-th is another", step, i)
					}
					checkScan(t, tree.KeyView, model, model[i].pos+rng.Uint64N(2), 1+rng.IntN(20))
				}
				if step%500 == 0 {
					compareKeys(t, tree.KeyView, model)
				}
				if step%3000 == 0 {
					compareKeys(t, frozen, frozenModel)
					frozen, frozenModel = tree.Copy(), slices.Clone(model)
				}
			}
			for len(model) > 0 {
				i := rng.IntN(len(model))
				tree.cut(model[i].pos, model[i].e.Key())
				if model = slices.Delete(model, i, i+1); len(model)%100 == 0 {
					compareKeys(t, tree.KeyView, model)
				}
			}
			compareKeys(t, frozen, frozenModel)
			if tree.root != nil || tree.height != 0 {
				t.Error("an empty tree has nodes")
			}
		})
	}
}

// checkScan compares a step of a scan with what it must visit.
func checkScan(t *testing.T, v KeyView, m keyModel, cursor uint64, count int) {
	t.Helper()
	i, _ := m.find(cursor, "")
	end := min(i+count, len(m))
	for end > i && end < len(m) && m[end].pos == m[end-1].pos {
		end++
	}
	next := v.Scan(cursor, count, func(e *Entry) {
		if i >= end || e != m[i].e {
			t.Fatalf("a scan from %d visits the %d-th", cursor, i)
		}
		i++
	})
	if end < len(m) && next != m[end].pos || end == len(m) && next != 0 || i != end {
		t.Fatalf("a scan from %d of %d ended before the %d-th, at %d", cursor, count, i, next)
	}
}

// Nodes of each height are divided, and joined again: keys that come in their order leave full leaves, others such that
// are four fifths full, and of few keys few nodes are left.
func TestKeyTreeDivides(t *testing.T) {
	const many = 200_000
	rng := rand.New(rand.NewPCG(7, 11))
	var loaded, set KeyTree
	var model keyModel
	for i := range uint64(many) {
		pos := i << (value.PositionBits - 18)
		e := outsideEntryOf("key")
		model = append(model, keyAt{pos, e})
		loaded.load(pos, e)
	}
	for _, i := range rng.Perm(many) {
		set.put(model[i].pos, model[i].e, leafMax/2, innerMax/2)
	}
	compareKeys(t, loaded.KeyView, model)
	compareKeys(t, set.KeyView, model)
	if n, _ := countNodes(loaded.KeyView); n != (many+leafMax-1)/leafMax || loaded.height != 2 {
		t.Errorf("a loaded tree has %d leaves, %d high", n, loaded.height)
	}
	if n, _ := countNodes(set.KeyView); n > many/leafMax*5/4 {
		t.Errorf("a tree has %d leaves", n)
	}
	before := set.Copy()
	all := slices.Clone(model)
	// One piece after the other goes, and a few of its keys come back: whole nodes are empty, and filled again.
	for begin := 0; begin < many; begin += 5000 {
		back := rng.Perm(5000)
		for _, tree := range []*KeyTree{&loaded, &set} {
			for i := range 5000 {
				tree.cut(all[begin+i].pos, "key")
			}
			for _, i := range back[:500] {
				tree.put(all[begin+i].pos, all[begin+i].e, leafMax/2, innerMax/2)
			}
		}
		for _, i := range back[500:] {
			model[begin+i].e = nil
		}
	}
	model = slices.DeleteFunc(model, func(k keyAt) bool { return k.e == nil })
	compareKeys(t, set.KeyView, model)
	compareKeys(t, loaded.KeyView, model)
	for n, i := range rng.Perm(many) {
		if all[i].pos%(100<<(value.PositionBits-18)) != 0 {
			set.cut(all[i].pos, "key")
			loaded.cut(all[i].pos, "key")
		}
		if n%20_000 == 0 {
			checkNode(t, set.root, set.height, 0, 1<<value.PositionBits)
		}
	}
	model = slices.DeleteFunc(model, func(k keyAt) bool { return k.pos%(100<<(value.PositionBits-18)) != 0 })
	compareKeys(t, set.KeyView, model)
	compareKeys(t, loaded.KeyView, model)
	compareKeys(t, before, all)
	for _, v := range []KeyView{set.KeyView, loaded.KeyView} {
		if leaves, inners := countNodes(v); leaves > 2*len(model)/leafSmall || inners > 1+2*leaves/innerSmall {
			t.Errorf("%d leaves and %d other nodes are left, of %d keys", leaves, inners, len(model))
		}
	}
	for len(model) > 1 {
		set.cut(model[0].pos, "key")
		model = model[1:]
	}
	compareKeys(t, set.KeyView, model)
	if set.height != 0 {
		t.Errorf("a tree of one key is %d high", set.height)
	}
	set.cut(model[0].pos, "key")
	compareKeys(t, set.KeyView, nil)
}

// The lower bits of a position are computed where an entry does not have them: many keys of one tag are found, and those
// that are not there are not.
func TestKeyTreeOfOneTag(t *testing.T) {
	var tree KeyTree
	var model keyModel
	for i := range 5000 {
		key := fmt.Sprint("key", i)
		pos := 7<<tagShift | value.Position(key)&(1<<tagShift-1)
		if e := newInline(key, "", Never, NoLock); i%2 == 0 {
			tree.put(pos, e, leafMax/2, innerMax/2)
			model = model.put(pos, e)
		} else if _, ok := tree.find(pos, key); ok {
			t.Fatalf("%s is found", key)
		}
	}
	compareKeys(t, tree.KeyView, model)
	for i, k := range model {
		if e, ok := tree.find(k.pos, k.e.Key()); !ok || e != k.e || tree.At(i) != k.e {
			t.Fatalf("%s is not found", k.e.Key())
		}
	}
}

// A node that cannot be joined, as its neighbours are full, may have one node only.
func TestKeyTreeOfOneNode(t *testing.T) {
	const each = innerMax * leafMax
	var tree KeyTree
	var model keyModel
	for i := range uint64(3 * each) {
		pos := i << (value.PositionBits - 15)
		model = append(model, keyAt{pos, outsideEntryOf("key")})
		tree.load(pos, model[i].e)
	}
	gone := slices.Clone(model[each : 2*each-1])
	for _, k := range gone {
		tree.cut(k.pos, "key")
	}
	model = slices.Delete(model, each, 2*each-1)
	if n := (*keyInner)((*keyInner)(tree.root).nodes[1]).n; n != 1 {
		t.Fatalf("the node has %d", n)
	}
	for _, k := range model {
		if e, ok := tree.find(k.pos, "key"); !ok || e != k.e {
			t.Fatal("a key is not found")
		}
	}
	for _, k := range gone {
		if _, ok := tree.find(k.pos, "key"); ok {
			t.Fatal("a key is found that has gone")
		}
		tree.put(k.pos, k.e, leafMax/2, innerMax/2)
		model = model.put(k.pos, k.e)
	}
	compareKeys(t, tree.KeyView, model)
}

// What is copied for a view is copied once: after that, and without one, nothing is.
func TestKeyTreeCopiesOnce(t *testing.T) {
	var tree KeyTree
	var entries []*Entry
	for i := range uint64(20_000) {
		e := outsideEntryOf("key")
		entries = append(entries, e)
		tree.put(i<<(value.PositionBits-15), e, leafMax/2, innerMax/2)
	}
	again := func() (changed bool) {
		before := nodesOf(tree.KeyView)
		for i, e := range entries {
			tree.put(uint64(i)<<(value.PositionBits-15), e, leafMax/2, innerMax/2)
		}
		return !slices.Equal(nodesOf(tree.KeyView), before)
	}
	if again() {
		t.Error("nodes are copied without a view")
	}
	tree.Copy()
	if !again() {
		t.Error("the nodes of a view are not copied")
	}
	if again() {
		t.Error("nodes are copied again")
	}
}

// nodesOf lists the nodes of a tree, each before those below it.
func nodesOf(v KeyView) (nodes []keyNode) {
	var list func(node keyNode, height int)
	list = func(node keyNode, height int) {
		nodes = append(nodes, node)
		if height > 0 {
			for _, below := range (*keyInner)(node).nodes[:(*keyInner)(node).n] {
				list(below, height-1)
			}
		}
	}
	list(v.root, v.height)
	return nodes
}

func countNodes(v KeyView) (leaves, inners int) {
	v.ascend(0, "", func(_ *keyLeaf, at int) bool {
		if at == 0 {
			leaves++
		}
		return true
	})
	return leaves, len(nodesOf(v)) - leaves
}
