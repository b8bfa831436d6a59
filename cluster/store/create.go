package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// InitialState is the content of a new data folder: the state as of an entry, in a cluster with one member.
type InitialState struct {
	ID, Arch string
	PeerAddr string
	Cluster  string // its id
	LogStore string // WAL (also if empty) or BoltDB
	Index    uint64 // of the entry, 1 at least
	Write    func(io.Writer) error
}

// firstTerm is the term of the first entry of a new folder. Its cluster has had no other.
const firstTerm = 1

// restoring is the suffix of an incomplete folder, which no node opens.
const restoring = ".restoring"

// CheckFree refuses a folder that is not empty.
func CheckFree(path string) error {
	found, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(found) > 0:
		return fmt.Errorf("folder %s is not empty: it holds %q; name a new or an empty folder", path, found[0].Name())
	}
	return nil
}

// CreateFolder makes a whole data folder or none: it writes and syncs the folder beside its place, and renames it.
func CreateFolder(path string, f InitialState) error {
	if err := CheckFree(path); err != nil {
		return err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	next := path + restoring
	if err := os.RemoveAll(next); err != nil { // left by a crash
		return err
	}
	if err := fill(next, f); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return putInPlace(next, path)
}

// putInPlace renames a complete folder.
func putInPlace(next, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("folder %s cannot be replaced (is it a mount point? then name a folder in it): %w",
			path, err), os.RemoveAll(next))
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return syncFolder(filepath.Dir(path))
}

func fill(path string, f InitialState) error {
	d, err := OpenFolder(path, f.ID, f.Arch)
	if err != nil {
		return err
	}
	err = fillStores(d, f)
	return errors.Join(err, d.Close())
}

func fillStores(d *Folder, f InitialState) error {
	var failed error
	s, err := Open(d, Options{LogStore: f.LogStore, Fatal: func(err error) { failed = err }})
	if err != nil {
		return err
	}
	err = errors.Join(s.begin(f), s.Close(), failed)
	if err == nil {
		err = d.SetCluster(f.Cluster)
	}
	return err
}

// begin stores the first snapshot and its term.
func (s *Stores) begin(f InitialState) error {
	server := raft.Server{ID: raft.ServerID(f.ID), Address: raft.ServerAddress(f.PeerAddr)}
	members := raft.Configuration{Servers: []raft.Server{server}}
	sink, err := s.Snaps.Create(1, f.Index, firstTerm, members, f.Index, namesOnly{})
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(sink, snapshotSyncBytes)
	if err := errors.Join(f.Write(w), w.Flush()); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	return s.Stable.SetUint64([]byte(keyCurrentTerm), firstTerm)
}

// namesOnly is the part of a transport that a snapshot needs.
type namesOnly struct{ raft.Transport }

// EncodePeer implements raft.Transport.
func (namesOnly) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// SetAside renames the folder of a stopped node, to keep it: path with a suffix. It returns the new name.
func SetAside(path, suffix string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	kept := path + suffix
	if _, err := os.Lstat(kept); err == nil {
		return "", fmt.Errorf("%s is there already", kept)
	}
	if err := os.Rename(path, kept); err != nil {
		return "", fmt.Errorf("folder %s cannot be renamed (is it a mount point? then recover a copy of it): %w", path, err)
	}
	return kept, syncFolder(filepath.Dir(path))
}

// Rename renames a folder, and syncs the new name.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}
