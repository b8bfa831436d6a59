package clustertest

import (
	"errors"
	"io"
	"runtime"
	"slices"

	"github.com/hashicorp/raft"

	"lockd/cluster/store"
	"lockd/resp/fault"
)

// WriteFolder writes what is on the disk into a new data folder, as a node would have, but for the starts of others: for
// commands that work on folders. No process uses the disk.
func (d *Disk) WriteFolder(path string) error {
	copied := d.Copy()
	return withFolder(path, copied.node, func(folder *store.Stores) error {
		return copied.withStores(func(disk *store.Stores) error { return transfer(disk, folder) })
	})
}

// ReadFolder returns a disk that holds what is in a data folder, which no process uses. The disk has no machine.
func (w *World) ReadFolder(path string) (*Disk, error) {
	x, err := store.Examine(path)
	if err != nil {
		return nil, err
	}
	x.Close()
	d := newDisk(x.Meta.ID, x.Meta.Incarnation, w.dice.below)
	return d, withFolder(path, x.Meta.ID, func(folder *store.Stores) error {
		return d.withStores(func(disk *store.Stores) error { return transfer(folder, disk) })
	})
}

// withFolder opens a data folder of a node, which is made if it is not there.
func withFolder(path, node string, do func(*store.Stores) error) error {
	folder, err := store.OpenFolder(path, node, runtime.GOARCH)
	if err != nil {
		return err
	}
	var failed error
	s, err := store.Open(folder, store.Options{Fatal: func(err error) { failed = err }})
	if err == nil {
		err = errors.Join(do(s), s.Close())
	}
	return errors.Join(err, failed, folder.Close())
}

// withStores opens the stores of a disk without a machine.
func (d *Disk) withStores(do func(*store.Stores) error) error {
	var failed error
	m := mount{d, &Process{faults: &fault.Set{}}}
	s, err := store.OpenBare(store.Options{Fatal: func(err error) { failed = err }}, m.bare())
	if err == nil {
		err = errors.Join(do(s), s.Close())
	}
	return errors.Join(err, failed)
}

// batch is the number of entries of a log that are copied at once.
const batch = 1 << 10

// transfer copies all that is in stores into empty ones.
func transfer(from, to *store.Stores) error {
	list, err := from.Snaps.List()
	for _, meta := range slices.Backward(list) {
		err = errors.Join(err, transferSnapshot(meta, from, to))
	}
	for _, key := range []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"} { // as Raft has them
		if value, absent := from.Stable.Get([]byte(key)); absent == nil {
			err = errors.Join(err, to.Stable.Set([]byte(key), value))
		}
	}
	first, _ := from.Log.FirstIndex()
	last, _ := from.Log.LastIndex()
	var entries []*raft.Log
	for i := first; i <= last && i > 0 && err == nil; i++ {
		e := &raft.Log{}
		err = from.Log.GetLog(i, e)
		if entries = append(entries, e); err == nil && (len(entries) == batch || i == last) {
			err = to.Log.StoreLogs(entries)
			entries = nil
		}
	}
	return err
}

// transferSnapshot copies a snapshot.
func transferSnapshot(meta *raft.SnapshotMeta, from, to *store.Stores) error {
	_, image, err := from.Snaps.Open(meta.ID)
	if err != nil {
		return err
	}
	defer image.Close()
	sink, err := to.Snaps.Create(
		meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, byName{},
	)
	if err != nil {
		return err
	}
	if _, err = io.Copy(sink, image); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// byName is the part of a transport that a snapshot needs.
type byName struct{ raft.Transport }

// EncodePeer implements raft.Transport.
func (byName) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }
