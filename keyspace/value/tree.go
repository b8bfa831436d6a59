package value

import "github.com/tidwall/btree"

// tree is an ordered map from strings to V with an O(1) copy. Its order is (position, key), where the position of a key
// is its hash, so a scan needs no memory on the server: a cursor is a position, and a key has the same position on
// every node, before and after a restart, whatever is written meanwhile.
type tree[V any] struct {
	b *btree.BTreeG[leaf[V]]
}

type leaf[V any] struct {
	pos uint64
	key string
	val V
}

// PositionBits is the width of a position, and of a cursor: a double (JavaScript, Lua) holds it exactly.
const PositionBits = 52

// Position returns the position of a key in a tree: FNV-1a, mixed so that its upper bits are good, too. The order of
// images and the cursors of clients depend on it, so it never changes.
func Position(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h >> (64 - PositionBits)
}

func newTree[V any]() tree[V] {
	return tree[V]{btree.NewBTreeGOptions(leafLess[V], btree.Options{NoLocks: true})}
}

func leafLess[V any](a, b leaf[V]) bool {
	if a.pos != b.pos {
		return a.pos < b.pos
	}
	return a.key < b.key
}

func (t tree[V]) len() int { return t.b.Len() }

// copy returns a copy in O(1). Both trees may then change, as each changes only its own nodes, and another goroutine
// may read one of them meanwhile.
func (t tree[V]) copy() tree[V] { return tree[V]{t.b.Copy()} }

func (t tree[V]) get(key string) (V, bool) {
	l, ok := t.b.Get(leaf[V]{pos: Position(key), key: key})
	return l.val, ok
}

// set sets the value of a key. It keeps key, so the caller clones it.
func (t tree[V]) set(key string, val V) (replaced bool) {
	_, replaced = t.b.Set(leaf[V]{Position(key), key, val})
	return replaced
}

func (t tree[V]) del(key string) (V, bool) {
	l, ok := t.b.Delete(leaf[V]{pos: Position(key), key: key})
	return l.val, ok
}

// at returns the i-th item, 0 <= i < len.
func (t tree[V]) at(i int) (string, V) {
	l, _ := t.b.GetAt(i)
	return l.key, l.val
}

func (t tree[V]) each(visit func(key string, val V) bool) {
	t.b.Scan(func(l leaf[V]) bool { return visit(l.key, l.val) })
}

// scan visits about count items from a cursor on, which is a position, and returns the next cursor, 0 at the end. It
// stops only between positions, so a cursor never divides keys that share one: an item that is there during the whole
// scan is visited exactly once.
func (t tree[V]) scan(cursor uint64, count int, visit func(key string, val V)) (next uint64) {
	seen, last := 0, uint64(0)
	t.b.Ascend(leaf[V]{pos: cursor}, func(l leaf[V]) bool {
		if seen >= count && l.pos != last {
			next = l.pos
			return false
		}
		visit(l.key, l.val)
		seen, last = seen+1, l.pos
		return true
	})
	return next
}
