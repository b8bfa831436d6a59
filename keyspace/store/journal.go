package store

import "slices"

// journal keeps the entries that a running attempt has replaced, so that the attempt can be undone: a script that meets
// a limit must not leave half of its writes.
type journal struct {
	undo                []undo
	sequence, lastFence uint64
	places              *[Databases]place // before the first change of databases; nil if there was none yet
}

// place is the database that has a number, and the fields of it that Swap changes.
type place struct {
	*Database
	swapped, floor uint64
}

// undo is one change to undo.
type undo struct {
	in        *Database // nil: made by the attempt, and not restored
	key       string
	was       *Entry // nil: the key was absent
	bucket    int
	createdAt uint64
}

// Begin starts an attempt. Its new generation makes aggregates copy themselves before a change, so that the entries in
// the journal stay as they were.
func (s *Store) Begin() {
	s.Generation++
	s.attempt = journal{undo: s.attempt.undo, sequence: s.Sequence, lastFence: s.LastFence}
	s.journal = &s.attempt
}

// undoneReused bounds the changes whose room the next attempt uses again.
const undoneReused = 64

// end ends the attempt, and lets go of the entries that were kept.
func (s *Store) end() {
	clear(s.attempt.undo)
	s.attempt.undo, s.attempt.places = s.attempt.undo[:0], nil
	if cap(s.attempt.undo) > undoneReused {
		s.attempt.undo = nil
	}
	s.journal = nil
}

// keep records the entry that a key had. It skips entries that the attempt itself has stored, because the journal has
// what they replaced: otherwise a string that grows in a loop would be kept in each of its lengths, in gigabytes.
func (s *Store) keep(db int, key string, was *Entry) {
	j := s.journal
	if j == nil || was != nil && !s.Keeps(was) {
		return
	}
	b := bucket(db, key)
	u := undo{bucket: b, createdAt: s.CreatedAt[b]}
	if d := s.DBs[db]; j.found(d) {
		u.in, u.key, u.was = d, key, was
	}
	j.undo = append(j.undo, u)
}

// Keeps reports whether an attempt runs that has not stored this entry itself: the journal keeps the entry as it is, so
// a change begins with a copy, which is counted. Copies for a snapshot are not counted: each node takes snapshots at
// times of its own, and a request would meet its limit at another command on each node.
func (s *Store) Keeps(was *Entry) bool { return s.journal != nil && was.Version <= s.journal.sequence }

// Kept returns what the journal keeps: the entries that were replaced, nil for each key that was absent, and, once the
// attempt has changed databases, the databases of before.
func (s *Store) Kept() (replaced []*Entry, found []*Database) {
	for i := range s.journal.undo {
		replaced = append(replaced, s.journal.undo[i].was)
	}
	if s.journal.places != nil {
		for _, p := range s.journal.places {
			found = append(found, p.Database)
		}
	}
	return replaced, found
}

// found reports whether a database existed before the attempt.
func (j *journal) found(d *Database) bool {
	return j.places == nil || slices.ContainsFunc(j.places[:], func(p place) bool { return p.Database == d })
}

// KeepDatabases records the databases; it must be called before Clear and Swap.
func (s *Store) KeepDatabases() {
	if s.journal == nil || s.journal.places != nil {
		return
	}
	s.journal.places = &[Databases]place{}
	for i, d := range s.DBs {
		s.journal.places[i] = place{Database: d, swapped: d.Swapped, floor: d.Floor}
	}
}

// Clear replaces a database by an empty one, after undoing the changes of the running attempt in it.
func (s *Store) Clear(db int) {
	if s.journal != nil {
		s.journal.release(s.DBs[db])
	}
	s.DBs[db] = NewDatabase()
}

// release undoes the changes of the attempt in a database that it is about to replace.
func (j *journal) release(d *Database) {
	if !j.found(d) {
		return
	}
	for i := len(j.undo) - 1; i >= 0; i-- {
		if j.undo[i].in == d {
			j.undo[i].restore()
		}
	}
}

// restore gives the database what it held.
func (u *undo) restore() {
	if u.in != nil {
		is, _ := u.in.Keys.Get(u.key)
		u.in.Replace(is, u.was)
		u.in, u.key, u.was = nil, "", nil
	}
}

// Commit ends the attempt and keeps what it did.
func (s *Store) Commit() { s.end() }

// Rollback ends the attempt and undoes what it did, newest first.
func (s *Store) Rollback() {
	j := s.journal
	defer s.end()
	for i := len(j.undo) - 1; i >= 0; i-- {
		j.undo[i].restore()
		s.CreatedAt[j.undo[i].bucket] = j.undo[i].createdAt
	}
	if j.places != nil {
		for i, p := range j.places {
			s.DBs[i] = p.Database
			p.Database.Swapped, p.Database.Floor = p.swapped, p.floor
		}
	}
	s.Sequence, s.LastFence = j.sequence, j.lastFence
}
