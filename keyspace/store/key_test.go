package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

func aHash() value.Value {
	h := value.NewHash(1)
	h.Set("field", "1")
	return value.OfAggregate(h)
}

// What an entry counts for is the sum of its parts.
func TestSize(t *testing.T) {
	base := int64(entryOverheadBytes + len("k") + len("v"))
	str := value.OfString("v")
	for name, c := range map[string]struct {
		e    *Entry
		want int64
	}{
		"plain":  {NewEntry("k", nil, str, Never, nil, NoLock), base},
		"leased": {NewEntry("k", nil, str, until, nil, NoLock), base + LeaseOverheadBytes},
		"lock":   {NewEntry("k", nil, str, until, nil, IsLock).WithFacts(lock.Facts{}), base + LeaseOverheadBytes + FactsOverheadBytes},
		"tagged": {NewEntry("k", nil, str, Never, &Tag{"owner", "no"}, NoLock), base + tagOverheadBytes + 7},
		"hash lock": {hashLock("k", until, HashHolder{Token: "a"}, HashHolder{Token: "b"}),
			entryOverheadBytes + 1 + hashLock("k", until, HashHolder{Token: "a"}, HashHolder{Token: "b"}).Value().Size() +
				LeaseOverheadBytes + FactsOverheadBytes + 2*HashHolderBytes},
	} {
		if c.e.Size() != c.want {
			t.Errorf("%s: %d, not %d", name, c.e.Size(), c.want)
		}
	}
}

// A key is a lock if it has facts, or several may hold it.
func TestIsLocked(t *testing.T) {
	str, hash := value.OfString("v"), aHash()
	for name, c := range map[string]struct {
		e                       *Entry
		locked, isString, isMap bool
	}{
		"string":       {NewEntry("k", nil, str, until, nil, NoLock), false, false, false},
		"may be":       {NewEntry("k", nil, str, Never, nil, MayBeLock), false, false, false},
		"lock":         {NewEntry("k", nil, str, until, nil, MayBeLock).WithFacts(lock.Facts{}), true, true, false},
		"hash":         {NewEntry("k", nil, hash, until, nil, NoLock), false, false, false},
		"hash, lock":   {NewEntry("k", nil, hash, until, nil, IsLock), true, false, true},
		"lock of many": {manyLock("k", shared("x", 1, 2)), true, false, false},
	} {
		if c.e.IsLocked() != c.locked || c.e.IsLockedString() != c.isString || (c.e.HashLock() != nil) != c.isMap {
			t.Errorf("%s: %v, %v, %v", name, c.e.IsLocked(), c.e.IsLockedString(), c.e.HashLock())
		}
	}
	var none *Entry
	if none.IsLockedString() || none.HashLock() != nil || none.Lock() != nil {
		t.Error("no entry is a lock")
	}
}

func TestHolds(t *testing.T) {
	str, hash, other := value.OfString("v"), aHash(), aHash()
	of := func(v value.Value) *Entry { return NewEntry("k", nil, v, Never, nil, NoLock) }
	for i, c := range []struct {
		e    *Entry
		v    value.Value
		want bool
	}{
		{of(str), str, true}, {of(str), value.OfString("w"), false}, {of(hash), hash, true}, {of(hash), other, false},
		{of(str), hash, false}, {of(hash), value.OfString(""), false},
	} {
		if c.e.Holds(c.v) != c.want {
			t.Errorf("case %d: %v", i, !c.want)
		}
	}
}

// A key is there at the tick at which its lease ends, and over behind it.
func TestDue(t *testing.T) {
	e := NewEntry("k", nil, value.OfString("v"), until, nil, NoLock)
	if e.Due(until.Tick) || !e.Due(until.Tick+1) || !until.IsSet() || Never.IsSet() {
		t.Error("it ends at another tick")
	}
}

