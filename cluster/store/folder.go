package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockd/resp"
)

const (
	folderFormat = 1 // of the folder's layout; a newer format is refused
	lockFile     = "lock"
	metaFile     = "lockd.json"
	metaMax      = 64 << 10 // bytes
	metaProgram  = "lockd data"

	metaProgramDevelopment = "lockd data folder" // of development builds: their formats are others
)

var errDevelopment = errors.New(resp.SaysDevelopment)

// Meta is a data folder's description of itself: one line of JSON, and a line with its checksum.
type Meta struct {
	Program     string `json:"program"` // metaProgram
	Format      int    `json:"format"`
	ID          string `json:"id"`               // node id
	Incarnation string `json:"incarnation"`      // drawn with the folder: a node that lost its data gets another one
	Cluster     string `json:"cluster"`          // cluster id; "" until it is known
	Arch        string `json:"arch"`             // architecture of the process that made the folder
	LogStore    string `json:"log_store"`        // kind of the log; "" until there is one
	Number      int    `json:"number,omitempty"` // of the node among the members; 0 until it is known
	History            // of its starts
}

// Folder is a locked data folder. It belongs to one process at a time. Its methods must not be called concurrently,
// except LastSeen and SaveLastSeen.
type Folder struct {
	path    string
	meta    Meta
	lock    *os.File
	reserve *reserve
}

// OpenFolder opens or makes the data folder of node id; a new folder records arch, the architecture. It refuses, with a
// sentence that helps the operator, a folder that another process uses, that belongs to another node, that a newer
// lockd or a development build has written, that is damaged, or that is not lockd's.
func OpenFolder(path, id, arch string) (*Folder, error) {
	if err := makeFolder(path); err != nil {
		return nil, fmt.Errorf("data folder %s cannot be made: %w", path, err)
	}
	if err := checkOurs(path); err != nil {
		return nil, err
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	d := &Folder{path: path, lock: lock, reserve: newReserve(path)}
	d.reserve.begin()
	if err := d.load(id, arch); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return d, nil
}

// Close unlocks the folder. Its stores must have been closed.
func (d *Folder) Close() error { return d.lock.Close() }

// Meta returns the present description of the folder.
func (d *Folder) Meta() Meta { return d.meta }

// checkOurs refuses a folder with files that lockd does not make.
func checkOurs(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("data folder %s cannot be read: %w", path, err)
	}
	ours := []string{lockFile, metaFile, metaFile + tmpSuffix, lastSeenFile, lastSeenFile + tmpSuffix,
		promiseFile, promiseFile + tmpSuffix, appliedFile,
		walFolder, logFile, votesFile, markFile, snapshotFolder, ballastFile, "lost+found"}
	for _, e := range entries {
		if !slices.Contains(ours, e.Name()) {
			return fmt.Errorf("folder %s is not lockd's: it holds %q; name an empty or a new folder", path, e.Name())
		}
	}
	return nil
}

// errLocked is the error of a lock that another process holds.
var errLocked = errors.New("locked by another process")

// lockFolder locks the folder against other processes. The kernel frees the lock when the process ends, however it
// ends.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder %s cannot be locked: %w", path, err)
	}
	if err = tryLock(f); err == nil {
		err = writePID(f)
	}
	if err == nil {
		return f, nil
	}
	defer f.Close()
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("data folder %s is in use by another lockd process (pid %s)", path, readPID(f))
	}
	return nil, fmt.Errorf("data folder %s cannot be locked: %w", path, err)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return err
}

func readPID(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(text))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return "unknown"
	}
	return pid
}

// load reads the folder's meta file, or writes the first one.
func (d *Folder) load(id, arch string) error {
	text, err := readFileMax(filepath.Join(d.path, metaFile), metaMax)
	if errors.Is(err, os.ErrNotExist) {
		return d.create(id, arch)
	}
	if err != nil {
		return d.damaged(fmt.Errorf("%s: %w", metaFile, err))
	}
	meta, err := decodeMeta(text)
	switch {
	case errors.Is(err, errDevelopment):
		return fmt.Errorf("data folder %s %w: name another folder", d.path, err)
	case err != nil:
		return d.damaged(fmt.Errorf("%s: %w", metaFile, err))
	case meta.Format > folderFormat:
		return fmt.Errorf("data folder %s was written by a newer lockd (format %d, this is %d): start that version, "+
			"or name another folder",
			d.path, meta.Format, folderFormat)
	case meta.ID != id:
		return fmt.Errorf("data folder %s belongs to node %q, not to %q", d.path, meta.ID, id)
	}
	return d.save(meta.begin())
}

func (d *Folder) create(id, arch string) error {
	for _, name := range []string{walFolder, logFile, votesFile, snapshotFolder} {
		if _, err := os.Lstat(filepath.Join(d.path, name)); err == nil {
			return d.damaged(fmt.Errorf("%s is missing, but there is %s", metaFile, name))
		}
	}
	meta := Meta{Program: metaProgram, ID: id, Incarnation: rand.Text(), Arch: arch}
	return d.save(meta.begin())
}

// begin counts a start.
func (m Meta) begin() Meta {
	m.Format = folderFormat
	m.History = m.next()
	return m
}

