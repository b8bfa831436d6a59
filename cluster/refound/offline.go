// Package refound reads backups and the data folders of stopped nodes, and makes new clusters from them.
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

// A new cluster continues a state from a backup or a data folder: DESIGN.md, "A new cluster from an old one".

// Machine is a machine whose state a new cluster can continue.
type Machine = replica.ForkableMachine

// Fork configures a new cluster that continues an old state.
type Fork struct {
	Dir      string // of its first node
	ID       string // of that node
	PeerAddr string // its peer address; it may change later
	LogStore string // "wal" (default) or "boltdb"
	Hold     time.Duration
	// FenceAbove is at least every fence at which other clusters with this past began, as they reported; the new
	// cluster begins higher. nil: it is derived from the clock, whose error the system must know.
	FenceAbove *uint64
	Machine    Machine                       // empty
	Clock      clock.Clock                   // default SystemClock
	WallError  func() (time.Duration, error) // the possible error of Clock's wall time; default SystemWallError
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
	machine Machine
	servers []raft.Server
	kinds   map[string]int // of entries of the log
	last    uint64         // index of the last entry
	wallMs  int64          // of the newest entry
}

func newOffline(id string, machine Machine) *offline {
	o := &offline{machine: machine, kinds: map[string]int{}}
	roster := membership.Empty
	lowest, highest := machine.Levels()
	o.State = replica.New(replica.Config{
		Machine: machine, Clock: clock.NewSystem(), Due: make(chan struct{}, 1),
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

// restore reads an image.
func (o *offline) restore(r io.Reader) error {
	err := o.Restore(r)
	o.last = o.Applied.Load()
	return err
}

// load builds the state of a data folder: its whole log counts, including entries that may not be committed.
func (o *offline) load(x *store.Exam) error {
	meta, body, err := x.OpenSnapshot()
	if err != nil {
		return err
	}
	if meta != nil {
		err := o.restore(body)
		_ = body.Close()
		if err == nil && o.last > meta.Index {
			err = fmt.Errorf("%w: it ends with entry %d, and the snapshot with entry %d", record.ErrImage, o.last, meta.Index)
		}
		if err != nil {
			return fmt.Errorf("snapshot %s: %w", meta.ID, err)
		}
		o.last = meta.Index // what lies between is Raft's own, as the barrier of a term: the machine does not see it
		o.servers, o.wallMs = meta.Configuration.Servers, o.machine.Wall()/1000
	}
	return x.Entries(o.last, o.replay)
}

// replay applies an entry, as a node does with a committed one.
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

// found makes the data folder of a new cluster. pastMs is the wall time of the newest known entry of the old one.
func (o *offline) found(r *Fork, pastMs int64) (*Refounded, error) {
	now := readWall(r.Clock, r.WallError)
	keys, last := o.machine.Totals()
	fence, err := fenceAbove(past{last: max(last, o.last), ms: pastMs}, now, r.FenceAbove)
	if err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Duration(now.errMs) * time.Millisecond) // until each such clock is past this time
	old := o.Roster()
	o.machine.Fork(fence, r.Hold.Milliseconds())
	next := membership.Empty.With(membership.Change{Cluster: rand.Text(), Level: old.Level})
	i := &replica.Image{Applied: max(o.last, 1), Roster: next, Write: o.Machine.Snapshot()}
	err = store.CreateFolder(r.Dir, store.InitialState{
		ID: r.ID, Arch: membership.OwnArch, PeerAddr: r.PeerAddr, Cluster: next.Cluster, LogStore: r.LogStore,
		Index: i.Applied, Write: func(w io.Writer) error { return i.Save(w) },
	})
	return &Refounded{
		Cluster: next.Cluster, Old: old.Cluster, Index: i.Applied, Keys: keys, Fence: fence, Hold: r.Hold,
	}, err
}

// The errors of Inspect and Recover for a folder that is not opened at all.
var (
	ErrForeign = store.ErrForeign
	ErrInUse   = store.ErrInUse
	ErrNewer   = store.ErrNewer
)

// Inspection describes the contents of a data folder.
type Inspection struct {
	*store.Exam
	Cluster string // its id; "": unknown
	Index   uint64 // of the last stored entry, committed or not
	Keys    int
	Fence   uint64 // the highest that was given
	WallMs  int64  // of the newest entry with a time, since 1970; 0: unknown
	Servers []raft.Server
	Known   []string       // ids of the members in the state, with their incarnations
	Removed []string       // ids
	Kinds   map[string]int // entries of the log
}

// Inspect reads the data folder of a stopped node, and changes nothing in it. The machine has to be empty, and is
// unusable afterwards. Damage is in Inspection.Damage; an error says that the folder could not be read.
func Inspect(dir string, machine Machine) (*Inspection, error) {
	in, _, err := inspect(dir, machine)
	if in != nil {
		in.Close()
	}
	return in, err
}

// inspect also returns the state. The folder stays locked.
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
	keys, fence := machine.Totals()
	in := &Inspection{
		Exam: x, Cluster: cmp.Or(ros.Cluster, x.Meta.Cluster), Index: o.last, Keys: keys,
		Fence: fence, WallMs: o.wallMs, Servers: o.servers, Kinds: o.kinds,
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

// Recover makes a cluster of one node from the data folder of a stopped node, r.Dir, which is kept under another name,
// kept. r.ID may be "": the node keeps its id.
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
		in.Close() // an open folder is not renamed
	}
	at := time.UnixMicro(r.Clock.Wall()).UTC().Format("20060102T150405Z")
	if kept, err = store.SetAside(place, ".before-"+at); err != nil {
		return nil, "", err
	}
	return done, kept, store.Rename(r.Dir, place)
}

// beside returns the path at which the folder of a recovered cluster is made.
func beside(dir string) string { return strings.TrimRight(dir, "/") + ".recovered" }

// Newer reports whether a data folder has a later log than another one: Raft would have its node lead.
func (in *Inspection) Newer(than *Inspection) bool {
	if in.LastTerm != than.LastTerm {
		return in.LastTerm > than.LastTerm
	}
	return in.Index > than.Index
}

// Unusable returns the reason why nothing can be recovered from a folder; nil: something can.
func (in *Inspection) Unusable() error {
	if in.Damage == nil && in.Index == 0 {
		return errors.New("it holds no entry and no snapshot")
	}
	return in.Damage
}