// An entry outside keeps the name of the one that it replaces, and a lock that is a hash its facts.
func TestNewEntryKeeps(t *testing.T) {
	key := strings.Repeat("k", 300)
	was := NewEntry(key, nil, value.OfString("v"), Never, nil, NoLock)
	next := NewEntry(strings.Clone(key), was, value.OfString("w"), Never, nil, NoLock)
	new(KeyTree).set(next) // which gives it its position
	if next.Key() != key || next.positionLow() != uint32(value.Position(key)) {
		t.Errorf("%q at %d", next.Key(), next.positionLow())
	}
	if unsafe.StringData(next.Key()) != unsafe.StringData(was.Key()) {
		t.Error("the name of a key is copied for each change of it")
	}
	inline := NewEntry("k", nil, value.OfString("v"), Never, nil, NoLock)
	if e := NewEntry("k", inline, aHash(), Never, nil, NoLock); unsafe.StringData(e.Key()) == unsafe.StringData(inline.Key()) {
		t.Error("the name keeps the entry before in memory")
	}
	hl := hashLock("k", until, HashHolder{Token: "a"})
	again := NewEntry("k", hl, hl.Value(), Deadline{Tick: 900}, nil, IsLock)
	if again.Facts() != hl.Facts() || hl.Facts() == (lock.Facts{}) {
		t.Errorf("%+v became %+v", hl.Facts(), again.Facts())
	}
	first := NewEntry("k", nil, hl.Value(), until, nil, IsLock)
	plain := NewEntry("k", NewEntry("k", nil, aHash(), until, nil, NoLock), aHash(), until, nil, IsLock)
	if first.Facts() != (lock.Facts{}) || plain.Facts() != (lock.Facts{}) {
		t.Errorf("facts of nothing: %+v, %+v", first.Facts(), plain.Facts())
	}
}

// The fence of a lock that is a hash is that of its newest holder, and of all who share it.
func TestHashHolders(t *testing.T) {
	a, b := HashHolder{"a", 1, 2, 3, false}, HashHolder{"b", 4, 5, 6, false}
	l := hashLock("k", until, a, b).HashLock()
	l.Fence = 9
	h := l.Holder(&l.Holders[0])
	if h.Fence != 0 || h.Token != "a" || h.SinceTick != 1 || h.SinceMs != 2 || h.Client != 3 || h.LeaseMs != 5 || h.Tick != until.Tick || h.WallMs != until.WallMs {
		t.Errorf("%+v", h)
	}
	if h := l.Holder(&l.Holders[1]); h.Fence != 9 || l.Shared() {
		t.Errorf("%+v", h)
	}
	a.Shared, b.Shared = true, true
	l = hashLock("k", until, a, b).HashLock()
	l.Fence = 9
	if h := l.Holder(&l.Holders[0]); h.Fence != 9 || !l.Shared() {
		t.Errorf("%+v", h)
	}
	if l.Holders = l.Holders[:1]; !l.Shared() {
		t.Error("one who shares it")
	}
	if l.Holders = nil; l.Shared() {
		t.Error("shared by nobody")
	}
}

