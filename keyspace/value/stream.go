package value

import (
	"cmp"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/tidwall/btree"
)

// StreamKind is the Kind of streams.
var StreamKind = &Kind{Name: "stream", Encodings: []string{"stream"}, Image: 10, KeepsEmpty: true, read: readStream}

// What a stream counts for besides the bytes of its fields; see Aggregate.Size.
const (
	streamOverheadBytes = 160
	itemOverheadBytes   = 64
	fieldHeaderBytes    = 16
)

// StreamID identifies an entry of a stream: usually the milliseconds since 1970, and a number within them. Ids of a
// stream only rise.
type StreamID struct{ Ms, Seq uint64 }

// The ends of all ids. No entry has the first.
var (
	MinStreamID = StreamID{}
	MaxStreamID = StreamID{math.MaxUint64, math.MaxUint64}
)

// Compare returns -1, 0 or 1, as cmp.Compare does.
func (id StreamID) Compare(other StreamID) int {
	return cmp.Or(cmp.Compare(id.Ms, other.Ms), cmp.Compare(id.Seq, other.Seq))
}

// Next returns the id after this one; false if there is none.
func (id StreamID) Next() (StreamID, bool) {
	if id.Seq++; id.Seq == 0 {
		id.Ms++
	}
	return id, id != MinStreamID
}

// Previous returns the id before this one; false if there is none.
func (id StreamID) Previous() (StreamID, bool) {
	if id.Seq--; id.Seq == math.MaxUint64 {
		id.Ms--
	}
	return id, id != MaxStreamID
}

