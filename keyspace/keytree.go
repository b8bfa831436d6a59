package keyspace

import (
	"github.com/tidwall/btree"

	"lockd/keyspace/value"
)

// keyTree is the tree of a database: entries in the order of a tree (position, key).
// An entry has its key already, so a leaf has only its position besides, in 16 bytes
// instead of 32. Positions decide all comparisons but the last one of a search; that
// one looks at the entry, which whoever searches wants anyway.
type keyTree struct {
	b *btree.BTreeG[keyLeaf]

	// probe stands for the key that is being looked for, and is nobody's entry. Its key
	// is empty between two calls, so that it keeps no argument alive. Each copy of the
	// tree has its own.
	probe *outsideEntry
}

type keyLeaf struct {
	pos   uint64
	entry *entry
}

func keyLeafOf(e *entry) keyLeaf { return keyLeaf{value.Position(e.key()), e} }

func (l keyLeaf) Position() uint64 { return l.pos }

func keyLess(a, b keyLeaf) bool {
	if a.pos != b.pos {
		return a.pos < b.pos
	}
	return a.entry.key() < b.entry.key()
}

func newProbe() *outsideEntry { return &outsideEntry{entry: entry{strBytes: isOutside}} }

func newKeyTree() keyTree {
	return keyTree{btree.NewBTreeGOptions(keyLess, btree.Options{NoLocks: true}), newProbe()}
}

func (t keyTree) len() int { return t.b.Len() }

// copy is O(1). Both trees may then change, each its own nodes; one of them may
// be read on another goroutine meanwhile.
func (t keyTree) copy() keyTree { return keyTree{t.b.Copy(), newProbe()} }

func (t keyTree) get(key string) (*entry, bool) {
	t.probe.name = key
	l, ok := t.b.Get(keyLeaf{value.Position(key), &t.probe.entry})
	t.probe.name = ""
	return l.entry, ok
}

// set puts e in the place of the entry of its key, if there is one.
func (t keyTree) set(e *entry) { t.b.Set(keyLeafOf(e)) }

// load is set for an entry that comes after all others.
func (t keyTree) load(e *entry) { t.b.Load(keyLeafOf(e)) }

// del removes the entry of e's key.
func (t keyTree) del(e *entry) { t.b.Delete(keyLeafOf(e)) }

// at returns the i-th entry, 0 <= i < len.
func (t keyTree) at(i int) *entry {
	l, _ := t.b.GetAt(i)
	return l.entry
}

func (t keyTree) each(visit func(e *entry) bool) {
	t.b.Scan(func(l keyLeaf) bool { return visit(l.entry) })
}

// from is each from an entry on.
func (t keyTree) from(first *entry, visit func(e *entry) bool) {
	t.b.Ascend(keyLeafOf(first), func(l keyLeaf) bool { return visit(l.entry) })
}

// scan is value.ScanFrom for entries.
func (t keyTree) scan(cursor uint64, count int, visit func(e *entry)) (next uint64) {
	return value.ScanFrom(t.b, keyLeaf{cursor, &t.probe.entry}, count, func(l keyLeaf) { visit(l.entry) })
}
