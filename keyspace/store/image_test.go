package store

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

// hashLock is the entry of a lock that is a hash, with its holders.
func hashLock(key string, until Deadline, holders ...HashHolder) *Entry {
	h := value.NewHash(1)
	for _, holder := range holders {
		h.Set(holder.Token, "1")
	}
	e := NewEntry(key, nil, value.OfAggregate(h), until, nil, IsLock)
	e.HashLock().Facts, e.HashLock().Holders = lock.Facts{SinceTick: 3, SinceMs: 4, LeaseMs: 5, Renewals: 6, Client: 7}, holders
	return e
}

// manyLock is the entry of a lock that several may hold.
func manyLock(key string, holders ...*lock.Holder) *Entry {
	l := lock.NewMany(lock.Shared, holders...)
	return NewEntry(key, nil, value.OfAggregate((*value.Lock)(l)), EndOf(l), nil, NoLock)
}

func shared(token string, fence uint64, tick int64) *lock.Holder {
	return &lock.Holder{Token: token, Owner: "o" + token, Fence: fence, Version: fence, Tick: tick, WallMs: tick * 10}
}

var until = Deadline{Tick: 500, WallMs: 5000}

// filled is a store with a key of each kind in two databases.
func filled() *Store {
	s := New()
	h := value.NewHash(1)
	h.Set("field", "value")
	for db := range 2 {
		for _, e := range []*Entry{
			NewEntry("string", nil, value.OfString("v"), Never, nil, NoLock),
			NewEntry("leased", nil, value.OfString("v"), Deadline{Tick: 400, WallMs: 4}, nil, NoLock),
			NewEntry("may be", nil, value.OfString("v"), Never, nil, MayBeLock),
			NewEntry("lock", nil, value.OfString("t"), until, nil, IsLock).WithFacts(lock.Facts{SinceTick: 400, SinceMs: 4900, LeaseMs: 60, Client: 9}),
			NewEntry("long lock", nil, value.OfString(strings.Repeat("t", 500)), Never, nil, IsLock).WithFacts(lock.Facts{LeaseMs: -1, SinceMs: 8}),
			NewEntry("tagged", nil, value.OfString("t"), until, &Tag{"owner", "note"}, IsLock).WithFacts(lock.Facts{SinceTick: 1}),
			NewEntry("noted", nil, value.OfString("t"), until, &Tag{"", "note"}, NoLock),
			NewEntry("hash", nil, value.OfAggregate(h), Never, nil, NoLock),
			hashLock("redisson", until, HashHolder{"a", 1, 2, 3, false}, HashHolder{"b", 4, 5, 6, false}),
			hashLock("read lock", until, HashHolder{"a", 1, 2, 3, true}),
			manyLock("many", shared("x", 2, 300), shared("y", 3, 700)),
		} {
			s.Put(7, db, nil, e, false)
		}
	}
	s.Swap(30, 1, 2)
	return s
}

func written(v View) []byte {
	var out bytes.Buffer
	w := value.NewWriter(&out)
	v.Write(w)
	_ = w.Finish()
	return out.Bytes()
}

// read reads an image into a store whose counters bound it.
func read(image []byte, sequence, fence uint64) (*Store, error) {
	s, r := New(), value.NewReader(bytes.NewReader(image))
	s.Sequence, s.LastFence = sequence, fence
	s.Read(r, func(field string) bool { return field != "no holder" })
	r.End()
	return s, r.Err()
}