// Put charges for looking a key up, for copying a string, and for the lease that it had or has.
func TestPutWork(t *testing.T) {
	s := New()
	d := s.DBs[0]
	put := func(was, next *Entry) int64 { return s.Put(1, 0, was, next, false).Work }
	plain := func(v string) *Entry { return NewEntry("key", nil, value.OfString(v), Never, nil, NoLock) }
	leased := NewEntry("key", nil, value.OfString("v"), until, nil, NoLock)
	find := func() int64 { return value.TreeWork(d.Keys.Len()) + 3*value.HashWork }
	lease := func() int64 { return value.TreeWork(d.Leases.Len()) }
	for i := range 40 { // so that trees cost something
		e := NewEntry(fmt.Sprint(i), nil, value.OfString("v"), until, nil, NoLock)
		s.Put(1, 0, nil, e, false)
	}
	first := plain("1234")
	for i, c := range []struct {
		was, next *Entry
		want      int64
	}{
		{nil, first, find() + 4*value.CopyWork},
		{first, leased, 0}, {leased, first, 0}, {first, nil, 0}, {nil, leased, 0}, {leased, nil, 0},
	} {
		if i > 0 {
			c.want = find()
			if c.next != nil {
				c.want += value.CopyWork * int64(len(c.next.Str()))
			}
			if c.was == leased || c.next == leased {
				c.want += lease()
			}
		}
		if work := put(c.was, c.next); work != c.want {
			t.Errorf("step %d: %d, not %d", i, work, c.want)
		}
	}
	if want := find(); d.FindWork("key") != want {
		t.Errorf("%d to find a key, not %d", d.FindWork("key"), want)
	}
	each, names := value.TreeWork(d.Keys.Len()+10), []string{"other", "value"}
	want := 2 * (each + 5*value.HashWork)
	for range 9 {
		names, want = append(names, "key", "value"), want+2*(each+3*value.HashWork)
	}
	if work := d.EditWork(names, 2); work != want {
		t.Errorf("%d to edit ten keys, not %d", work, want)
	}
}

// What is derived from the keys of a database goes with them.
func TestReplace(t *testing.T) {
	s := filled()
	for db := range s.DBs {
		var all []*Entry
		s.DBs[db].Keys.Each(func(e *Entry) bool { all = append(all, e); return true })
		for _, e := range all {
			s.Put(1, db, e, nil, false)
		}
		if d := s.DBs[db]; d.Bytes != 0 || d.Locks != 0 || d.Leases.Len() != 0 || d.Keys.Len() != 0 || d.AverageTTL(3) != 0 {
			t.Errorf("database %d keeps %d bytes, %d locks, %d leases", db, d.Bytes, d.Locks, d.Leases.Len())
		}
	}
	if s.Bytes() != 0 {
		t.Errorf("%d bytes", s.Bytes())
	}
}

func TestAverageTTL(t *testing.T) {
	s := New()
	for i, tick := range []int64{100, 200} {
		s.Put(1, 0, nil, NewEntry(fmt.Sprint(i), nil, value.OfString("v"), Deadline{Tick: tick}, nil, NoLock), false)
		if ttl := s.DBs[0].AverageTTL(40); ttl != 60+int64(50*i) {
			t.Errorf("%d leases: %d", i+1, ttl)
		}
	}
	if ttl := s.DBs[0].AverageTTL(160); ttl != 0 {
		t.Errorf("leases that are over on an average: %d", ttl)
	}
}

// WATCH sees that a key was changed, deleted, made and deleted again, or that its database was exchanged.
func TestVersion(t *testing.T) {
	s := New()
	seen := map[uint64]bool{}
	version := func(tick int64, fresh bool) uint64 {
		t.Helper()
		v := s.Version(tick, 0, "k")
		if seen[v] == fresh {
			t.Errorf("version %d, new %v", v, !seen[v])
		}
		seen[v] = true
		return v
	}
	put := func(was, next *Entry) *Entry { return s.Put(1, 0, was, next, false).Next }
	entry := func() *Entry { return NewEntry("k", nil, value.OfString("v"), until, nil, NoLock) }
	version(0, true)
	version(0, false)
	e := put(nil, entry())
	version(until.Tick, true)
	version(until.Tick, false)
	if v := version(until.Tick+1, true); v != s.CreatedAt[bucket(0, "k")] {
		t.Errorf("a key whose lease is over has version %d", v)
	}
	e = put(e, entry())
	version(0, true)
	put(e, nil)
	version(0, false) // as absent as when its lease was over
	put(put(nil, entry()), nil)
	version(0, true)
	s.Swap(1, 0, 1)
	if v := version(0, true); v != AbsentSwapped|s.Sequence {
		t.Errorf("absent after an exchange: %d", v)
	}
	e = put(nil, entry())
	version(0, true)
	s.Swap(1, 0, 1)
	s.Swap(1, 0, 1)
	if v := version(0, true); v <= e.Version || v != s.Sequence {
		t.Errorf("after two exchanges: %d", v)
	}
}

