package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/store"
)

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
func Inspect(dir string, machine Heir) (*Inspection, error) {
	in, _, err := inspect(dir, machine)
	if in != nil {
		in.Close()
	}
	return in, err
}

// inspect returns the state as well. The folder stays locked.
func inspect(dir string, machine Heir) (*Inspection, *offline, error) {
	x, err := store.Examine(dir)
	if err != nil {
		return nil, nil, err
	}
	o := newOffline(x.Meta.ID, machine)
	if x.Damage == nil {
		x.Damage = o.load(x)
	}
	ros := o.members.roster.Load()
	in := &Inspection{
		Exam: x, Cluster: orDefault(ros.cluster, x.Meta.Cluster), Index: o.applied, Keys: machine.Keys(),
		Fence: machine.LastFence(), WallMs: o.wallMs, Servers: o.servers, Kinds: o.kinds,
		Removed: slices.Sorted(maps.Keys(ros.removed)),
	}
	if x.Damage == nil && ros.cluster != "" && x.Meta.Cluster != "" && ros.cluster != x.Meta.Cluster {
		x.Damage = fmt.Errorf("the data folder belongs to cluster %s, the log to cluster %s", x.Meta.Cluster, ros.cluster)
	}
	for _, id := range slices.Sorted(maps.Keys(ros.members)) {
		in.Known = append(in.Known, id+" "+ros.members[id].Incarnation)
	}
	return in, o, nil
}

// Recover makes a cluster of one of the data folder of a node that is stopped: r.Dir, which is kept under another
// name, kept. r.ID may be "": the node keeps its id.
func Recover(r Refound) (done *Refounded, kept string, err error) {
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
	r.ID, r.LogStore = orDefault(r.ID, in.Meta.ID), in.Meta.LogStore
	for _, s := range in.Servers {
		if string(s.ID) == in.Meta.ID {
			r.PeerAddr = orDefault(r.PeerAddr, string(s.Address))
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