// An image has all of every key: what is read from it has the same image, and all that is derived is the same.
func TestImage(t *testing.T) {
	s := filled()
	image := written(s.View())
	next, err := read(image, s.Sequence, s.LastFence)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written(next.View()), image) {
		t.Error("what is read has another image")
	}
	if next.Bytes() != s.Bytes() || next.Len() != s.Len() || s.Len() != 22 || s.Bytes() < 22*entryOverheadBytes {
		t.Errorf("%d keys of %d bytes became %d of %d", s.Len(), s.Bytes(), next.Len(), next.Bytes())
	}
	for i, d := range s.DBs {
		is := next.DBs[i]
		if is.Swapped != d.Swapped || is.Floor != d.Floor || is.Locks != d.Locks || is.Leases.Len() != d.Leases.Len() ||
			is.AverageTTL(0) != d.AverageTTL(0) {
			t.Errorf("database %d: %+v became %+v", i, d, is)
		}
		var ends, other []string
		d.Leases.Each(func(l Lease) bool { ends = append(ends, fmt.Sprint(l.Tick, l.Of.Key())); return true })
		is.Leases.Each(func(l Lease) bool { other = append(other, fmt.Sprint(l.Tick, l.Of.Key())); return true })
		if !slices.Equal(ends, other) {
			t.Errorf("database %d: the leases are %v, not %v", i, other, ends)
		}
	}
	if d := s.DBs[0]; d.Locks != 6 || d.Leases.Len() != 7 || s.DBs[2].Floor != 30 || s.DBs[2].Swapped == 0 {
		t.Errorf("%d locks, %d leases, floor %d", d.Locks, d.Leases.Len(), s.DBs[2].Floor)
	}
	for _, key := range []string{"string", "leased", "may be", "lock", "long lock", "tagged", "noted", "hash", "redisson", "read lock", "many"} {
		was, _ := s.DBs[0].Keys.Get(key)
		is, ok := next.DBs[0].Keys.Get(key)
		if !ok || is.Str() != was.Str() || is.Fence != was.Fence || is.Version != was.Version || is.Deadline() != was.Deadline() ||
			is.Mark() != was.Mark() || is.Ends() != was.Ends() || is.Size() != was.Size() || is.IsLocked() != was.IsLocked() ||
			(is.Tag() == nil) != (was.Tag() == nil) || is.Tag() != nil && *is.Tag() != *was.Tag() {
			t.Errorf("%s: %+v became %+v", key, was, is)
			continue
		}
		if is.Mark() == IsLock && is.Facts() != was.Facts() {
			t.Errorf("%s: %+v became %+v", key, was.Facts(), is.Facts())
		}
		if l := was.HashLock(); l != nil && !slices.Equal(is.HashLock().Holders, l.Holders) {
			t.Errorf("%s: %+v became %+v", key, l.Holders, is.HashLock().Holders)
		}
		if l := was.Lock(); l != nil && !reflect.DeepEqual(slices.Collect(is.Lock().Each), slices.Collect(l.Each)) {
			t.Errorf("%s: the holders are others", key)
		}
	}
}

// What is written after a view has been taken is not in it: neither a key nor the inside of an aggregate.
func TestViewStays(t *testing.T) {
	s := filled()
	image := written(s.View())
	again := s.View()
	generation := s.Generation
	was, _ := s.DBs[0].Keys.Get("string")
	s.Put(1, 0, was, NewEntry("string", was, value.OfString("other"), Never, nil, NoLock), false)
	s.Put(1, 0, nil, NewEntry("new", nil, value.OfString("v"), Never, nil, NoLock), false)
	if !bytes.Equal(written(again), image) {
		t.Error("a view has changed")
	}
	if s.View(); s.Generation <= generation {
		t.Error("aggregates of a view may be changed in place")
	}
}

// Two keys of one position.
const (
	twinA = "WoSCQF3Wm"
	twinB = "eqBn82ISl"
)

// raw writes a key as an image has it, with fields of a test.
func raw(w *value.Writer, key string, fence, version uint64, d Deadline, rest func()) {
	w.Text(key)
	for _, n := range []uint64{fence, version, uint64(d.Tick), uint64(d.WallMs)} {
		w.U64(n)
	}
	rest()
}