// An exchange gives both databases a new version and a fence that no key had.
func TestSwap(t *testing.T) {
	s := New()
	s.Put(7, 0, nil, NewEntry("k", nil, value.OfString("v"), Never, nil, NoLock), false)
	a, b, sequence := s.DBs[0], s.DBs[3], s.Sequence
	s.Swap(1, 0, 3)
	if s.DBs[3] != a || s.DBs[0] != b || s.Sequence != sequence+1 || s.LastFence != 8 {
		t.Errorf("sequence %d, fence %d", s.Sequence, s.LastFence)
	}
	for _, d := range []*Database{a, b} {
		if d.Swapped != s.Sequence || d.Floor != 8 {
			t.Errorf("%+v", d)
		}
	}
	if s.Swap(20, 1, 2); s.LastFence != 20 || s.DBs[1].Floor != 20 {
		t.Errorf("fence %d", s.LastFence)
	}
}

// The lease that ends first is found in all databases: of those that end at once, in the first of them.
func TestNextLease(t *testing.T) {
	s := New()
	if _, _, ok := s.NextLease(); ok {
		t.Error("there is none")
	}
	for _, c := range []struct {
		db   int
		tick int64
		want int
	}{{5, 100, 5}, {7, 100, 5}, {9, 99, 9}, {2, 99, 2}} {
		s.Put(1, c.db, nil, NewEntry("k", nil, value.OfString("v"), Deadline{Tick: c.tick}, nil, NoLock), false)
		if db, l, ok := s.NextLease(); !ok || db != c.want || l.Tick != min(c.tick, 100) {
			t.Errorf("%d in database %d", l.Tick, db)
		}
	}
}

// A running attempt keeps what it replaces, once, and the databases as they were. When it has ended it keeps nothing.
func TestKept(t *testing.T) {
	s := New()
	put := func(db int, key string, v string) *Entry {
		was, _ := s.DBs[db].Keys.Get(key)
		return s.Put(1, db, was, NewEntry(key, was, value.OfString(v), Never, nil, NoLock), false).Next
	}
	before := put(0, "k", "1")
	if s.Keeps(before) {
		t.Error("without an attempt")
	}
	generation := s.Generation
	s.Begin()
	if s.Generation <= generation {
		t.Error("aggregates of before may be changed in place")
	}
	if !s.Keeps(before) || s.Keeps(put(0, "k", "2")) {
		t.Error("the wrong entries are kept")
	}
	put(0, "k", "3")
	put(0, "new", "1")
	replaced, found := s.Kept()
	if !slices.Equal(replaced, []*Entry{before, nil}) || found != nil {
		t.Errorf("%v, %v", replaced, found)
	}
	dbs := s.DBs
	s.KeepDatabases()
	s.Clear(0)
	s.KeepDatabases()
	if replaced, found := s.Kept(); len(replaced) != 2 || replaced[0] != nil || !slices.Equal(found, dbs[:]) {
		t.Errorf("%v, %v", replaced, found)
	}
	if e, ok := dbs[0].Keys.Get("k"); !ok || e != before || dbs[0].Keys.Len() != 1 || s.DBs[0] == dbs[0] || s.DBs[0].Keys.Len() != 0 {
		t.Error("an emptied database is not the one of before")
	}
	put(0, "later", "1") // in a database that the attempt has made: it goes with that
	if replaced, _ := s.Kept(); len(replaced) != 3 || replaced[2] != nil {
		t.Errorf("%v", replaced)
	}
	s.Clear(0)
	s.Commit()
	if s.journal != nil || s.Keeps(before) || len(s.attempt.undo) != 0 || s.attempt.places != nil {
		t.Error("an attempt that has ended keeps something")
	}
	for _, u := range s.attempt.undo[:cap(s.attempt.undo)] {
		if u != (undo{}) {
			t.Error("an attempt that has ended holds on to what it replaced")
		}
	}
	if s.KeepDatabases(); s.attempt.places != nil {
		t.Error("databases are kept without an attempt")
	}
}

