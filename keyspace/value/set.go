package value

import (
	"slices"
	"strconv"

	"lockd/resp"
)

// SetKind is the Kind of sets.
var SetKind = &Kind{Name: "set", Encodings: []string{"intset", "listpack", "hashtable"}, Image: 5, read: readSet}

// The forms of a set.
const (
	SetInts = iota
	setSmall
	setLarge
)

// What a set counts for besides the bytes of its members; see Aggregate.Size. A number takes
// intBytes whole.
const (
	setOverheadBytes    = 96
	memberOverheadBytes = 48
	intBytes            = 8
)

// Set is a set value. A set of whole numbers keeps them sorted, as Redis's intset does; another small set keeps its
// members in the order of insertion; a larger set becomes a tree and stays one. A nil set can be read, and is empty.
type Set struct {
	owner  uint64 // the generation that may change it in place
	limits SetLimits
	shape  int // its form, and which of the next three holds the members
	ints   intset
	small  []string
	large  *tree[struct{}]
	bytes  int64 // of the members of small or large
}

// SetLimits bound the forms of a set except the tree: the settings set-max-intset-entries, set-max-listpack-entries and
// set-max-listpack-value.
type SetLimits struct{ Ints, Entries, ValueBytes int64 }

// fit reports whether a small set of n members may take one more.
func (l *SetLimits) fit(n, memberBytes int) bool {
	return int64(n) < l.Entries && int64(memberBytes) <= l.ValueBytes
}

// intset holds whole numbers in their order.
type intset []int64

func (s intset) has(member string) bool {
	n, isInt := resp.ParseInt(member)
	_, found := slices.BinarySearch(s, n)
	return isInt && found
}

// add adds a number, and reports whether it is new.
func (s *intset) add(n int64) bool {
	i, found := slices.BinarySearch(*s, n)
	if !found {
		*s = slices.Insert(*s, i, n)
	}
	return !found
}

// remove removes a member, and reports whether it was there.
func (s *intset) remove(member string) bool {
	n, isInt := resp.ParseInt(member)
	i, found := slices.BinarySearch(*s, n)
	if !isInt || !found {
		return false
	}
	*s = slices.Delete(*s, i, i+1)
	return true
}

// read adds a member of an image, which must come after all others.
func (s *intset) read(r *Reader, member string) {
	n, isInt := resp.ParseInt(member)
	if len(*s) > 0 && n <= (*s)[len(*s)-1] || !isInt {
		r.Fail("the numbers of a set are not in order")
	}
	*s = append(*s, n)
}

// NewSet makes an empty set that the generation owner may change.
func NewSet(owner uint64) *Set { return &Set{owner: owner} }

// Kind returns SetKind.
func (s *Set) Kind() *Kind { return SetKind }

// Form returns SetInts, setSmall or setLarge.
func (s *Set) Form() int { return s.shape }

// IsTree reports whether it has outgrown the other forms: Scan then goes in steps.
func (s *Set) IsTree() bool { return s.shape == setLarge }

// Limit sets up to where it keeps a small form. The caller sets it before each change.
func (s *Set) Limit(limits SetLimits) { s.limits = limits }

// BeginSmall makes an empty set a listpack, whatever its first member is.
func (s *Set) BeginSmall() { s.shape = setSmall }

// Own implements Aggregate.Own. A copy of a small form costs its elements, of any other nothing.
func (s *Set) Own(generation uint64) Aggregate {
	if s.owner == generation {
		return s
	}
	return s.copyFor(generation)
}

// Clone implements Aggregate.Clone.
func (s *Set) Clone() Aggregate { return s.copyFor(s.owner) }

func (s *Set) copyFor(owner uint64) *Set {
	c := &Set{owner: owner, shape: s.shape, bytes: s.bytes}
	switch s.shape {
	case SetInts:
		c.ints = append(make([]int64, 0, len(s.ints)+1), s.ints...)
	case setSmall:
		c.small = append(make([]string, 0, len(s.small)+1), s.small...)
	case setLarge:
		t := s.large.copy()
		c.large = &t
	}
	return c
}

// Size implements Aggregate.Size, in bytes.
func (s *Set) Size() int64 {
	if s.shape == SetInts {
		return setOverheadBytes + intBytes*int64(len(s.ints))
	}
	return setOverheadBytes + memberOverheadBytes*int64(s.Len()) + s.bytes
}

// Len returns the number of members; nil has none.
func (s *Set) Len() int {
	switch {
	case s == nil:
		return 0
	case s.shape == SetInts:
		return len(s.ints)
	case s.shape == setSmall:
		return len(s.small)
	}
	return s.large.len()
}

// Has reports whether a member is there; nil has none.
func (s *Set) Has(member string) bool {
	switch {
	case s == nil:
		return false
	case s.shape == SetInts:
		return s.ints.has(member)
	case s.shape == setSmall:
		return slices.Contains(s.small, member)
	}
	_, found := s.large.get(member)
	return found
}

