package keyspace

import (
	"slices"
	"strings"
)

var hashKind = &kind{name: "hash", encodings: []string{"listpack", "hashtable"}, image: 1, read: readHash}

// The forms of a hash.
const (
	hashSmall = iota
	hashLarge
)

// What a hash costs beside its names and values: see entry.size.
const (
	hashOverheadBytes  = 96
	fieldOverheadBytes = 48
)

// hash is a hash value. A small one keeps its fields in the order of insertion,
// as Redis's listpack does; a larger one becomes a tree and stays one.
type hash struct {
	owner  uint64 // the generation that may change it in place
	limits hashLimits
	small  []field // while large is nil
	large  *tree[string]
	bytes  int64 // of names, values and their overhead
}

type field struct{ name, val string }

// hashLimits say up to where a hash stays small: the settings
// hash-max-listpack-entries and hash-max-listpack-value.
type hashLimits struct{ entries, valueBytes int64 }

func newHash(owner uint64) *hash { return &hash{owner: owner} }

func (h *hash) kind() *kind { return hashKind }

func (h *hash) form() int {
	if h.large != nil {
		return hashLarge
	}
	return hashSmall
}

// isTree reports whether it has outgrown the small form: scan then goes in steps.
func (h *hash) isTree() bool { return h.large != nil }

// limit says how large the small form may become from now on. Whoever changes an aggregate sets it
// first.
func (h *hash) limit(limits hashLimits) { h.limits = limits }

func (h *hash) own(generation uint64) aggregate {
	if h.owner == generation {
		return h
	}
	return h.copyFor(generation)
}

func (h *hash) clone() aggregate { return h.copyFor(h.owner) }

func (h *hash) copyFor(owner uint64) *hash {
	c := &hash{owner: owner, bytes: h.bytes}
	if h.large != nil {
		t := h.large.copy()
		c.large = &t
		return c
	}
	c.small = append(make([]field, 0, len(h.small)+1), h.small...)
	return c
}

func (h *hash) size() int64 { return hashOverheadBytes + h.bytes }

func (h *hash) len() int {
	if h.large != nil {
		return h.large.len()
	}
	return len(h.small)
}

func (h *hash) get(name string) (string, bool) {
	if h.large != nil {
		return h.large.get(name)
	}
	if i := h.index(name); i >= 0 {
		return h.small[i].val, true
	}
	return "", false
}

func (h *hash) index(name string) int {
	for i := range h.small {
		if h.small[i].name == name {
			return i
		}
	}
	return -1
}

// set gives a field a value; both are cloned. It reports whether the field is new.
// Only inside ctx.editHash.
func (h *hash) set(name, val string) (created bool) {
	val = strings.Clone(val)
	if int64(len(name)) > h.limits.valueBytes || int64(len(val)) > h.limits.valueBytes {
		h.enlarge()
	}
	old, had := h.get(name)
	if had {
		h.bytes += int64(len(val) - len(old))
	} else {
		name = strings.Clone(name)
		h.bytes += fieldBytes(name, val)
	}
	h.place(name, val, had)
	if int64(h.len()) > h.limits.entries {
		h.enlarge()
	}
	return !had
}

func fieldBytes(name, val string) int64 {
	return fieldOverheadBytes + int64(len(name)+len(val))
}

func (h *hash) place(name, val string, had bool) {
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

// del removes a field and reports whether it was there. Only inside ctx.editHash.
func (h *hash) del(name string) bool {
	old, had := h.get(name)
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

func (h *hash) enlarge() {
	if h.large != nil {
		return
	}
	t := newTree[string]()
	for _, f := range h.small {
		t.set(f.name, f.val)
	}
	h.large, h.small = &t, nil
}

// each visits the fields in their order until visit returns false.
func (h *hash) each(visit func(name, val string) bool) {
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

// at returns the i-th field, 0 <= i < len.
func (h *hash) at(i int) (name, val string) {
	if h.large != nil {
		return h.large.at(i)
	}
	return h.small[i].name, h.small[i].val
}

// scan is HSCAN's step: see tree.scan. A small hash is visited whole.
func (h *hash) scan(cursor uint64, count int, visit func(name, val string)) (next uint64) {
	if h.large != nil {
		return h.large.scan(cursor, count, visit)
	}
	for _, f := range h.small {
		visit(f.name, f.val)
	}
	return 0
}

// findWork is the work of looking for a field.
func (h *hash) findWork(name string) int64 {
	if h.large != nil {
		return treeWork(h.large.len()) + hashWork*int64(len(name))
	}
	return smallWork(len(h.small), h.bytes, name)
}

// setWork is the work of giving fields values, name after value. A nil hash is empty.
func (h *hash) setWork(pairs []string) (work int64) {
	n := len(pairs) / 2
	for i := 0; i+1 < len(pairs); i += 2 {
		find := treeWork(n) + hashWork*int64(len(pairs[i]))
		if h != nil {
			find = max(find, h.findWork(pairs[i]))
		}
		work += 3*find + copyWork*int64(len(pairs[i])+len(pairs[i+1]))
	}
	return work
}

func (h *hash) write(w *imageWriter) {
	h.each(func(name, val string) bool {
		w.text(name)
		w.text(val)
		return w.err == nil
	})
}

func readHash(r *imageReader, n uint64, form int, generation uint64) aggregate {
	h := newHash(generation)
	if form == hashLarge {
		h.enlarge()
	}
	for ; n > 0 && r.err == nil; n-- {
		name, val := r.text(), r.text()
		h.bytes += fieldBytes(name, val)
		h.place(name, val, false)
	}
	return h
}

func (h *hash) hasAny(names []string) bool {
	for _, name := range names {
		if _, had := h.get(name); had {
			return true
		}
	}
	return false
}