// The room of a small attempt is used again, that of a large one is let go.
func TestRoomOfAttempts(t *testing.T) {
	s := New()
	for _, n := range []int{1, undoneReused, undoneReused + 1} {
		created := s.CreatedAt
		s.attempt.undo = make([]undo, 0, n)
		s.Begin()
		for i := range n {
			s.Put(1, 0, nil, NewEntry(fmt.Sprint(n, i), nil, value.OfString("v"), Never, nil, NoLock), false)
		}
		s.Rollback()
		if kept := cap(s.attempt.undo); kept != n && n <= undoneReused || kept != 0 && n > undoneReused {
			t.Errorf("of room for %d is kept %d", n, kept)
		}
		if s.journal != nil || s.Len() != 0 || s.CreatedAt != created {
			t.Errorf("an attempt that is taken back goes on, or leaves %d keys", s.Len())
		}
	}
	s.Begin()
	if len(s.attempt.undo) != 0 {
		t.Error("an attempt begins with the changes of another")
	}
}

// A scan of few keys visits each once, in steps, and ends with 0. A cursor beyond all positions ends it.
func TestScan(t *testing.T) {
	var tree KeyTree
	for i := range 10 {
		tree.set(NewEntry(fmt.Sprint("key", i), nil, value.OfString("v"), Never, nil, NoLock))
	}
	seen, steps, cursor := map[string]int{}, 0, uint64(0)
	for {
		n := 0
		cursor = tree.Scan(cursor, 3, func(e *Entry) { seen[e.Key()]++; n++ })
		if steps++; n != 3 && cursor != 0 {
			t.Errorf("a step of %d", n)
		}
		if cursor == 0 {
			break
		}
	}
	if len(seen) != 10 || steps != 4 {
		t.Errorf("%v in %d steps", seen, steps)
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s is visited %d times", key, n)
		}
	}
	if next := tree.Scan(1<<value.PositionBits, 3, func(*Entry) { t.Error("visited") }); next != 0 {
		t.Error(next)
	}
	if next := tree.Scan(1<<value.PositionBits-1, 3, func(*Entry) { t.Error("visited") }); next != 0 {
		t.Error(next)
	}
}

// Keys that share a position are visited in one step.
func TestScanOfOnePosition(t *testing.T) {
	var tree KeyTree
	for i := range 100 {
		tree.put(uint64(min(i, 90)), outsideEntryOf(fmt.Sprint("k", i+100)), leafMax/2, innerMax/2)
	}
	n := 0
	next := tree.Scan(85, 3, func(*Entry) { n++ })
	if n != 3 || next != 88 {
		t.Errorf("%d visited, next %d", n, next)
	}
	n = 0
	if next := tree.Scan(next, 3, func(*Entry) { n++ }); n != 12 || next != 0 {
		t.Errorf("%d visited, next %d", n, next)
	}
	n = 0
	tree.put(95, outsideEntryOf("last"), leafMax/2, innerMax/2)
	if next := tree.Scan(90, 1, func(*Entry) { n++ }); n != 10 || next != 95 {
		t.Errorf("%d visited, next %d", n, next)
	}
}

// A visit goes from a key on, that key too, and ends when it is told to.
func TestFrom(t *testing.T) {
	var tree KeyTree
	for i := range 200 {
		tree.set(NewEntry(fmt.Sprint("key", i), nil, value.OfString("v"), Never, nil, NoLock))
	}
	tree.put(0, outsideEntryOf("zero"), leafMax/2, innerMax/2)
	var all []*Entry
	tree.Each(func(e *Entry) bool { all = append(all, e); return true })
	if len(all) != 201 || all[0].Key() != "zero" {
		t.Fatalf("%d visited", len(all))
	}
	for _, i := range []int{1, 100, 199} {
		var rest []*Entry
		tree.From(all[i], func(e *Entry) bool { rest = append(rest, e); return true })
		if !slices.Equal(rest, all[i:]) {
			t.Errorf("from the %d-th: %d visited", i, len(rest))
		}
	}
	for i := range uint64(10_000) { // three nodes high
		tree.put(i<<30, outsideEntryOf("key"), leafMax/2, innerMax/2)
	}
	for _, stop := range []int{1, 50, 150, 3000} {
		n := 0
		if tree.Each(func(*Entry) bool { n++; return n < stop }); n != stop {
			t.Errorf("%d visited, not %d", n, stop)
		}
	}
}

// A visit of leases ends when it is told to.
func TestEachLease(t *testing.T) {
	o := newLeaseOrder()
	for i := range 3 * runMax {
		o.add(leaseAt(int64(i), "k"))
	}
	for _, stop := range []int{1, 2, runMax, 2*runMax + 1} {
		n := 0
		if o.Each(func(Lease) bool { n++; return n < stop }); n != stop {
			t.Errorf("%d visited, not %d", n, stop)
		}
	}
}

// No generation comes again, so what a view or an attempt has is never changed in place.
func TestGenerations(t *testing.T) {
	s, seen := New(), map[uint64]bool{0: true}
	for range 3 {
		for _, next := range []func(){func() { s.View() }, s.Begin, s.Commit, s.Begin, s.Rollback, func() { s.View() }} {
			was := s.Generation
			if next(); s.Generation != was && seen[s.Generation] {
				t.Errorf("generation %d comes again", s.Generation)
			}
			seen[s.Generation] = true
		}
	}
	if len(seen) != 13 {
		t.Errorf("%d generations", len(seen))
	}
}

// Keys of one position may fill many nodes: each is found, none that is not there, and they go one by one.
func TestKeyTreeOfTwoPositions(t *testing.T) {
	for _, first := range []uint64{7, 0} {
		var tree KeyTree
		var model keyModel
		for i := range 3000 {
			key := fmt.Sprint((i*7919)%3000 + 10_000)
			pos := first + uint64(i%2)
			e := outsideEntryOf(key)
			tree.put(pos, e, leafMax/2, innerMax/2)
			model = model.put(pos, e)
		}
		compareKeys(t, tree.KeyView, model)
		for _, k := range model {
			if e, ok := tree.find(k.pos, k.e.Key()); !ok || e != k.e {
				t.Fatalf("%s is not found", k.e.Key())
			}
			if _, ok := tree.find(k.pos, k.e.Key()+"x"); ok {
				t.Fatalf("%sx is found", k.e.Key())
			}
		}
		for n := 0; len(model) > 0; n++ {
			i := (n * 31) % len(model)
			tree.cut(model[i].pos, model[i].e.Key())
			if model = slices.Delete(model, i, i+1); n%100 == 0 {
				compareKeys(t, tree.KeyView, model)
			}
			if len(model) > 0 {
				if e, ok := tree.find(model[0].pos, model[0].e.Key()); !ok || e != model[0].e {
					t.Fatalf("%s is not found", model[0].e.Key())
				}
			}
		}
	}
}

// A tree of one leaf at position 0 has no inner node to look into.
func TestKeyTreeOfOneLeaf(t *testing.T) {
	var tree KeyTree
	a, b := outsideEntryOf("a"), outsideEntryOf("b")
	for _, e := range []*Entry{a, b} {
		tree.put(0, e, leafMax/2, innerMax/2)
	}
	tree.cut(0, "a")
	if e, ok := tree.find(0, "b"); !ok || e != b || tree.Len() != 1 {
		t.Error("b is gone")
	}
	tree.cut(0, "none")
	if tree.cut(0, "b"); tree.root != nil || tree.Len() != 0 {
		t.Error("something is left")
	}
}

