package store

import (
	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

// View holds the databases at one moment: an image is written from it while the store changes.
type View struct {
	dbs [Databases]struct {
		swapped, floor uint64
		keys           KeyView
	}
}

// View returns the databases as they are now. It costs the same for any number of keys: trees are copied on write from
// here on, and the new generation has aggregates copied as well.
func (s *Store) View() (v View) {
	s.Generation++
	for i, d := range s.DBs {
		v.dbs[i].swapped, v.dbs[i].floor, v.dbs[i].keys = d.Swapped, d.Floor, d.Keys.Copy()
	}
	return v
}

// Write writes the databases as an image has them.
func (v *View) Write(w *value.Writer) {
	for i := range v.dbs {
		d := &v.dbs[i]
		w.U64(d.swapped)
		w.U64(d.floor)
		w.U64(uint64(d.keys.Len()))
		d.keys.Each(func(e *Entry) bool {
			e.Write(w)
			return w.OK() // a full disk ends it early
		})
	}
}

// Read reads the databases of an image into an empty store, whose Sequence and LastFence bound what is read;
// namesHolder reports whether a field of a hash stands for a holder of a lock.
func (s *Store) Read(r *value.Reader, namesHolder func(field string) bool) {
	buf := new(entryBuffer)
	for db := range s.DBs {
		s.readDatabase(r, buf, db, namesHolder)
	}
}

// readDatabase reads a database; namesHolder reports whether a field of a hash stands for a holder of a lock.
func (s *Store) readDatabase(r *value.Reader, buf *entryBuffer, db int, namesHolder func(field string) bool) {
	d := s.DBs[db]
	d.Swapped = r.U64()
	if d.Floor = r.U64(); d.Floor > s.LastFence {
		r.Fail("a database has a fence that was not given")
	}
	var last *Entry
	var lastPos uint64
	var leases []Lease
	for n := r.U64(); n > 0 && r.OK(); n-- {
		e := s.readEntry(r, buf, namesHolder)
		pos := value.Position(e.Key())
		if last != nil && (pos < lastPos || pos == lastPos && e.Key() <= last.Key()) {
			r.Fail("keys are not in order")
		}
		if e.Fence > s.LastFence || e.Version > s.Sequence {
			r.Fail("a key is newer than the clock")
		}
		s.checkHolders(r, e)
		if r.OK() {
			d.Load(pos, e)
			if e.Leased() {
				leases = append(leases, LeaseOf(e))
			}
		}
		last, lastPos = e, pos
	}
	d.LoadLeases(leases)
}

// entryBuffer has the key and the string of the entry that is being read, if they are short: NewEntry copies them.
type entryBuffer struct{ key, str [InlineMax]byte }

// readEntry reads a key with all that belongs to it.
func (s *Store) readEntry(r *value.Reader, buf *entryBuffer, namesHolder func(field string) bool) *Entry {
	key, fence, version := r.TextIn(buf.key[:]), r.U64(), r.U64()
	until := Deadline{Tick: r.I64(), WallMs: r.I64()}
	if !until.IsSet() && until != Never {
		r.Fail("a deadline that is none")
	}
	mark, facts, kind := readMark(r)
	if mark == MayBeLock && until.IsSet() {
		r.Fail("what has a lease and might become a lock")
	}
	tag, kind := readTag(r, kind)
	v := value.ReadValue(r, kind, buf.str[:], s.Generation)
	if tag != nil && v.Aggregate() != nil {
		r.Fail("a tag of what is no string")
	}
	if mark != NoLock && v.Aggregate() != nil && v.Aggregate().Kind() != value.HashKind {
		r.Fail("what is known of a lock that is no string")
	}
	e := NewEntry(key, nil, v, until, tag, mark)
	if mark == IsLock {
		e = e.WithFacts(facts)
	}
	if l := e.HashLock(); l != nil {
		l.Read(r, namesHolder)
	}
	e.Fence, e.Version = fence, version
	return e
}

// readMark reads what is known of a lock, if there is anything, and the kind of what follows.
func readMark(r *value.Reader) (mark Mark, facts lock.Facts, kind byte) {
	switch kind = r.Byte(); kind {
	case value.KindMaybe:
		return MayBeLock, facts, r.Byte()
	case value.KindLock:
		return IsLock, value.ReadFacts(r), r.Byte()
	}
	return NoLock, facts, kind
}

// readTag reads a tag, if kind announces one, and the kind of the value that follows.
func readTag(r *value.Reader, kind byte) (*Tag, byte) {
	if kind != value.KindTagged {
		return nil, kind
	}
	tag := &Tag{Owner: r.Text(), Note: r.Text()}
	if *tag == (Tag{}) {
		r.Fail("an empty tag")
	}
	return tag, r.Byte()
}

// checkHolders refuses a lock whose holders can not be those of its key.
func (s *Store) checkHolders(r *value.Reader, e *Entry) {
	l := e.Lock()
	if l == nil {
		return
	}
	if e.Deadline() != EndOf(l) {
		r.Fail("a lock that ends before its holders")
	}
	for h := range l.Each {
		if h.Fence > s.LastFence || h.Version > s.Sequence {
			r.Fail("a holder of a lock is newer than the clock")
		}
	}
}
