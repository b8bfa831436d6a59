package store

import "slices"

// journal keeps the entries that a running attempt has replaced, so that all of it can be taken back: a script that
// meets a limit must not leave half of its writes.
type journal struct {
	undo                []undo
	sequence, lastFence uint64
	places              *[Databases]place // before the first change of databases; nil: there was none yet
}

// place is the database of a number, and what Swap changes of it.
type place struct {
	*Database
	swapped, floor uint64
}

// undo is one change to undo.
type undo struct {
	in        *Database // nil: made by the attempt, which need not be restored
	key       string
	was       *Entry // nil: the key was absent
	bucket    int
	createdAt uint64
}

// Begin starts an attempt. Its new generation makes aggregates copy themselves before
// a change, so that the entries in the journal stay as they were.
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

// keep records the entry that a key had. It skips values that the attempt itself has stored, because
// undo has what they replaced. Otherwise a string that grows in a loop would be kept in each of its
// lengths, gigabytes of it.
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

// Keeps reports whether an attempt runs, and has found this entry, and not stored it itself: the journal keeps it as it
// is, so a change begins with a copy. A snapshot asks for copies too, but each node takes it when it likes: its copies
// cost nothing that is counted, or a request would meet its limit at another command on each node.
func (s *Store) Keeps(was *Entry) bool { return s.journal != nil && was.Version <= s.journal.sequence }

// Kept returns what the journal keeps: the entries that were replaced, nil for each key that was absent, and the
// databases that the attempt has found, once it has changed one.
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

// found reports whether the attempt has found a database here, and not made it.
func (j *journal) found(d *Database) bool {
	return j.places == nil || slices.ContainsFunc(j.places[:], func(p place) bool { return p.Database == d })
}

// KeepDatabases must come before Clear and Swap.
func (s *Store) KeepDatabases() {
	if s.journal == nil || s.journal.places != nil {
		return
	}
	s.journal.places = &[Databases]place{}
	for i, d := range s.DBs {
		s.journal.places[i] = place{Database: d, swapped: d.Swapped, floor: d.Floor}
	}
}

// Clear replaces a database by an empty one. First the old one is left as the running attempt has found it.
func (s *Store) Clear(db int) {
	if s.journal != nil {
		s.journal.release(s.DBs[db])
	}
	s.DBs[db] = NewDatabase()
}

// release takes back what the attempt has done to a database that it is about to replace.
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