// Expect chooses the form before n members are added, beginning with first. As in Redis it counts all of them as new.
func (s *Set) Expect(first string, n int64) {
	_, isInt := resp.ParseInt(first)
	fitsInts, fitsSmall := n <= s.limits.Ints, n <= s.limits.Entries
	switch {
	case s.Len() == 0 && isInt && fitsInts:
		s.shape = SetInts
	case s.Len() == 0 && fitsSmall:
		s.shape = setSmall
	case s.Len() == 0, s.shape == SetInts && !fitsInts, s.shape == setSmall && !fitsSmall:
		s.enlarge()
	}
}

// Add adds a member, and reports whether it is new. It keeps the member, so the caller clones it. The caller must own
// it.
func (s *Set) Add(member string) bool {
	if s.shape == SetInts {
		if n, isInt := resp.ParseInt(member); isInt {
			isNew := s.ints.add(n)
			if isNew && int64(len(s.ints)) > s.limits.Ints {
				s.enlarge()
			}
			return isNew
		}
		s.leaveInts(member)
	}
	if s.shape == setSmall {
		if slices.Contains(s.small, member) {
			return false
		}
		if s.limits.fit(len(s.small), len(member)) {
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

// leaveInts gives a set of numbers a form that can have a member that is not a number.
func (s *Set) leaveInts(member string) {
	longest := len(member)
	if n := len(s.ints); n > 0 {
		longest = max(longest, len(decimal(s.ints[0])), len(decimal(s.ints[n-1])))
	}
	if !s.limits.fit(len(s.ints), longest) {
		s.enlarge()
		return
	}
	for _, n := range s.ints {
		s.small = append(s.small, decimal(n))
		s.bytes += int64(len(decimal(n)))
	}
	s.shape, s.ints = setSmall, nil
}

func (s *Set) enlarge() {
	if s.shape == setLarge {
		return
	}
	t := newTree[struct{}]()
	bytes := int64(0)
	for member := range s.Each {
		t.set(member, struct{}{})
		bytes += int64(len(member))
	}
	*s = Set{owner: s.owner, limits: s.limits, shape: setLarge, large: &t, bytes: bytes}
}

// Compact makes a set that has only numbers an intset, if they are not too many.
func (s *Set) Compact() {
	if s.shape == SetInts || int64(s.Len()) > s.limits.Ints {
		return
	}
	ints := make([]int64, 0, s.Len())
	for member := range s.Each {
		n, isInt := resp.ParseInt(member)
		if !isInt {
			return
		}
		ints = append(ints, n)
	}
	slices.Sort(ints)
	*s = Set{owner: s.owner, limits: s.limits, shape: SetInts, ints: ints}
}

// Delete removes a member and reports whether it was there. The caller must own it.
func (s *Set) Delete(member string) bool {
	switch s.shape {
	case SetInts:
		return s.ints.remove(member)
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

// Each visits the members in their order until visit returns false.
func (s *Set) Each(visit func(member string) bool) {
	switch {
	case s == nil:
	case s.shape == SetInts:
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

// ReplyBytes returns about the bytes of the members in a reply.
func (s *Set) ReplyBytes() int64 {
	if s == nil {
		return 0
	}
	return int64(s.Len())*resp.Bulk("").Size() + s.bytes
}

// At returns the i-th member, 0 <= i < len.
func (s *Set) At(i int) string {
	switch s.shape {
	case SetInts:
		return decimal(s.ints[i])
	case setSmall:
		return s.small[i]
	}
	member, _ := s.large.at(i)
	return member
}

// Members lists them in their order.
func (s *Set) Members() []string {
	all := make([]string, 0, s.Len())
	for member := range s.Each {
		all = append(all, member)
	}
	return all
}

// Scan does a step of SSCAN; see tree.scan. It visits all of a set that is not a tree.
func (s *Set) Scan(cursor uint64, count int, visit func(member string)) (next uint64) {
	if s.shape == setLarge {
		return s.large.scan(cursor, count, func(member string, _ struct{}) { visit(member) })
	}
	for member := range s.Each {
		visit(member)
	}
	return 0
}

// FindWork returns the work of looking for a member, or of adding or removing one.
func (s *Set) FindWork(member string) int64 {
	switch {
	case s == nil:
		return FindWork
	case s.shape == setSmall:
		return smallWork(len(s.small), s.bytes, member)
	case s.shape == SetInts:
		return TreeWork(len(s.ints))
	}
	return TreeWork(s.large.len()) + HashWork*int64(len(member))
}

// Write writes the members.
func (s *Set) Write(w *Writer) {
	s.Each(func(member string) bool {
		w.Text(member)
		return w.err == nil
	})
}

func readSet(r *Reader, n uint64, form int, generation uint64) Aggregate {
	s := NewSet(generation)
	s.shape = form
	if form == setLarge {
		t := newTree[struct{}]()
		s.large = &t
	}
	for ; n > 0 && r.err == nil; n-- {
		member := r.Text()
		if form == SetInts {
			s.ints.read(r, member)
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

// decimal returns a number as a member.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }
