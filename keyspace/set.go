package keyspace

import (
	"slices"
	"strconv"

	"lockd/resp"
)

var setKind = &kind{name: "set", encodings: []string{"intset", "listpack", "hashtable"}, image: 5, read: readSet}

// The forms of a set.
const (
	setInts = iota
	setSmall
	setLarge
)

// What a set costs beside the bytes of its members: see entry.size. A number takes
// intBytes whole.
const (
	setOverheadBytes    = 96
	memberOverheadBytes = 48
	intBytes            = 8
)

// set is a set value. One of whole numbers keeps them in their order, as Redis's
// intset does; a small one of anything keeps its members in the order in which they
// came; a larger one becomes a tree and stays one. A nil set can be read: it is empty.
type set struct {
	owner  uint64 // the generation that may change it in place
	limits setLimits
	shape  int // its form, and which of the next three holds the members
	ints   []int64
	small  []string
	large  *tree[struct{}]
	bytes  int64 // of the members of small or large
}

// setLimits say up to where a set keeps its form: the settings
// set-max-intset-entries, set-max-listpack-entries and set-max-listpack-value.
type setLimits struct{ ints, entries, valueBytes int64 }

func newSet(owner uint64) *set { return &set{owner: owner} }

func (s *set) kind() *kind { return setKind }

func (s *set) form() int { return s.shape }

// isTree reports whether it has outgrown the other forms: scan then goes in steps.
func (s *set) isTree() bool { return s.shape == setLarge }

// limit says how large the forms but the tree may become from now on. Whoever changes a set sets it
// first.
func (s *set) limit(limits setLimits) { s.limits = limits }

// beginSmall makes an empty set a listpack, whatever its first member is.
func (s *set) beginSmall() { s.shape = setSmall }

func (s *set) own(generation uint64) aggregate {
	if s.owner == generation {
		return s
	}
	return s.copyFor(generation)
}

func (s *set) clone() aggregate { return s.copyFor(s.owner) }

func (s *set) copyFor(owner uint64) *set {
	c := &set{owner: owner, shape: s.shape, bytes: s.bytes}
	switch s.shape {
	case setInts:
		c.ints = append(make([]int64, 0, len(s.ints)+1), s.ints...)
	case setSmall:
		c.small = append(make([]string, 0, len(s.small)+1), s.small...)
	case setLarge:
		t := s.large.copy()
		c.large = &t
	}
	return c
}

func (s *set) size() int64 {
	if s.shape == setInts {
		return setOverheadBytes + intBytes*int64(len(s.ints))
	}
	return setOverheadBytes + memberOverheadBytes*int64(s.len()) + s.bytes
}

func (s *set) len() int {
	switch {
	case s == nil:
		return 0
	case s.shape == setInts:
		return len(s.ints)
	case s.shape == setSmall:
		return len(s.small)
	}
	return s.large.len()
}

func (s *set) has(member string) bool {
	switch {
	case s == nil:
		return false
	case s.shape == setInts:
		n, isInt := resp.ParseInt(member)
		_, found := slices.BinarySearch(s.ints, n)
		return isInt && found
	case s.shape == setSmall:
		return slices.Contains(s.small, member)
	}
	_, found := s.large.get(member)
	return found
}

// expect chooses the form before n members are added, first before the others: they
// need not all be new, but Redis chooses as if they were.
func (s *set) expect(first string, n int64) {
	_, isInt := resp.ParseInt(first)
	fitsInts, fitsSmall := n <= s.limits.ints, n <= s.limits.entries
	switch {
	case s.len() == 0 && isInt && fitsInts:
		s.shape = setInts
	case s.len() == 0 && fitsSmall:
		s.shape = setSmall
	case s.len() == 0, s.shape == setInts && !fitsInts, s.shape == setSmall && !fitsSmall:
		s.enlarge()
	}
}

// add puts a member in, which it keeps as it is: the caller has cloned it. It
// reports whether the member is new. Only inside ctx.editSet, or where the set is
// not stored yet.
func (s *set) add(member string) bool {
	if s.shape == setInts {
		if n, isInt := resp.ParseInt(member); isInt {
			return s.addInt(n)
		}
		s.leaveInts(member)
	}
	if s.shape == setSmall {
		if slices.Contains(s.small, member) {
			return false
		}
		if s.fitsSmall(len(s.small), len(member)) {
			s.small = append(s.small, member)
			s.bytes += int64(len(member))
			return true
		}
		s.enlarge()
	}
	if s.large.set(member, struct{}{}) {
		return false
	}
	s.bytes += int64(len(member))
	return true
}

func (s *set) addInt(n int64) bool {
	i, found := slices.BinarySearch(s.ints, n)
	if found {
		return false
	}
	s.ints = slices.Insert(s.ints, i, n)
	if int64(len(s.ints)) > s.limits.ints {
		s.enlarge()
	}
	return true
}

// fitsSmall reports whether a small set of n members may take one more.
func (s *set) fitsSmall(n, memberBytes int) bool {
	return int64(n) < s.limits.entries && int64(memberBytes) <= s.limits.valueBytes
}

