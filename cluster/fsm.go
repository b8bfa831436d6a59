package cluster

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"lockd/cluster/figures"
	"lockd/cluster/followers"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/request"
	"lockd/cluster/snapshot"
	"lockd/cluster/store"
	"lockd/cluster/wait"
	"lockd/internal/loglimit"
	"lockd/resp"
	"lockd/resp/fault"
)

// fsm is the shell between Raft and the machine. Raft calls Apply, Snapshot and
// Restore from one goroutine, so its own fields need no lock.
type fsm struct {
	*core
	stores    *store.Stores
	mark      *store.AppliedMark // nil in memory
	state     *replica.State
	members   *members
	attempts  *request.Attempts
	blocker   *wait.Blocker
	announcer *followers.Announcer
	snapshots *snapshot.Snapshots
	ownLog    *ownLog

	replayTo        uint64      // last entry in the log when the node started; 0: it has been applied
	replayCommitted bool        // the entries up to replayTo are known to be committed
	opened          atomic.Bool // NewRaft has returned: any later snapshot comes from the leader
	tooOld          error       // as NewRaft returns: this node's state is of a level that it cannot do
	halted          bool        // an entry could not be read: nothing is applied any more
	digests         [digestsKept]replica.DigestAt
	logged          loglimit.Limiter  // of entries that were written in another state
	applies         figures.Durations // of entries, the machine's work
	bytes           atomic.Uint64
}

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	if f.halted || !f.stores.Log.Await(l.Index) {
		return nil
	}
	e, err := record.Decode(l.Data)
	if err == nil && l.Index <= f.state.Applied.Load() {
		err = fmt.Errorf("it came after entry %d", f.state.Applied.Load())
	}
	if err == nil && e.Term == l.Term {
		err = f.checkDigest(l.Index, &e)
	}
	if err == nil {
		err = f.state.FitsEntry(l, &e)
	}
	if err != nil {
		f.halt(fmt.Errorf("log entry %d: %w: this node stops before it differs from the others", l.Index, err))
		return nil
	}
	f.bytes.Add(uint64(len(l.Data)))
	began := f.clock.Monotonic()
	a, msgs := f.state.Apply(l, &e)
	f.members.tellLevel()
	work := f.clock.Monotonic() - began
	if err := f.cfg.Faults.At(fault.Applied); err != nil {
		f.halt(err)
		return nil
	}
	f.applies.Add(work)
	f.mark.Note(l.Index)
	f.recordDigest()
	f.dropEarlySubscribers(l.Index)
	served := f.deliver(l.Index, msgs)
	f.attempts.Applied(l.Term, &e, a)
	f.endReplay(l.Index)
	if f.lead.Held() {
		f.announcer.EntryApplied(l.Index, l.Term, served)
	}
	f.snapshots.Grown(len(l.Data), work)
	return a
}

// deliver passes on an entry's messages in their order. A client that has waited gets its reply
// before anybody hears what its command did. It reports whether there are such clients of other nodes.
func (f *fsm) deliver(index uint64, msgs []resp.Message) (elsewhere bool) {
	for len(msgs) > 0 {
		n := slices.IndexFunc(msgs, func(m resp.Message) bool { return m.Kind == resp.MessageBlock })
		if n < 0 {
			n = len(msgs)
		}
		f.publish(index, msgs[:n])
		if n < len(msgs) {
			elsewhere = !f.blocker.End(index, *msgs[n].Block) || elsewhere
			n++
		}
		msgs = msgs[n:]
	}
	f.state.Delivered.Store(index)
	return elsewhere
}

// publish sends messages of an entry to the subscribers. Entries that were in the log at the start
// were published before the restart; of those only settings and users are sent.
func (f *fsm) publish(index uint64, msgs []resp.Message) {
	if index <= f.replayTo {
		kept := msgs[:0:0]
		for _, m := range msgs {
			if m.Kind == resp.MessageConfig || m.Kind == resp.MessageUser || m.Kind == resp.MessageUsers {
				kept = append(kept, m)
			}
		}
		msgs = kept
	}
	if len(msgs) > 0 {
		f.cfg.Publisher.Publish(msgs)
	}
}

// dropEarlySubscribers drops the present subscribers once this node knows that its whole old log is committed.
// Until then an entry of the old log may have been committed while they listened, and its messages
// are not published. Clients that subscribe later miss nothing, however long the replay takes: they
// read after they have subscribed, and a read sees every committed entry.
func (f *fsm) dropEarlySubscribers(committed uint64) {
	if f.replayTo == 0 || f.replayCommitted {
		return
	}
	if f.opened.Load() {
		committed = f.raft.CommitIndex()
	}
	if committed >= f.replayTo {
		f.replayCommitted = true
		f.cfg.Publisher.DropSubscribers("this node has just learned what it missed")
	}
}

