// Package refound reads data folders of nodes that are stopped, and backups, and makes new clusters of them.
package refound

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/membership"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/store"
)

// A state goes on in a new cluster, from a backup or from a data folder: DESIGN.md, "A new cluster from an old one".

// Machine is a machine whose state can go on in a new cluster.
type Machine = replica.ForkableMachine

// Fork says how a new cluster is made of an old state.
type Fork struct {
	Dir      string // of its first node
	ID       string // of that node
	PeerAddr string // how other nodes will reach it; it may be another one later
	LogStore string // "wal" (default) or "boltdb"
	Hold     time.Duration
	// FenceAbove is above all fences that other clusters of this past have begun with, as they have told: the new one
	// begins higher. nil: it follows from the clock, which the system must know to be right.
	FenceAbove *uint64
	Machine    Machine                       // empty
	Clock      clock.Clock                   // default SystemClock
	WallError  func() (time.Duration, error) // by how much Clock's wall time may be off; default SystemWallError
}

// Refounded describes the new cluster.
type Refounded struct {
	Cluster string // id of the new cluster
	Old     string // of the old one
	Index   uint64
	Keys    int
	Fence   uint64 // fences are above this
	Hold    time.Duration
}

func (r *Fork) complete() error {
	if r.Clock == nil {
		r.Clock = clock.NewSystem()
	}
	if r.WallError == nil {
		r.WallError = clock.WallError
	}
	switch {
	case r.ID == "":
		return errors.New("the new node needs an id")
	case r.Hold < 0:
		return fmt.Errorf("the hold %s is negative", r.Hold)
	}
	return nil
}

// offline is a state outside any node.
type offline struct {
	*replica.State
	heir    Machine
	servers []raft.Server
	kinds   map[string]int // of entries of the log
	last    uint64         // index of the last entry
	wallMs  int64          // of the newest entry
}

func newOffline(id string, heir Machine) *offline {
	o := &offline{heir: heir, kinds: map[string]int{}}
	roster := membership.Empty
	lowest, highest := heir.Levels()
	o.State = replica.New(replica.Config{
		Machine: heir, Clock: clock.NewSystem(), Due: make(chan struct{}, 1),
		Roster: func() *membership.Roster { return roster },
		Use:    func(next *membership.Roster) { roster = next },
		Check: func(level int) error {
			if level <= highest {
				return nil
			}
			return membership.TooOld(id, lowest, highest, level)
		},
	})
	return o
}

// restore takes over an image.
func (o *offline) restore(r io.Reader) error {
	err := o.Restore(r)
	o.last = o.Applied.Load()
	return err
}

// load makes the state of a data folder: all of its log counts, also what may not be committed.
func (o *offline) load(x *store.Exam) error {
	meta, body, err := x.OpenSnapshot()
	if err != nil {
		return err
	}
	if meta != nil {
		err := o.restore(body)
		_ = body.Close()
		if err == nil && o.last != meta.Index {
			err = fmt.Errorf("%w: it ends with entry %d, not %d", record.ErrImage, o.last, meta.Index)
		}
		if err != nil {
			return fmt.Errorf("snapshot %s: %w", meta.ID, err)
		}
		o.servers, o.wallMs = meta.Configuration.Servers, o.heir.WallMs()
	}
	return x.Entries(o.last, o.replay)
}

// replay applies an entry, as a node does with an entry that is committed.
func (o *offline) replay(l *raft.Log) error {
	switch l.Type {
	case raft.LogCommand:
		e, err := record.Decode(l.Data)
		if err != nil {
			return fmt.Errorf("entry %d of the log: %w", l.Index, err)
		}
		if err := o.FitsEntry(l, &e); err != nil {
			return fmt.Errorf("entry %d of the log: %w", l.Index, err)
		}
		o.count(&e, l)
		o.State.Apply(l, &e)
	case raft.LogConfiguration:
		o.servers = raft.DecodeConfiguration(l.Data).Servers
		o.kinds["members"]++
	default:
		o.kinds["raft"]++
	}
	o.last = l.Index
	return nil
}

func (o *offline) count(e *record.Entry, l *raft.Log) {
	switch {
	case e.Term != l.Term:
		o.kinds["void"]++
	case e.Kind == record.Roster:
		o.kinds["members"]++
	case len(e.Reqs) == 0:
		o.kinds["ticks"]++
	default:
		o.kinds["writes"]++
	}
	if e.Kind == record.Batch && e.Term == l.Term {
		o.wallMs = e.Wall / 1000
	}
}

// found makes the data folder of a new cluster. pastMs is the wall time of the newest that is known of the old one.
func (o *offline) found(r *Fork, pastMs int64) (*Refounded, error) {
	now := readWall(r.Clock, r.WallError)
	fence, err := fenceAbove(past{last: max(o.heir.LastFence(), o.last), ms: pastMs}, now, r.FenceAbove)
	if err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Duration(now.errMs) * time.Millisecond) // until every sure clock says more than this one did
	old := o.Roster()
	o.heir.Fork(fence, r.Hold.Milliseconds())
	next := membership.Empty.With(membership.Change{Cluster: rand.Text(), Level: old.Level})
	i := &replica.Image{Applied: max(o.last, 1), Roster: next, Write: o.Machine.Snapshot()}
	err = store.Found(r.Dir, store.First{
		ID: r.ID, Arch: membership.OwnArch, PeerAddr: r.PeerAddr, Cluster: next.Cluster, LogStore: r.LogStore,
		Index: i.Applied, Write: func(w io.Writer) error { return i.Save(w) },
	})
	return &Refounded{
		Cluster: next.Cluster, Old: old.Cluster, Index: i.Applied, Keys: o.heir.Keys(), Fence: fence, Hold: r.Hold,
	}, err
}

// Errors of Inspect and Recover that say why a folder is not looked at at all.
var (
	ErrForeign = store.ErrForeign
	ErrInUse   = store.ErrInUse
	ErrNewer   = store.ErrNewer
)

// Inspection is what is in a data folder.
type Inspection struct {
	*store.Exam
	Cluster string // its id; "": unknown
	Index   uint64 // of the last entry that is stored, committed or not
	Keys    int
	Fence   uint64 // the highest that was given
	WallMs  int64  // of the newest entry with a time, since 1970; 0: unknown
	Servers []raft.Server
	Known   []string       // ids of the members, with their incarnations, as the state says
	Removed []string       // ids
	Kinds   map[string]int // entries of the log
}

// Inspect looks at the data folder of a node that is stopped, and changes nothing in it. The machine is empty, and is
// of no use afterwards. What is damaged is in Inspection.Damage; an error says that the folder could not be looked at.
func Inspect(dir string, machine Machine) (*Inspection, error) {
	in, _, err := inspect(dir, machine)
	if in != nil {
		in.Close()
	}
	return in, err
}

// inspect returns the state as well. The folder stays locked.
func inspect(dir string, machine Machine) (*Inspection, *offline, error) {
	x, err := store.Examine(dir)
	if err != nil {
		return nil, nil, err
	}
	o := newOffline(x.Meta.ID, machine)
	if x.Damage == nil {
		x.Damage = o.load(x)
	}
	ros := o.Roster()
	in := &Inspection{
		Exam: x, Cluster: cmp.Or(ros.Cluster, x.Meta.Cluster), Index: o.last, Keys: machine.Keys(),
		Fence: machine.LastFence(), WallMs: o.wallMs, Servers: o.servers, Kinds: o.kinds,
		Removed: slices.Sorted(maps.Keys(ros.Removed)),
	}
	if x.Damage == nil && ros.Cluster != "" && x.Meta.Cluster != "" && ros.Cluster != x.Meta.Cluster {
		x.Damage = fmt.Errorf("the data folder belongs to cluster %s, the log to cluster %s", x.Meta.Cluster, ros.Cluster)
	}
	for _, id := range slices.Sorted(maps.Keys(ros.Members)) {
		in.Known = append(in.Known, id+" "+ros.Members[id].Incarnation)
	}
	return in, o, nil
}

// Recover makes a cluster of one of the data folder of a node that is stopped: r.Dir, which is kept under another
// name, kept. r.ID may be "": the node keeps its id.
func Recover(r Fork) (done *Refounded, kept string, err error) {
	in, o, err := inspect(r.Dir, r.Machine)
	if _, half := os.Stat(beside(r.Dir)); err != nil && half == nil {
		err = fmt.Errorf("%w; an earlier recovery was cut short: if %s is not there, rename %s to it", err, r.Dir,
			beside(r.Dir))
	}
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	if in.Damage != nil {
		return nil, "", fmt.Errorf("data folder %s is damaged: %w", r.Dir, in.Damage)
	}
	if err := os.RemoveAll(beside(r.Dir)); err != nil { // left by a crash
		return nil, "", err
	}
	if in.Index == 0 {
		return nil, "", fmt.Errorf("data folder %s holds nothing: no entry and no snapshot", r.Dir)
	}
	r.ID, r.LogStore = cmp.Or(r.ID, in.Meta.ID), in.Meta.LogStore
	for _, s := range in.Servers {
		if string(s.ID) == in.Meta.ID {
			r.PeerAddr = cmp.Or(r.PeerAddr, string(s.Address))
		}
	}
	if err := r.complete(); err != nil {
		return nil, "", err
	}
	place := r.Dir
	r.Dir = beside(place)
	if done, err = o.found(&r, in.WallMs); err != nil {
		return nil, "", err
	}
	if runtime.GOOS == "windows" {
		in.Close() // it does not rename what is open
	}
	at := time.UnixMicro(r.Clock.Wall()).UTC().Format("20060102T150405Z")
	if kept, err = store.SetAside(place, ".before-"+at); err != nil {
		return nil, "", err
	}
	return done, kept, store.Rename(r.Dir, place)
}

// beside is where the folder of a recovered cluster is made.
func beside(dir string) string { return strings.TrimRight(dir, "/") + ".recovered" }

// Newer reports whether a data folder knows more of the log than another one: Raft would have its node lead.
func (in *Inspection) Newer(than *Inspection) bool {
	if in.LastTerm != than.LastTerm {
		return in.LastTerm > than.LastTerm
	}
	return in.Index > than.Index
}

// Unusable is why nothing can be recovered of a folder; nil: something can.
func (in *Inspection) Unusable() error {
	if in.Damage == nil && in.Index == 0 {
		return errors.New("it holds no entry and no snapshot")
	}
	return in.Damage
}