// leaveInts gives a set of numbers the form in which it can take a member that is
// none.
func (s *set) leaveInts(member string) {
	longest := len(member)
	if n := len(s.ints); n > 0 {
		longest = max(longest, len(decimal(s.ints[0])), len(decimal(s.ints[n-1])))
	}
	if !s.fitsSmall(len(s.ints), longest) {
		s.enlarge()
		return
	}
	for _, n := range s.ints {
		s.small = append(s.small, decimal(n))
		s.bytes += int64(len(decimal(n)))
	}
	s.shape, s.ints = setSmall, nil
}

func (s *set) enlarge() {
	if s.shape == setLarge {
		return
	}
	t := newTree[struct{}]()
	bytes := int64(0)
	s.each(func(member string) bool {
		t.set(member, struct{}{})
		bytes += int64(len(member))
		return true
	})
	*s = set{owner: s.owner, limits: s.limits, shape: setLarge, large: &t, bytes: bytes}
}

// compact makes a set of nothing but numbers an intset, if they are not too many.
func (s *set) compact() {
	if s.shape == setInts || int64(s.len()) > s.limits.ints {
		return
	}
	ints := make([]int64, 0, s.len())
	s.each(func(member string) bool {
		n, isInt := resp.ParseInt(member)
		if isInt {
			ints = append(ints, n)
		}
		return isInt
	})
	if len(ints) == s.len() {
		slices.Sort(ints)
		*s = set{owner: s.owner, limits: s.limits, shape: setInts, ints: ints}
	}
}

// del removes a member and reports whether it was there. Only inside ctx.editSet.
func (s *set) del(member string) bool {
	switch s.shape {
	case setInts:
		n, isInt := resp.ParseInt(member)
		i, found := slices.BinarySearch(s.ints, n)
		if !isInt || !found {
			return false
		}
		s.ints = slices.Delete(s.ints, i, i+1)
		return true
	case setSmall:
		i := slices.Index(s.small, member)
		if i < 0 {
			return false
		}
		s.small = slices.Delete(s.small, i, i+1)
	default:
		if _, found := s.large.del(member); !found {
			return false
		}
	}
	s.bytes -= int64(len(member))
	return true
}

// each visits the members in their order until visit returns false.
func (s *set) each(visit func(member string) bool) {
	switch {
	case s == nil:
	case s.shape == setInts:
		for _, n := range s.ints {
			if !visit(decimal(n)) {
				return
			}
		}
	case s.shape == setSmall:
		for _, member := range s.small {
			if !visit(member) {
				return
			}
		}
	default:
		s.large.each(func(member string, _ struct{}) bool { return visit(member) })
	}
}

// replyBytes is about what the members take in a reply.
func (s *set) replyBytes() int64 {
	if s == nil {
		return 0
	}
	return int64(s.len())*resp.Bulk("").Size() + s.bytes
}

// at returns the i-th member, 0 <= i < len.
func (s *set) at(i int) string {
	switch s.shape {
	case setInts:
		return decimal(s.ints[i])
	case setSmall:
		return s.small[i]
	}
	member, _ := s.large.at(i)
	return member
}

// members lists them in their order.
func (s *set) members() []string {
	all := make([]string, 0, s.len())
	s.each(func(member string) bool {
		all = append(all, member)
		return true
	})
	return all
}

// scan is SSCAN's step: see tree.scan. All but a large set is visited whole.
func (s *set) scan(cursor uint64, count int, visit func(member string)) (next uint64) {
	if s.shape == setLarge {
		return s.large.scan(cursor, count, func(member string, _ struct{}) { visit(member) })
	}
	s.each(func(member string) bool {
		visit(member)
		return true
	})
	return 0
}

// findWork is the work of looking for a member, or of adding or removing one.
func (s *set) findWork(member string) int64 {
	switch {
	case s == nil:
		return findWork
	case s.shape == setSmall:
		return smallWork(len(s.small), s.bytes, member)
	case s.shape == setInts:
		return treeWork(len(s.ints))
	}
	return treeWork(s.large.len()) + hashWork*int64(len(member))
}

func (s *set) write(w *imageWriter) {
	s.each(func(member string) bool {
		w.text(member)
		return w.err == nil
	})
}

func readSet(r *imageReader, n uint64, form int, generation uint64) aggregate {
	s := newSet(generation)
	s.shape = form
	if form == setLarge {
		t := newTree[struct{}]()
		s.large = &t
	}
	for ; n > 0 && r.err == nil; n-- {
		member := r.text()
		if form == setInts {
			s.readInt(r, member)
			continue
		}
		s.bytes += int64(len(member))
		if form == setLarge {
			s.large.set(member, struct{}{})
		} else {
			s.small = append(s.small, member)
		}
	}
	return s
}

// readInt adds a number that comes after all that are there.
func (s *set) readInt(r *imageReader, member string) {
	n, isInt := resp.ParseInt(member)
	if len(s.ints) > 0 && n <= s.ints[len(s.ints)-1] || !isInt {
		r.fail("the numbers of a set are not in order")
	}
	s.ints = append(s.ints, n)
}

// decimal is a member that is a number.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }
