package store

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/raft"
)

// The stores are checked here for what Raft takes for granted, because Raft panics otherwise, or goes on. No repair
// guesses: only steps that a crash interrupted and whose end is known are completed.

const keyCurrentTerm = "CurrentTerm" // raft's

// bareStores holds the unwrapped stores of a folder during the check.
type bareStores struct {
	log   *checkedLog
	votes checkedVotes
	snaps raft.SnapshotStore
	mark  uint64
}

// inspect checks the stores against each other, and reports whether they are empty: no entry and no snapshot.
func (f *bareStores) inspect() (empty bool, err error) {
	snapshot, err := f.newestSnapshot()
	if err != nil {
		return false, err
	}
	last, err := f.checkEnds(snapshot)
	if err != nil {
		return false, err
	}
	topTerm, err := f.checkEntries(last)
	if err != nil {
		return false, err
	}
	if err := f.checkVotes(max(topTerm, snapshot.Term)); err != nil {
		return false, err
	}
	if last > 0 || snapshot.Index > 0 {
		return false, nil
	}
	return true, f.undoBootstrap()
}

// newestSnapshot returns the snapshot that Raft will start from: the newest whole one. The zero value stands for none.
func (f *bareStores) newestSnapshot() (raft.SnapshotMeta, error) {
	list, err := f.snaps.List()
	if err != nil {
		return raft.SnapshotMeta{}, err
	}
	for _, meta := range list {
		if !namedAfter(meta) {
			return raft.SnapshotMeta{}, fmt.Errorf("snapshot %s describes entry %d of term %d",
				meta.ID, meta.Index, meta.Term)
		}
		_, body, err := f.snaps.Open(meta.ID)
		if err != nil {
			continue // as Raft does; the log must then reach back to the snapshot before
		}
		return *meta, body.Close()
	}
	if len(list) > 0 {
		return raft.SnapshotMeta{}, errors.New("none of the snapshots can be read")
	}
	return raft.SnapshotMeta{}, nil
}

// namedAfter compares a snapshot's description, which has no checksum, with the name of its folder.
func namedAfter(meta *raft.SnapshotMeta) bool {
	var term, index, msec uint64
	n, err := fmt.Sscanf(meta.ID, "%d-%d-%d", &term, &index, &msec)
	return err == nil && n == 3 && term == meta.Term && index == meta.Index
}

// checkEnds checks that the log begins at the end of the snapshot or before, and that it has not lost its tail. It
// returns the last index.
func (f *bareStores) checkEnds(snapshot raft.SnapshotMeta) (last uint64, err error) {
	first, err := f.log.FirstIndex()
	if err != nil {
		return 0, err
	}
	if last, err = f.log.LastIndex(); err != nil {
		return 0, err
	}
	switch {
	case max(last, snapshot.Index) < f.mark: // the snapshot reaches the mark, and has replaced the log
		return 0, fmt.Errorf("the log ends at entry %d, but entry %d had been stored", last, f.mark)
	case first > snapshot.Index+1:
		return 0, fmt.Errorf("the log begins at entry %d, but the newest readable snapshot ends at entry %d",
			first, snapshot.Index)
	case last > 0 && last < snapshot.Index:
		// A snapshot was installed, and the crash came before the older log was removed: the next entry would leave a
		// gap, which raft-wal refuses.
		return 0, f.log.DeleteRange(first, last)
	case last > 0 && first <= snapshot.Index:
		var e raft.Log
		if err := f.log.GetLog(snapshot.Index, &e); err != nil || e.Term == snapshot.Term {
			return last, err
		}
		// As above, and the older log reached past the snapshot with entries of another leader.
		return 0, f.log.DeleteRange(first, last)
	}
	return last, nil
}

// checkEntries reads every entry and returns the last term.
func (f *bareStores) checkEntries(last uint64) (topTerm uint64, err error) {
	first, err := f.log.FirstIndex()
	if err != nil || last == 0 {
		return 0, err
	}
	for i := first; i <= last; i++ {
		var e raft.Log
		err := f.log.GetLog(i, &e)
		switch {
		case err != nil:
			return 0, fmt.Errorf("entry %d of the log: %w", i, err)
		case e.Term < topTerm:
			return 0, fmt.Errorf("entry %d of the log is of term %d, after one of term %d", i, e.Term, topTerm)
		}
		topTerm = e.Term
	}
	return topTerm, nil
}

// checkVotes checks that the current term is readable and not older than the log: a node that forgot its term might
// vote twice.
func (f *bareStores) checkVotes(topTerm uint64) error {
	current, err := f.number(keyCurrentTerm)
	if err != nil {
		return err
	}
	voted, err := f.number(keyVoteTerm)
	if err != nil {
		return err
	}
	if _, err := f.votes.Get([]byte(keyVoteCand)); err != nil && err.Error() != keyNotFound {
		return err
	}
	if current < topTerm || current < voted {
		return fmt.Errorf("the record of votes has term %d, but there is an entry of term %d and a vote of term %d",
			current, topTerm, voted)
	}
	return nil
}

// undoBootstrap resets the term of a folder whose bootstrap was interrupted: Raft stores term 1 first and the
// configuration next, and would take a term alone for a bootstrapped node. Nobody can have led or voted in term 1.
func (f *bareStores) undoBootstrap() error {
	current, err := f.number(keyCurrentTerm)
	if err != nil || current != 1 {
		return err
	}
	if voted, err := f.number(keyVoteTerm); err != nil || voted != 0 {
		return err
	}
	return f.votes.SetUint64([]byte(keyCurrentTerm), 0)
}

func (f *bareStores) number(key string) (uint64, error) {
	n, err := f.votes.GetUint64([]byte(key))
	if err != nil && err.Error() == keyNotFound {
		return 0, nil
	}
	return n, err
}

// withoutPanic turns a panic over a damaged file, including a fault of mapped memory, into an error.
func withoutPanic[T any](open func() (T, error)) (v T, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err = safely("unreadable", func() (err error) {
		v, err = open()
		return err
	})
	return v, err
}
