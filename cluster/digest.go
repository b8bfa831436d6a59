package cluster

import "fmt"

// Each entry carries the digest that its leader's state had as of an entry it had applied then.
// A node that had another one as of that entry has done something else with the same log: it,
// or the leader.

// digestsKept is how many digests a node remembers: more than there can be entries between one
// that is stamped and the last one its leader had applied then.
const digestsKept = 1024

// digestAt is a state's digest as of an entry.
type digestAt struct{ index, digest uint64 }

// noteDigest remembers the state's digest as of the last entry.
func (f *fsm) noteDigest() {
	s := f.n.state
	s.mu.Lock()
	d := digestAt{s.applied, s.machine.Digest()}
	s.mu.Unlock()
	f.digests[d.index%digestsKept] = d
	if d.digest != 0 {
		s.digest.Store(&d)
	}
}

// checkDigest compares what an entry says of the state with what was remembered. Nothing is
// concluded where this node does not know: the state came in a snapshot. An entry that was in
// the log at the start was compared when it came, and ended this process if it differed: it is
// only told of again, or no node that is right could ever pass an entry of one that was wrong.
func (f *fsm) checkDigest(index uint64, e *entry) error {
	own := f.digests[e.checked%digestsKept]
	if e.checked == 0 || own.index != e.checked || own.digest == 0 || own.digest == e.digest {
		return nil
	}
	why := fmt.Errorf("it says that the state had the digest %016x as of entry %d, here it had %016x: this node, or "+
		"the one that led then, has done something else with the same log. Ask LOCKD HASH of all nodes; the one that "+
		"differs from a majority is to be removed, and added under a new id with an empty data folder",
		e.digest, e.checked, own.digest)
	if f.replayTo > 0 && index <= f.replayTo {
		if f.said.Due("digest") {
			f.n.log.Error("an entry of the log was written in another state", "entry", index, "why", why)
		}
		return nil
	}
	return why
}