// The place of a tag in a leaf is the first that is not less, however tags are spread, and however many are alike.
func TestSeek(t *testing.T) {
	for _, tags := range [][]uint32{
		{5}, {1, 5, 5, 5, 9}, {1, 1, 1, 9}, {1, 9, 9, 9}, {0, 0, 1 << 31, 1<<32 - 1, 1<<32 - 1}, {3, 4, 1 << 30}, {3, 1 << 30, 1<<30 + 1},
	} {
		var l keyLeaf
		l.n = int32(copy(l.tags[:], tags))
		for _, tag := range tags {
			for _, tag := range []uint32{tag - 1, tag, tag + 1} {
				want, _ := slices.BinarySearch(tags, tag)
				if at := l.seek(tag); at != want {
					t.Errorf("%d of %v is at %d, not %d", tag, tags, at, want)
				}
			}
		}
	}
}

// leaves returns how many entries the leaves of a tree have.
func leaves(v KeyView) (sizes []int) {
	v.ascend(0, "", func(l *keyLeaf, at int) bool {
		if at == 0 {
			sizes = append(sizes, int(l.n))
		}
		return true
	})
	return sizes
}

// A key that comes into a full leaf has it share its entries with the neighbour that has more room, if that has a sixth of
// a leaf, and divides it otherwise.
func TestLeavesShareRoom(t *testing.T) {
	for _, c := range []struct {
		keep [3]int // entries of three leaves
		into int
		want string
	}{
		{[3]int{leafMax - leafRoom, leafMax, leafMax}, 1, "[36 37 39]"},
		{[3]int{leafMax - leafRoom + 1, leafMax, leafMax}, 1, "[34 20 20 39]"},
		{[3]int{leafMax, leafMax, leafMax - leafRoom}, 1, "[39 37 36]"},
		{[3]int{leafMax, leafMax, leafMax - leafRoom + 1}, 1, "[39 20 20 34]"},
		{[3]int{leafMax - leafRoom, leafMax, leafMax - leafRoom - 1}, 1, "[33 36 36]"},
		{[3]int{leafMax - leafRoom - 1, leafMax, leafMax - leafRoom}, 1, "[35 37 33]"},
		{[3]int{leafMax - leafRoom, leafMax, leafMax - leafRoom}, 1, "[33 37 36]"},
		{[3]int{leafMax, leafMax - leafRoom, leafMax}, 0, "[37 36 39]"},
		{[3]int{leafMax, leafMax - leafRoom, leafMax}, 2, "[39 36 37]"},
		{[3]int{leafMax, leafMax, leafMax}, 0, "[20 20 39 39]"},
		{[3]int{leafMax, leafMax, leafMax}, 2, "[39 39 20 20]"},
	} {
		var tree KeyTree
		var model, all keyModel
		for i := range 3 * leafMax {
			all = append(all, keyAt{uint64(i) << 40, outsideEntryOf("key")})
			tree.load(all[i].pos, all[i].e)
		}
		for i, k := range all {
			if i%leafMax < c.keep[i/leafMax] {
				model = append(model, k)
			} else {
				tree.cut(k.pos, "key")
			}
		}
		pos, e := all[c.into*leafMax+10].pos+1, outsideEntryOf("another")
		tree.put(pos, e, leafMax/2, innerMax/2)
		compareKeys(t, tree.KeyView, model.put(pos, e))
		if have := fmt.Sprint(leaves(tree.KeyView)); have != c.want {
			t.Errorf("%v, and one into %d: %s, not %s", c.keep, c.into, have, c.want)
		}
	}
}

// A leaf that is a third full is joined with a neighbour if both together are three quarters full, and not before.
func TestLeavesJoin(t *testing.T) {
	for _, c := range []struct {
		keep [3]int // of three full leaves, cut in the order of others, then own
		own  int
		want string
	}{
		{[3]int{leafSmall, leafJoined - leafSmall, leafMax}, 0, "[29 39]"},
		{[3]int{leafSmall + 1, leafJoined - leafSmall - 1, leafMax}, 0, "[14 15 39]"},
		{[3]int{leafSmall, leafJoined - leafSmall + 1, leafMax}, 0, "[13 17 39]"},
		{[3]int{leafMax, leafJoined - leafSmall, leafSmall}, 2, "[39 29]"},
		{[3]int{leafMax, leafJoined - leafSmall + 1, leafSmall}, 2, "[39 17 13]"},
		{[3]int{leafJoined - leafSmall, leafSmall, leafMax}, 1, "[29 39]"},
		{[3]int{leafMax, leafSmall, leafJoined - leafSmall}, 1, "[39 29]"},
		{[3]int{leafMax, 0, leafMax}, 1, "[39 39]"},
	} {
		var tree KeyTree
		var model keyModel
		for i := range 3 * leafMax {
			model = append(model, keyAt{uint64(i) << 40, outsideEntryOf("key")})
			tree.load(model[i].pos, model[i].e)
		}
		gone := map[uint64]bool{}
		for _, leaf := range []int{(c.own + 1) % 3, (c.own + 2) % 3, c.own} {
			for i := c.keep[leaf]; i < leafMax; i++ {
				pos := model[leaf*leafMax+i].pos
				tree.cut(pos, "key")
				gone[pos] = true
			}
		}
		model = slices.DeleteFunc(model, func(k keyAt) bool { return gone[k.pos] })
		compareKeys(t, tree.KeyView, model)
		if have := fmt.Sprint(leaves(tree.KeyView)); have != c.want {
			t.Errorf("%v: %s, not %s", c.keep, have, c.want)
		}
	}
}

// Inner nodes are joined as leaves are.
func TestInnersJoin(t *testing.T) {
	for _, c := range []struct {
		keep [3]int // leaves of three full inner nodes
		own  int
		want string
	}{
		{[3]int{innerSmall, innerJoined - innerSmall, innerMax}, 0, "[95 127]"},
		{[3]int{innerSmall + 1, innerJoined - innerSmall - 1, innerMax}, 0, "[43 52 127]"},
		{[3]int{innerSmall, innerJoined - innerSmall + 1, innerMax}, 0, "[42 54 127]"},
		{[3]int{innerMax, innerJoined - innerSmall, innerSmall}, 2, "[127 95]"},
		{[3]int{innerMax, innerJoined - innerSmall + 1, innerSmall}, 2, "[127 54 42]"},
		{[3]int{innerJoined - innerSmall, innerSmall, innerMax}, 1, "[95 127]"},
		{[3]int{innerMax, innerSmall, innerJoined - innerSmall}, 1, "[127 95]"},
		{[3]int{innerMax, 0, innerMax}, 1, "[127 127]"},
	} {
		const each = innerMax * leafMax
		var tree KeyTree
		var model keyModel
		for i := range 3 * each {
			model = append(model, keyAt{uint64(i) << 30, outsideEntryOf("key")})
			tree.load(model[i].pos, model[i].e)
		}
		gone := map[uint64]bool{}
		for _, inner := range []int{(c.own + 1) % 3, (c.own + 2) % 3, c.own} {
			for i := c.keep[inner] * leafMax; i < each; i++ { // whole leaves, from the last entry of each
				pos := model[inner*each+i].pos
				tree.cut(pos, "key")
				gone[pos] = true
			}
		}
		model = slices.DeleteFunc(model, func(k keyAt) bool { return gone[k.pos] })
		compareKeys(t, tree.KeyView, model)
		var sizes []int
		root := (*keyInner)(tree.root)
		for _, below := range root.nodes[:root.n] {
			sizes = append(sizes, (*keyInner)(below).n)
		}
		if have := fmt.Sprint(sizes); have != c.want {
			t.Errorf("%v: %s, not %s", c.keep, have, c.want)
		}
	}
}
