package cluster

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/resp"
	"lockd/resp/fault"
)

// fsm is the shell between Raft and the machine. Raft calls Apply, Snapshot and
// Restore from one goroutine, so its own fields need no lock.
type fsm struct {
	n        *Node
	replayTo uint64      // entries up to this index were in the log when the node started; 0: all are applied
	settled  bool        // and are known to be committed
	opened   atomic.Bool // NewRaft has returned: a snapshot from now on comes from the leader
	halted   bool        // an entry could not be read: nothing is applied any more
	digests  [digestsKept]digestAt
}

// applied is what Apply hands to the future of an entry.
type applied struct {
	void    bool // stamped under another leadership: certainly not done, on any node
	results []resp.Result
}

// noDeadline is Node.deadline when no lease is going to end.
const noDeadline = math.MaxInt64

// Apply implements raft.FSM.
func (f *fsm) Apply(l *raft.Log) any {
	if f.halted || !f.n.stores.Log.Await(l.Index) {
		return nil
	}
	e, err := decodeEntry(l.Data)
	if err == nil && l.Index <= f.n.applied {
		err = fmt.Errorf("it came after entry %d", f.n.applied)
	}
	if err == nil && e.term == l.Term {
		err = f.checkDigest(l.Index, &e)
	}
	if err == nil && e.term == l.Term && l.Data[4] >= 3 { // before, commands could be unknown
		for _, req := range e.reqs {
			if why, found := f.n.unfit(req); found {
				err = fmt.Errorf("a command that this version of lockd does not know: %s", peer.OneLine(why.Str, 128))
			}
		}
	}
	if err != nil {
		f.halt(fmt.Errorf("log entry %d: %w: this node stops before it differs from the others", l.Index, err))
		return nil
	}
	began := f.n.clock.Monotonic()
	a, msgs := f.n.apply(l, &e)
	work := f.n.clock.Monotonic() - began
	if err := fault.At(fault.Applied); err != nil {
		f.halt(err)
		return nil
	}
	f.n.mark.Note(l.Index)
	f.noteDigest()
	f.settle(l.Index)
	f.deliver(l.Index, msgs)
	f.n.attempts.applied(l.Term, &e, a)
	f.endReplay(l.Index)
	if f.n.leads() {
		f.n.announcer.note(l.Index, l.Term)
	}
	f.n.grown(len(l.Data), work)
	return a
}

// apply is where the machine changes.
func (n *Node) apply(l *raft.Log, e *entry) (*applied, []resp.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.applied = l.Index
	n.appliedNow.Store(l.Index)
	if e.term != l.Term {
		// The stamp's clock may run ahead of that of the leader who logged it: to
		// apply it could end a lease early. Every node sees the same two terms.
		return &applied{void: true}, nil
	}
	if e.kind == entryRoster {
		n.setRoster(n.roster.Load().with(e.change))
		return &applied{}, nil
	}
	if l.Data[4] >= 3 && n.machine.Digest() == 0 {
		n.machine.BeginDigest() // with the first entry that may say one: the same on every node
	}
	stamp := resp.Stamp{Tick: e.tick, Wall: e.wall, Index: l.Index, Seed: mix(l.Index)}
	results, msgs := n.machine.Apply(stamp, e.reqs)
	n.appliedAt = n.clock.Monotonic()
	n.noteDeadline()
	return &applied{results: results}, msgs
}

// noteDeadline publishes to the proposer when the leader must propose a tick if
// nothing else is written: past the machine's next deadline, and before that every
// clockLagMax. Node.mu is held.
func (n *Node) noteDeadline() {
	deadline, ok := n.machine.NextDeadline()
	if ok {
		deadline = min(deadline, n.machine.Tick()+clockLagMax.Milliseconds())
	} else {
		deadline = noDeadline
	}
	if n.deadline.Swap(deadline) != deadline {
		signal(n.proposer.wake)
	}
}

