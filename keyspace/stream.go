package keyspace

import (
	"cmp"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/tidwall/btree"
)

var streamKind = &kind{name: "stream", encodings: []string{"stream"}, image: 10, keepsEmpty: true, read: readStream}

// What a stream costs beside the bytes of its fields: see entry.size.
const (
	streamOverheadBytes = 160
	itemOverheadBytes   = 64
	fieldHeaderBytes    = 16
)

// streamID names an entry of a stream. Ids only rise.
type streamID struct{ ms, seq uint64 }

// The ends of all ids. No entry has the first.
var (
	streamIDFirst = streamID{}
	streamIDLast  = streamID{math.MaxUint64, math.MaxUint64}
)

func (id streamID) compare(other streamID) int {
	return cmp.Or(cmp.Compare(id.ms, other.ms), cmp.Compare(id.seq, other.seq))
}

// next is the id that follows; false where there is none.
func (id streamID) next() (streamID, bool) {
	if id.seq++; id.seq == 0 {
		id.ms++
	}
	return id, id != streamIDFirst
}

// previous is the id before; false where there is none.
func (id streamID) previous() (streamID, bool) {
	if id.seq--; id.seq == math.MaxUint64 {
		id.ms--
	}
	return id, id != streamIDLast
}

func (id streamID) String() string {
	return strconv.FormatUint(id.ms, 10) + "-" + strconv.FormatUint(id.seq, 10)
}

// item is an entry of a stream. It does not change.
type item struct {
	id     streamID
	fields []string // name, value, name, value ...
}

func itemLess(a, b item) bool { return a.id.compare(b.id) < 0 }

// newItem takes a copy of the fields, which are two at least: all of them lie in one
// string.
func newItem(id streamID, fields []string) item {
	all := strings.Join(fields, "")
	own := make([]string, len(fields))
	for i, f := range fields {
		own[i], all = all[:len(f)], all[len(f):]
	}
	return item{id, own}
}

func (it item) bytes() int64 {
	n := int64(itemOverheadBytes + fieldHeaderBytes*len(it.fields))
	for _, f := range it.fields {
		n += int64(len(f))
	}
	return n
}

// stream is a stream value. It may be empty: what it knows of the ids it has had
// outlives its entries.
type stream struct {
	owner   uint64 // the generation that may change it in place
	items   *btree.BTreeG[item]
	last    streamID // the greatest that an entry has had, or that XSETID has set
	deleted streamID // the greatest that XDEL has removed
	added   uint64   // how many entries it has been given, as far as it knows
	bytes   int64    // of the entries
}

func newStream(owner uint64) *stream {
	return &stream{owner: owner, items: newItemOrder()}
}

func newItemOrder() *btree.BTreeG[item] {
	return btree.NewBTreeGOptions(itemLess, btree.Options{NoLocks: true})
}

func (s *stream) kind() *kind { return streamKind }

func (s *stream) form() int { return 0 }

func (s *stream) own(generation uint64) aggregate {
	if s.owner == generation {
		return s
	}
	return s.copyFor(generation)
}

func (s *stream) clone() aggregate { return s.copyFor(s.owner) }

func (s *stream) copyFor(owner uint64) *stream {
	c := *s
	c.owner, c.items = owner, s.items.Copy()
	return &c
}

func (s *stream) size() int64 { return streamOverheadBytes + s.bytes }

func (s *stream) len() int { return s.items.Len() }

// first is the id of the first entry; 0-0 where there is none.
func (s *stream) first() streamID {
	it, _ := s.items.Min()
	return it.id
}

// firstItem is the first entry; without an id and fields where there is none.
func (s *stream) firstItem() item {
	it, _ := s.items.Min()
	return it
}

// lastItem is firstItem for the last one.
func (s *stream) lastItem() item {
	it, _ := s.items.Max()
	return it
}

// holds reports whether the entry of an id is there.
func (s *stream) holds(id streamID) bool {
	_, had := s.items.Get(item{id: id})
	return had
}

// has reports whether there is an entry beyond an id.
func (s *stream) has(after streamID) bool {
	it, ok := s.items.Max()
	return ok && it.id.compare(after) > 0
}

// add adds an entry, whose id is greater than the last. Only inside ctx.editStream.
func (s *stream) add(it item) {
	s.items.Set(it)
	s.last = it.id
	s.added++
	s.bytes += it.bytes()
}

// del removes an entry and reports whether it was there. Only inside ctx.editStream.
func (s *stream) del(id streamID) bool {
	it, had := s.items.Delete(item{id: id})
	if !had {
		return false
	}
	s.bytes -= it.bytes()
	if id.compare(s.deleted) > 0 {
		s.deleted = id
	}
	return true
}

// trim removes the first n entries. Only inside ctx.editStream.
func (s *stream) trim(n int) {
	if n == s.len() {
		s.items, s.bytes = newItemOrder(), 0
		return
	}
	for range n {
		it, _ := s.items.PopMin()
		s.bytes -= it.bytes()
	}
}

// before counts the entries before an id.
func (s *stream) before(id streamID) int {
	return sort.Search(s.len(), func(i int) bool {
		it, _ := s.items.GetAt(i)
		return it.id.compare(id) >= 0
	})
}

// visit visits the entries from one id to another, both included, in their order or
// against it, until visit returns false.
func (s *stream) visit(from, to streamID, reverse bool, visit func(it item) bool) {
	inside := func(it item) bool {
		return it.id.compare(from) >= 0 && it.id.compare(to) <= 0 && visit(it)
	}
	if reverse {
		s.items.Descend(item{id: to}, inside)
		return
	}
	s.items.Ascend(item{id: from}, inside)
}

// write writes what the stream knows of its ids, then the entries.
func (s *stream) write(w *imageWriter) {
	for _, n := range []uint64{s.last.ms, s.last.seq, s.deleted.ms, s.deleted.seq, s.added} {
		w.u64(n)
	}
	s.items.Scan(func(it item) bool {
		w.u64(it.id.ms)
		w.u64(it.id.seq)
		w.u64(uint64(len(it.fields)))
		for _, f := range it.fields {
			w.text(f)
		}
		return w.err == nil
	})
}

func readStream(r *imageReader, n uint64, _ int, generation uint64) aggregate {
	s := newStream(generation)
	s.last, s.deleted, s.added = r.streamID(), r.streamID(), r.u64()
	if s.deleted.compare(s.last) > 0 {
		r.fail("a stream without its last id")
	}
	last := streamIDFirst
	for ; n > 0 && r.err == nil; n-- {
		it := readItem(r)
		if it.id.compare(last) <= 0 || it.id.compare(s.last) > 0 {
			r.fail("entries of a stream are not in order")
		}
		if r.err == nil {
			s.items.Load(it)
			s.bytes += it.bytes()
		}
		last = it.id
	}
	return s
}

func readItem(r *imageReader) item {
	it := item{id: r.streamID()}
	n := r.u64()
	if n == 0 || n%2 != 0 {
		r.fail("a field of a stream without a value")
	}
	for ; n > 0 && r.err == nil; n-- {
		it.fields = append(it.fields, r.text())
	}
	return it
}

func (r *imageReader) streamID() streamID {
	ms := r.u64()
	return streamID{ms, r.u64()}
}
