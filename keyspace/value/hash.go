package value

import (
	"slices"
	"strings"
)

// HashKind is the Kind of hashes.
var HashKind = &Kind{Name: "hash", Encodings: []string{"listpack", "hashtable"}, Image: 1, read: readHash}

// The forms of a hash.
const (
	hashSmall = iota
	hashLarge
)

// What a hash counts for besides its names and values; see Aggregate.Size.
const (
	hashOverheadBytes  = 96
	fieldOverheadBytes = 48
)

// Hash is a hash value. A small hash keeps its fields in the order of insertion, as Redis's listpack does; a larger
// hash becomes a tree and stays one.
type Hash struct {
	owner  uint64 // the generation that may change it in place
	limits HashLimits
	small  []field // while large is nil
	large  *tree[string]
	bytes  int64 // of names, values and their overhead
}

type field struct{ name, val string }

// HashLimits bound the small form of a hash: the settings hash-max-listpack-entries and hash-max-listpack-value.
type HashLimits struct{ Entries, ValueBytes int64 }

// NewHash makes an empty hash that the generation owner may change.
func NewHash(owner uint64) *Hash { return &Hash{owner: owner} }

// Kind returns HashKind.
func (h *Hash) Kind() *Kind { return HashKind }

// Form returns hashSmall or hashLarge.
func (h *Hash) Form() int {
	if h.large != nil {
		return hashLarge
	}
	return hashSmall
}

// IsTree reports whether it has outgrown the small form: Scan then goes in steps.
func (h *Hash) IsTree() bool { return h.large != nil }

// Limit sets up to where it keeps a small form. The caller sets it before each change.
func (h *Hash) Limit(limits HashLimits) { h.limits = limits }

// Own implements Aggregate.Own. A copy of a small form costs its elements, of any other nothing.
func (h *Hash) Own(generation uint64) Aggregate {
	if h.owner == generation {
		return h
	}
	return h.copyFor(generation)
}

// Clone implements Aggregate.Clone.
func (h *Hash) Clone() Aggregate { return h.copyFor(h.owner) }

func (h *Hash) copyFor(owner uint64) *Hash {
	c := &Hash{owner: owner, bytes: h.bytes}
	if h.large != nil {
		t := h.large.copy()
		c.large = &t
		return c
	}
	c.small = append(make([]field, 0, len(h.small)+1), h.small...)
	return c
}

// Size implements Aggregate.Size, in bytes.
func (h *Hash) Size() int64 { return hashOverheadBytes + h.bytes }

// Len returns the number of fields.
func (h *Hash) Len() int {
	if h.large != nil {
		return h.large.len()
	}
	return len(h.small)
}

// Get finds the value of a field.
func (h *Hash) Get(name string) (string, bool) {
	if h.large != nil {
		return h.large.get(name)
	}
	if i := h.index(name); i >= 0 {
		return h.small[i].val, true
	}
	return "", false
}

func (h *Hash) index(name string) int {
	for i := range h.small {
		if h.small[i].name == name {
			return i
		}
	}
	return -1
}

// Set gives a field a value; both are cloned. It reports whether the field is new.
// The caller must own it.
func (h *Hash) Set(name, val string) (created bool) {
	val = strings.Clone(val)
	if int64(len(name)) > h.limits.ValueBytes || int64(len(val)) > h.limits.ValueBytes {
		h.enlarge()
	}
	old, had := h.Get(name)
	if had {
		h.bytes += int64(len(val) - len(old))
	} else {
		name = strings.Clone(name)
		h.bytes += fieldBytes(name, val)
	}
	h.place(name, val, had)
	if int64(h.Len()) > h.limits.Entries {
		h.enlarge()
	}
	return !had
}

func fieldBytes(name, val string) int64 {
	return fieldOverheadBytes + int64(len(name)+len(val))
}

func (h *Hash) place(name, val string, had bool) {
	switch {
	case h.large != nil && had:
		h.large.set(strings.Clone(name), val)
	case h.large != nil:
		h.large.set(name, val)
	case had:
		h.small[h.index(name)].val = val
	default:
		h.small = append(h.small, field{name, val})
	}
}

// Delete removes a field and reports whether it was there. The caller must own it.
func (h *Hash) Delete(name string) bool {
	old, had := h.Get(name)
	if !had {
		return false
	}
	h.bytes -= fieldBytes(name, old)
	if h.large != nil {
		h.large.del(name)
		return true
	}
	i := h.index(name)
	h.small = slices.Delete(h.small, i, i+1)
	return true
}

func (h *Hash) enlarge() {
	if h.large != nil {
		return
	}
	t := newTree[string]()
	for _, f := range h.small {
		t.set(f.name, f.val)
	}
	h.large, h.small = &t, nil
}

// Each visits the fields in their order until visit returns false.
func (h *Hash) Each(visit func(name, val string) bool) {
	if h.large != nil {
		h.large.each(visit)
		return
	}
	for _, f := range h.small {
		if !visit(f.name, f.val) {
			return
		}
	}
}

// At returns the i-th field, 0 <= i < len.
func (h *Hash) At(i int) (name, val string) {
	if h.large != nil {
		return h.large.at(i)
	}
	return h.small[i].name, h.small[i].val
}

// Scan does a step of HSCAN; see tree.scan. It visits all of a small hash.
func (h *Hash) Scan(cursor uint64, count int, visit func(name, val string)) (next uint64) {
	if h.large != nil {
		return h.large.scan(cursor, count, visit)
	}
	for _, f := range h.small {
		visit(f.name, f.val)
	}
	return 0
}

// FindWork returns the work of looking for a field.
func (h *Hash) FindWork(name string) int64 {
	if h.large != nil {
		return TreeWork(h.large.len()) + HashWork*int64(len(name))
	}
	return smallWork(len(h.small), h.bytes, name)
}

// SetWork returns the work of setting fields, given as names and values in turn. A nil hash is empty.
func (h *Hash) SetWork(pairs []string) (work int64) {
	n := len(pairs) / 2
	for i := 0; i+1 < len(pairs); i += 2 {
		find := TreeWork(n) + HashWork*int64(len(pairs[i]))
		if h != nil {
			find = max(find, h.FindWork(pairs[i]))
		}
		work += 3*find + CopyWork*int64(len(pairs[i])+len(pairs[i+1]))
	}
	return work
}

// Write writes names and values in turn.
func (h *Hash) Write(w *Writer) {
	h.Each(func(name, val string) bool {
		w.Text(name)
		w.Text(val)
		return w.err == nil
	})
}

func readHash(r *Reader, n uint64, form int, generation uint64) Aggregate {
	h := NewHash(generation)
	if form == hashLarge {
		h.enlarge()
	}
	for ; n > 0 && r.err == nil; n-- {
		name, val := r.Text(), r.Text()
		h.bytes += fieldBytes(name, val)
		h.place(name, val, false)
	}
	return h
}

// Has reports whether a field is there.
func (h *Hash) Has(name string) bool {
	_, had := h.Get(name)
	return had
}