// endReplay ends the replay once its last entry is applied.
func (f *fsm) endReplay(index uint64) {
	if f.replayTo > 0 && index >= f.replayTo {
		f.replayTo = 0
		f.members.hints.Store(membership.Empty) // the roster holds all committed changes by now
		f.cfg.Publisher.Publish(f.state.Settings())
	}
}

// missed drops this node's subscribers because they may have missed messages, and tells the server
// the present settings.
func (f *fsm) missed(why string) {
	f.cfg.Publisher.DropSubscribers(why)
	f.cfg.Publisher.Publish(f.state.Settings())
}

func (f *fsm) halt(err error) {
	f.halted = true
	f.fatal(err)
}

// StoreConfiguration implements raft.ConfigurationStore. Raft itself keeps the configuration;
// because this method exists, Raft may take a snapshot whose last entry is a configuration.
func (f *fsm) StoreConfiguration(uint64, raft.Configuration) { f.changed.Notify() }

// Snapshot implements raft.FSM. It takes no time: the image is written later.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.halted {
		return nil, group.ErrHalted
	}
	return f.snapshots.Begin(f.state.Image()), nil
}

// restore replaces the state by a snapshot. The fault points apply only to a snapshot of the
// leader.
func (f *fsm) restore(r io.Reader) error {
	if !f.opened.Load() {
		err := f.state.Restore(r)
		if errors.Is(err, replica.ErrLevel) {
			f.tooOld = err // Raft would try the snapshot before it
		}
		return err
	}
	if err := f.ownLog.checkInstall(); err != nil {
		return err
	}
	if err := f.cfg.Faults.At(fault.Install); err != nil {
		return err
	}
	if err := f.state.Restore(r); err != nil {
		return err
	}
	f.members.tellLevel()
	f.snapshots.Installed()
	return f.cfg.Faults.At(fault.Installed)
}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	err := f.restore(r)
	switch {
	case !f.opened.Load():
		if f.state.Applied.Load() >= f.replayTo {
			f.replayTo = 0 // the log has nothing newer to replay
		}
	case errors.Is(err, replica.ErrSnapshotKnown): // neither the machine nor Raft has changed
	case err != nil:
		// The machine's state is undefined now, and Raft would go on applying.
		f.halt(fmt.Errorf("snapshot from the leader: %w", err))
	default:
		f.replayTo = 0
		f.members.hints.Store(membership.Empty)
		f.missed("this node was brought up to date by a snapshot")
		f.blocker.Reconcile()
		f.snapshots.Expose()
	}
	if err == nil {
		f.state.Delivered.Store(f.state.Applied.Load())
		f.attempts.Restored()
		f.recordDigest()
	}
	return err
}

// Each entry carries the digest that its leader's state had as of an entry it had applied then.
// A node that had another one as of that entry has done something else with the same log: it,
// or the leader.

// digestsKept bounds the digests that a node remembers. There are never as many entries between a stamped entry and the
// last one that its leader had applied then.
const digestsKept = 1024

// recordDigest remembers the state's digest as of the last entry.
func (f *fsm) recordDigest() {
	d := f.state.DigestNow()
	f.digests[d.Index%digestsKept] = d
	f.state.Digest.Store(&d)
}

// checkDigest compares what an entry says of the state with what was remembered. Nothing is
// concluded where this node does not know: the state came in a snapshot. An entry that was in
// the log at the start was compared when it came, and ended this process if it differed: it is
// only told of again, or no node that is right could ever pass an entry of one that was wrong.
func (f *fsm) checkDigest(index uint64, e *record.Entry) error {
	own := f.digests[e.Checked%digestsKept]
	if e.Checked == 0 || own.Index != e.Checked || own.Digest == e.Digest {
		return nil
	}
	why := fmt.Errorf("it says that the state had the digest %016x as of entry %d, here it had %016x: this node, or "+
		"the one that led then, has done something else with the same log. Ask LOCKD HASH of all nodes; the one that "+
		"differs from a majority is to be removed, and added under a new id with an empty data folder",
		e.Digest, e.Checked, own.Digest)
	if f.replayTo > 0 && index <= f.replayTo {
		if _, ok := f.logged.Allow("digest"); ok {
			f.log.Error("an entry of the log was written in another state", "entry", index, "why", why)
		}
		return nil
	}
	return why
}