// An image is refused that no store can have written.
func TestImageRefused(t *testing.T) {
	hash := value.NewHash(1)
	for _, field := range []string{"a", "no holder"} {
		hash.Set(field, "1")
	}
	large := value.NewHash(1)
	for i := range HashHoldersMax + 1 {
		large.Set(fmt.Sprint(i), "1")
	}
	set := value.NewSet(1)
	set.Add("a")
	text := func(w *value.Writer) func() { return func() { value.OfString("v").Write(w) } }
	locked := func(w *value.Writer, v value.Value) func() {
		return func() {
			w.Byte(value.KindLock)
			value.WriteFacts(w, lock.Facts{LeaseMs: 1})
			v.Write(w)
		}
	}
	holder := func(w *value.Writer, token string, client uint64) {
		w.Parts(0)
		w.Text(token)
		w.U64(1)
		w.U64(2)
		w.U64(client)
	}
	keys := []string{"k1", "k2"}
	slices.SortFunc(keys, func(a, b string) int {
		if value.Position(a) < value.Position(b) {
			return -1
		}
		return 1
	})
	for _, c := range []struct {
		wants string // "": it is read
		n     uint64
		write func(w *value.Writer)
	}{
		{"", 1, func(w *value.Writer) { raw(w, "k", 9, 5, Never, text(w)) }},
		{"", 2, func(w *value.Writer) { raw(w, keys[0], 1, 1, Never, text(w)); raw(w, keys[1], 1, 1, Never, text(w)) }},
		{"not in order", 2, func(w *value.Writer) { raw(w, keys[1], 1, 1, Never, text(w)); raw(w, keys[0], 1, 1, Never, text(w)) }},
		{"not in order", 2, func(w *value.Writer) { raw(w, "k", 1, 1, Never, text(w)); raw(w, "k", 1, 1, Never, text(w)) }},
		{"", 2, func(w *value.Writer) { raw(w, twinA, 1, 1, Never, text(w)); raw(w, twinB, 1, 1, Never, text(w)) }},
		{"not in order", 2, func(w *value.Writer) { raw(w, twinB, 1, 1, Never, text(w)); raw(w, twinA, 1, 1, Never, text(w)) }},
		{"newer than the clock", 1, func(w *value.Writer) { raw(w, "k", 10, 5, Never, text(w)) }},
		{"newer than the clock", 1, func(w *value.Writer) { raw(w, "k", 9, 6, Never, text(w)) }},
		{"a deadline that is none", 1, func(w *value.Writer) { raw(w, "k", 1, 1, Deadline{Never.Tick, 3}, text(w)) }},
		{"might become a lock", 1, func(w *value.Writer) {
			raw(w, "k", 1, 1, until, func() { w.Byte(value.KindMaybe); text(w)() })
		}},
		{"", 1, func(w *value.Writer) { raw(w, "k", 1, 1, Never, func() { w.Byte(value.KindMaybe); text(w)() }) }},
		{"an empty tag", 1, func(w *value.Writer) {
			raw(w, "k", 1, 1, until, func() { w.Byte(value.KindTagged); w.Text(""); w.Text(""); text(w)() })
		}},
		{"a tag of what is no string", 1, func(w *value.Writer) {
			raw(w, "k", 1, 1, until, func() { w.Byte(value.KindTagged); w.Text("o"); w.Text(""); value.OfAggregate(hash).Write(w) })
		}},
		{"a lock that is no string", 1, func(w *value.Writer) { raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(set))) }},
		{"", 1, func(w *value.Writer) { raw(w, "k", 1, 1, until, locked(w, value.OfString("t"))) }},
		{"", 1, func(w *value.Writer) { raw(w, "k", 1, 1, until, func() { value.OfAggregate(set).Write(w) }) }},
		{"", 1, func(w *value.Writer) {
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(hash)))
			w.U64(1)
			holder(w, "a", 1<<32-1)
		}},
		{"a holder of a lock that can not be", 1, func(w *value.Writer) { // it is no field
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(hash)))
			w.U64(1)
			holder(w, "b", 1)
		}},
		{"a holder of a lock that can not be", 1, func(w *value.Writer) { // the field names no holder
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(hash)))
			w.U64(1)
			holder(w, "no holder", 1)
		}},
		{"a holder of a lock that can not be", 1, func(w *value.Writer) { // more than a hash of 32 bits
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(hash)))
			w.U64(1)
			holder(w, "a", 1<<32)
		}},
		{"a holder of a lock that can not be", 1, func(w *value.Writer) { // twice
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(hash)))
			w.U64(2)
			holder(w, "a", 1)
			holder(w, "a", 2)
		}},
		{"", 1, func(w *value.Writer) {
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(large)))
			w.U64(HashHoldersMax)
			for i := range HashHoldersMax {
				holder(w, fmt.Sprint(i), 1)
			}
		}},
		{"a holder of a lock that can not be", 1, func(w *value.Writer) { // too many
			raw(w, "k", 1, 1, until, locked(w, value.OfAggregate(large)))
			w.U64(HashHoldersMax + 1)
			for i := range HashHoldersMax + 1 {
				holder(w, fmt.Sprint(i), 1)
			}
		}},
		{"ends before its holders", 1, func(w *value.Writer) {
			l := lock.NewMany(lock.Shared, shared("x", 2, 300))
			raw(w, "k", 1, 1, until, func() { value.OfAggregate((*value.Lock)(l)).Write(w) })
		}},
		{"", 1, func(w *value.Writer) { manyLock("k", shared("x", 2, 300), shared("y", 5, 400)).Write(w) }},
		{"", 1, func(w *value.Writer) {
			x := shared("x", 9, 300)
			x.Version = 5
			manyLock("k", x).Write(w)
		}},
		{"a holder of a lock is newer", 1, func(w *value.Writer) {
			x := shared("x", 10, 300)
			x.Version = 5
			manyLock("k", x).Write(w)
		}},
		{"a holder of a lock is newer", 1, func(w *value.Writer) {
			x := shared("x", 9, 300)
			x.Version = 6
			manyLock("k", x).Write(w)
		}},
	} {
		var out bytes.Buffer
		w := value.NewWriter(&out)
		for db := range Databases {
			w.U64(0)
			w.U64(uint64(9 * (1 - min(db, 1)))) // the floor of the first is the last fence
			if db > 0 {
				w.U64(0)
				continue
			}
			w.U64(c.n)
			c.write(w)
		}
		_ = w.Finish()
		_, err := read(out.Bytes(), 5, 9)
		if c.wants == "" && err != nil || c.wants != "" && (err == nil || !strings.Contains(err.Error(), c.wants)) {
			t.Errorf("%v, not %q", err, c.wants)
		}
		if _, err := read(out.Bytes(), 5, 8); err == nil {
			t.Error("a database has a fence that was not given")
		}
	}
}

// A damaged image is an error, and does not make the reader go on for long.
func TestImageCut(t *testing.T) {
	image := written(filled().View())
	for n := 0; n < len(image); n += 7 {
		if _, err := read(image[:n], 1000, 1000); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(image))
		}
	}
}