// String returns the id as Redis writes it: 1-2.
func (id StreamID) String() string {
	return strconv.FormatUint(id.Ms, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// Item is an entry of a stream. It does not change.
type Item struct {
	ID     StreamID
	Fields []string // name, value, name, value ...
}

func itemLess(a, b Item) bool { return a.ID.Compare(b.ID) < 0 }

// NewItem returns an entry with a copy of the fields, at least two.
func NewItem(id StreamID, fields []string) Item { return Item{id, CloneTexts(fields)} }

// CloneTexts copies texts into one string, as they are kept together.
func CloneTexts(texts []string) []string {
	all, own := strings.Join(texts, ""), make([]string, len(texts))
	for i, s := range texts {
		own[i], all = all[:len(s)], all[len(s):]
	}
	return own
}

// Bytes returns the memory that the entry counts for.
func (it Item) Bytes() int64 {
	n := int64(itemOverheadBytes + fieldHeaderBytes*len(it.Fields))
	for _, f := range it.Fields {
		n += int64(len(f))
	}
	return n
}

// Stream is a stream value. It may be empty: it remembers ids of entries that were removed.
type Stream struct {
	owner     uint64 // the generation that may change it in place
	items     *btree.BTreeG[Item]
	LastID    StreamID // the greatest that an entry has had, or that XSETID has set
	DeletedID StreamID // the greatest that XDEL has removed
	Added     uint64   // how many entries it has been given, as far as it knows
	bytes     int64    // of the entries
}

// NewStream makes an empty stream that the generation owner may change.
func NewStream(owner uint64) *Stream {
	return &Stream{owner: owner, items: newItemOrder()}
}

func newItemOrder() *btree.BTreeG[Item] {
	return btree.NewBTreeGOptions(itemLess, btree.Options{NoLocks: true})
}

// Kind returns StreamKind.
func (s *Stream) Kind() *Kind { return StreamKind }

// Form returns 0: there is one.
func (s *Stream) Form() int { return 0 }

// Own implements Aggregate.Own. A copy costs nothing.
func (s *Stream) Own(generation uint64) Aggregate {
	if s.owner == generation {
		return s
	}
	return s.copyFor(generation)
}

// Clone implements Aggregate.Clone.
func (s *Stream) Clone() Aggregate { return s.copyFor(s.owner) }

func (s *Stream) copyFor(owner uint64) *Stream {
	c := *s
	c.owner, c.items = owner, s.items.Copy()
	return &c
}

// Size implements Aggregate.Size, in bytes.
func (s *Stream) Size() int64 { return streamOverheadBytes + s.bytes }

// Len returns the number of entries.
func (s *Stream) Len() int { return s.items.Len() }

// FirstItem returns the first entry, or one with the id 0-0 and without fields if there is none.
func (s *Stream) FirstItem() Item {
	it, _ := s.items.Min()
	return it
}

// LastItem returns the last entry, as FirstItem does the first.
func (s *Stream) LastItem() Item {
	it, _ := s.items.Max()
	return it
}

// Holds reports whether the entry of an id is there.
func (s *Stream) Holds(id StreamID) bool {
	_, had := s.items.Get(Item{ID: id})
	return had
}

// HasAfter reports whether there is an entry beyond an id.
func (s *Stream) HasAfter(after StreamID) bool {
	return s.LastItem().ID.Compare(after) > 0 // no id is less than 0-0
}

// Add adds an entry, whose id is greater than the last. The caller must own it.
func (s *Stream) Add(it Item) {
	s.items.Set(it)
	s.LastID = it.ID
	s.Added++
	s.bytes += it.Bytes()
}

// Delete removes an entry and reports whether it was there. The caller must own it.
func (s *Stream) Delete(id StreamID) bool {
	it, had := s.items.Delete(Item{ID: id})
	if !had {
		return false
	}
	s.bytes -= it.Bytes()
	if id.Compare(s.DeletedID) > 0 {
		s.DeletedID = id
	}
	return true
}

// Trim removes the first n entries. The caller must own it.
func (s *Stream) Trim(n int) {
	if n == s.Len() {
		s.items, s.bytes = newItemOrder(), 0
		return
	}
	for range n {
		it, _ := s.items.PopMin()
		s.bytes -= it.Bytes()
	}
}

// Before counts the entries before an id.
func (s *Stream) Before(id StreamID) int {
	return sort.Search(s.Len(), func(i int) bool {
		it, _ := s.items.GetAt(i)
		return it.ID.Compare(id) >= 0
	})
}

// Visit visits the entries from one id to another, both included, in their order or
// against it, until visit returns false.
func (s *Stream) Visit(from, to StreamID, reverse bool, visit func(it Item) bool) {
	inside := func(it Item) bool {
		return it.ID.Compare(from) >= 0 && it.ID.Compare(to) <= 0 && visit(it)
	}
	if reverse {
		s.items.Descend(Item{ID: to}, inside)
		return
	}
	s.items.Ascend(Item{ID: from}, inside)
}

// Write writes the ids that the stream remembers, then the entries.
func (s *Stream) Write(w *Writer) {
	for _, n := range []uint64{s.LastID.Ms, s.LastID.Seq, s.DeletedID.Ms, s.DeletedID.Seq, s.Added} {
		w.U64(n)
	}
	s.items.Scan(func(it Item) bool {
		w.U64(it.ID.Ms)
		w.U64(it.ID.Seq)
		w.U64(uint64(len(it.Fields)))
		for _, f := range it.Fields {
			w.Text(f)
		}
		return w.err == nil
	})
}

func readStream(r *Reader, n uint64, _ int, generation uint64) Aggregate {
	s := NewStream(generation)
	s.LastID, s.DeletedID, s.Added = r.streamID(), r.streamID(), r.U64()
	if s.DeletedID.Compare(s.LastID) > 0 {
		r.Fail("a stream without its last id")
	}
	last := MinStreamID
	for ; n > 0 && r.err == nil; n-- {
		it := readItem(r)
		if it.ID.Compare(last) <= 0 || it.ID.Compare(s.LastID) > 0 {
			r.Fail("entries of a stream are not in order")
		}
		if r.err == nil {
			s.items.Load(it)
			s.bytes += it.Bytes()
		}
		last = it.ID
	}
	return s
}

func readItem(r *Reader) Item {
	it := Item{ID: r.streamID()}
	n := r.U64()
	if n == 0 || n%2 != 0 {
		r.Fail("a field of a stream without a value")
	}
	for ; n > 0 && r.err == nil; n-- {
		it.Fields = append(it.Fields, r.Text())
	}
	return it
}

func (r *Reader) streamID() StreamID {
	ms := r.U64()
	return StreamID{ms, r.U64()}
}