// SetCluster stores the id of the node's cluster, once it is known.
func (d *Folder) SetCluster(cluster string) error {
	if d.meta.Cluster == cluster {
		return nil
	}
	meta := d.meta
	meta.Cluster = cluster
	return d.save(meta)
}

// SetNumber stores the number that the cluster has given to the node.
func (d *Folder) SetNumber(number int) error {
	if d.meta.Number == number {
		return nil
	}
	meta := d.meta
	meta.Number = number
	return d.save(meta)
}

// recordStores records that the stores have been made, and the kind of the log.
func (d *Folder) recordStores(logStore string) error {
	if d.meta.LogStore == logStore {
		return nil
	}
	meta := d.meta
	meta.LogStore = logStore
	return d.save(meta)
}

// checkStores refuses a folder whose log is of the other kind, or whose stores are missing: a node that forgot its log
// or its vote would harm the others.
func (d *Folder) checkStores(logStore string) error {
	if logStore != WAL && logStore != BoltDB {
		return fmt.Errorf("unknown log store %q: it is %s or %s", logStore, WAL, BoltDB)
	}
	if d.meta.LogStore == "" {
		return d.clearUnfinished()
	}
	if d.meta.LogStore != logStore {
		return fmt.Errorf("data folder %s keeps its log in %s, not in %s", d.path, d.meta.LogStore, logStore)
	}
	log := walFolder
	if logStore == BoltDB {
		log = logFile
	}
	for _, name := range []string{log, votesFile, markFile} {
		info, err := os.Stat(filepath.Join(d.path, name))
		if err == nil && info.Size() == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return d.damaged(fmt.Errorf("%s: %w", name, err))
		}
	}
	return nil
}

// clearUnfinished removes stores whose creation was interrupted. They hold no data, since none is stored before
// recordStores.
func (d *Folder) clearUnfinished() error {
	for _, name := range []string{walFolder, logFile, votesFile, markFile, snapshotFolder} {
		if err := os.RemoveAll(filepath.Join(d.path, name)); err != nil {
			return fmt.Errorf("data folder %s: %w", d.path, err)
		}
	}
	return nil
}

// damaged returns the refusal of a folder that cannot be trusted.
func (d *Folder) damaged(err error) error {
	if isFull(err) {
		return d.full(err)
	}
	if isStarved(err) {
		return fmt.Errorf("data folder %s: %w: the folder is in order; %s", d.path, err, saysMoreFiles)
	}
	return fmt.Errorf("data folder %s is damaged: %w (nothing was repaired: remove the node from the cluster and add "+
		"it under a new id with an empty folder; an older copy of the folder has forgotten what the node has "+
		"promised since, and is refused)",
		d.path, err)
}

// full returns the error of a folder on a full disk. The folder itself is intact.
func (d *Folder) full(err error) error {
	return fmt.Errorf("data folder %s: %w: the folder is in order; make at least %d MiB of space (the log is written "+
		"to files of %d MiB, one of which is rebuilt after a crash) and start again",
		d.path, err, d.reserve.missing(), segmentBytes()>>20)
}

// saysMoreFiles is the advice for a process without a free descriptor.
const saysMoreFiles = "raise the limit of open files (ulimit -n; LimitNOFILE= of systemd) and start again"

// save writes the meta file.
func (d *Folder) save(meta Meta) error {
	if err := replaceFile(d.path, metaFile, encodeMeta(meta)); err != nil {
		if isFull(err) {
			return d.full(err)
		}
		return fmt.Errorf("data folder %s: %w", d.path, err)
	}
	d.meta = meta
	return nil
}

// replaceFile replaces a file of a folder: it syncs a new file before it renames it.
func replaceFile(folder, name string, text []byte) error {
	path := filepath.Join(folder, name)
	if err := writeSynced(path+tmpSuffix, text); err != nil {
		return err
	}
	if err := os.Rename(path+tmpSuffix, path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func encodeMeta(meta Meta) []byte {
	line, err := json.Marshal(meta)
	if err != nil {
		panic(err) // strings and integers only
	}
	return withChecksum(line)
}

func decodeMeta(text []byte) (Meta, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var meta Meta
	if err := json.Unmarshal(line, &meta); err != nil {
		return meta, fmt.Errorf("unreadable: %w", err)
	}
	if meta.Program == metaProgramDevelopment {
		return meta, errDevelopment
	}
	if meta.Program != metaProgram || meta.Format < 1 {
		return meta, errors.New("it does not describe a lockd data folder")
	}
	if meta.Format > folderFormat {
		return meta, nil // its checksum may be another one
	}
	if !bytes.Equal(text, withChecksum(line)) {
		return meta, errChecksum
	}
	return meta, nil
}

func readFileMax(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return text, err
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// makeFolder makes a folder with its parents, and syncs the parents: a node whose folder vanishes in a power failure
// has forgotten its vote, and would start as a new one.
func makeFolder(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	var above []string
	for p := path; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			break
		}
		above = append(above, filepath.Dir(p))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, p := range above {
		if err := syncFolder(p); err != nil {
			return err
		}
	}
	return nil
}