// mix spreads an index over 64 bits (splitmix64), so that commands that draw at
// random draw the same on every node.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// deliver hands on what an entry tells, in its order: a client that has waited is
// answered before it, or anybody, hears what its command did.
func (f *fsm) deliver(index uint64, msgs []resp.Message) {
	for len(msgs) > 0 {
		n := slices.IndexFunc(msgs, func(m resp.Message) bool { return m.Kind == resp.MessageBlock })
		if n < 0 {
			n = len(msgs)
		}
		f.publish(index, msgs[:n])
		if n < len(msgs) {
			f.n.blocker.end(*msgs[n].Block)
			n++
		}
		msgs = msgs[n:]
	}
	f.n.toldNow.Store(index)
}

// publish hands on messages of an entry to the subscribers. Those of entries that were in the log
// at the start have been heard before; only settings are of use.
func (f *fsm) publish(index uint64, msgs []resp.Message) {
	if index <= f.replayTo {
		kept := msgs[:0:0]
		for _, m := range msgs {
			if m.Kind == resp.MessageConfig {
				kept = append(kept, m)
			}
		}
		msgs = kept
	}
	if len(msgs) > 0 {
		f.n.cfg.Publisher.Publish(msgs)
	}
}

// settle drops the subscribers who came before this node knew that all its old log is
// committed: an entry may have been committed since, and its messages are not
// published. Who comes later misses nothing, however long the replay takes: he looks
// after he has subscribed, and a read sees all that is committed.
func (f *fsm) settle(committed uint64) {
	if f.replayTo == 0 || f.settled {
		return
	}
	if f.opened.Load() {
		committed = f.n.raft.CommitIndex()
	}
	if committed >= f.replayTo {
		f.settled = true
		f.n.cfg.Publisher.DropSubscribers("this node has just learned what it missed")
	}
}

// endReplay ends the replay with its last entry.
func (f *fsm) endReplay(index uint64) {
	if f.replayTo > 0 && index >= f.replayTo {
		f.replayTo = 0
		f.n.hints.Store(emptyRoster) // all that was committed is in the roster by now
		f.tellSettings()
	}
}

// missed tells this node's subscribers that messages may have passed them by, and
// its server what the settings are now.
func (f *fsm) missed(why string) {
	f.n.cfg.Publisher.DropSubscribers(why)
	f.tellSettings()
}

func (f *fsm) tellSettings() {
	f.n.mu.Lock()
	settings := f.n.machine.Settings()
	f.n.mu.Unlock()
	f.n.cfg.Publisher.Publish(settings)
}

func (f *fsm) halt(err error) {
	f.halted = true
	f.n.fatal(err)
}

// StoreConfiguration implements raft.ConfigurationStore. The configuration itself
// is Raft's business; being told lets Raft take a snapshot that ends with it.
func (f *fsm) StoreConfiguration(uint64, raft.Configuration) { f.n.changed.tell() }

// Snapshot implements raft.FSM. It costs no time: the image is written later.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.halted {
		return nil, errHalted
	}
	f.n.snapshotCounted.Store(f.n.takeGrown())
	return f.n.image(), nil
}

// restore replaces the state, between its fault points if it is by a snapshot of
// the leader.
func (f *fsm) restore(r io.Reader) error {
	if !f.opened.Load() {
		return f.n.restore(r)
	}
	if err := f.n.checkInstall(); err != nil {
		return err
	}
	if err := fault.At(fault.Install); err != nil {
		return err
	}
	if err := f.n.restore(r); err != nil {
		return err
	}
	return fault.At(fault.Installed)
}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	err := f.restore(r)
	switch {
	case !f.opened.Load():
		if f.n.appliedNow.Load() >= f.replayTo {
			f.replayTo = 0 // the log holds nothing newer: there is no replay
		}
	case errors.Is(err, errSnapshotKnown): // nothing has changed, for Raft neither
	case err != nil:
		// The machine is in no state at all now, and Raft would go on applying.
		f.halt(fmt.Errorf("snapshot from the leader: %w", err))
	default:
		f.replayTo = 0
		f.n.hints.Store(emptyRoster)
		f.missed("this node was brought up to date by a snapshot")
		f.n.blocker.reconcile()
		f.n.expose()
	}
	if err == nil {
		f.n.toldNow.Store(f.n.appliedNow.Load())
		f.n.attempts.restored()
		f.noteDigest()
	}
	return err
}
