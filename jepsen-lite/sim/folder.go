package sim

import (
	"fmt"
	"math/rand/v2"

	"lockd/clustertest"
	"lockd/jepsen-lite/target"
)

// folder is a data folder: the disk of a machine, or a copy of one.
type folder struct {
	world *world
	dir   string
}

// Folder implements target.Host.
func (w *world) Folder(dir string) target.Folder { return folder{w, dir} }

// disk returns the disk that stands for the folder, or nil.
func (f folder) disk() *clustertest.Disk {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	return f.world.disks[f.dir]
}

// Snapshots implements target.Folder.
func (f folder) Snapshots() []string {
	if d := f.disk(); d != nil {
		return d.Snapshots()
	}
	return nil
}

// RemoveSnapshot implements target.Folder.
func (f folder) RemoveSnapshot(id string) error {
	f.disk().RemoveSnapshot(id)
	return nil
}

// stores are the parts of a disk.
var stores = map[target.Part]clustertest.Store{
	target.Log: clustertest.Log, target.Snapshot: clustertest.Snapshots, target.Votes: clustertest.Votes,
}

// Flip implements target.Folder. The seed of the world decides which bit.
func (f folder) Flip(p target.Part, _ *rand.Rand) (where string, err error) {
	return f.disk().Rot(stores[p]), nil
}

// CopyTo implements target.Folder.
func (f folder) CopyTo(dir string) error {
	from, to := f.disk(), folder{f.world, dir}.disk()
	switch {
	case from == nil:
		return fmt.Errorf("there is no folder %s", f.dir)
	case to != nil:
		to.CopyFrom(from)
		return nil
	}
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	f.world.disks[dir] = from.Copy()
	return nil
}
