package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	boltstore "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// The errors of Examine that classify a folder; any other error means damage.
var (
	ErrForeign = errors.New("this is no data folder of lockd")
	ErrInUse   = errors.New("the folder is in use")
	ErrNewer   = errors.New("the folder was written by a newer lockd")
)

// Exam is a data folder that is open for reading, with what was found in it. Its methods must not be called
// concurrently.
type Exam struct {
	Meta    Meta
	Term    uint64 // the current term
	VoteFor string // the candidate of the node's vote in term VotedIn; "": none
	VotedIn uint64
	Applied uint64 // index up to which the log is known to be applied; 0: unknown
	Marked  uint64 // index that the log had reached

	First, Last uint64 // of the log; 0, 0: it is empty
	LastTerm    uint64 // of the newest entry or snapshot
	Snapshots   []ExamSnapshot
	Notes       []string // repairs of the next start, as sentences
	Damage      error    // the reason why a node refuses to start; nil: it starts

	path    string
	log     *checkedLog
	snaps   *readSnapshots
	closers closerList
}

// ExamSnapshot describes a snapshot in a data folder.
type ExamSnapshot struct {
	raft.SnapshotMeta
	Err error // the error of reading it; nil: it can be read
}

// Examine opens a data folder for reading, and locks it against nodes until Close. It changes nothing. Its error wraps
// ErrForeign, ErrInUse or ErrNewer if that is the reason; damage is in Exam.Damage instead.
func Examine(path string) (*Exam, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("folder %s does not exist", path)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is no folder: %w", path, ErrForeign)
	}
	if err := checkOurs(path); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrForeign, err)
	}
	x := &Exam{path: path}
	if err := x.lock(); err != nil {
		return nil, err
	}
	if err := x.readMeta(); err != nil {
		x.Close()
		return nil, err
	}
	if x.Damage == nil {
		x.Damage = x.readStores()
	}
	return x, nil
}

// Close unlocks the folder.
func (x *Exam) Close() {
	for _, c := range slices.Backward(x.closers) {
		_ = c.Close()
	}
	x.closers = nil
}

// lock locks the folder against nodes, or fails because a node uses it. A copied folder may have no lock file.
func (x *Exam) lock() error {
	f, err := os.Open(filepath.Join(x.path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := tryLock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errLocked) {
			return fmt.Errorf("data folder %s: %w by another lockd process (pid %s): stop it first", x.path, ErrInUse,
				readPID(f))
		}
		return fmt.Errorf("data folder %s cannot be locked: %w", x.path, err)
	}
	x.closers = append(x.closers, f)
	return nil
}

func (x *Exam) readMeta() error {
	text, err := readFileMax(filepath.Join(x.path, metaFile), metaMax)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{walFolder, logFile, votesFile, snapshotFolder} {
			if _, err := os.Lstat(filepath.Join(x.path, name)); err == nil {
				x.Damage = fmt.Errorf("%s is missing, but there is %s", metaFile, name)
				return nil
			}
		}
		return fmt.Errorf("folder %s is empty: %w", x.path, ErrForeign)
	}
	if err == nil {
		x.Meta, err = decodeMeta(text)
	}
	switch {
	case errors.Is(err, errDevelopment):
		return fmt.Errorf("%w: data folder %s %w", ErrForeign, x.path, err)
	case err != nil:
		x.Damage = fmt.Errorf("%s: %w", metaFile, err)
	case x.Meta.Format > folderFormat:
		return fmt.Errorf("data folder %s: %w (format %d, this is %d)", x.path, ErrNewer, x.Meta.Format, folderFormat)
	}
	return nil
}

// readStores checks the stores as Open does.
func (x *Exam) readStores() error {
	if x.Meta.LogStore == "" {
		x.Notes = append(x.Notes, "its creation was cut short: nothing was stored yet, and the next start creates it again")
		return nil
	}
	d := &Folder{path: x.path, meta: x.Meta}
	if err := d.checkStores(x.Meta.LogStore); err != nil {
		return err
	}
	x.snaps = &readSnapshots{dir: filepath.Join(x.path, snapshotFolder)}
	if err := x.listSnapshots(); err != nil {
		return err
	}
	if _, err := d.LastSeen(); err != nil {
		return err
	}
	_, err := withoutPanic(x.open)
	return err
}

func (x *Exam) open() (empty bool, err error) {
	x.Applied = readMark(filepath.Join(x.path, appliedFile))
	if x.Marked = readMark(filepath.Join(x.path, markFile)); x.Marked == 0 {
		if text, err := readFileMax(filepath.Join(x.path, markFile), markLen); err != nil || !isMarkText(text) {
			return false, errors.Join(errors.New("the mark of its log is damaged"), err)
		}
	}
	votes, err := x.openVotes()
	if err != nil {
		return false, fmt.Errorf("its record of votes: %w", err)
	}
	log, err := x.openLog()
	if err != nil {
		return false, fmt.Errorf("its log: %w", err)
	}
	x.log = &checkedLog{LogStore: log, mark: &logMark{f: readOnlyFile{}}}
	files := &bareStores{log: x.log, votes: votes, snaps: x.snaps, mark: x.Marked}
	x.Term, err = files.number(keyCurrentTerm)
	if err == nil {
		x.VotedIn, err = files.number(keyVoteTerm)
	}
	if err != nil {
		return false, err
	}
	if name, err := votes.Get([]byte(keyVoteCand)); err == nil {
		x.VoteFor = string(name)
	}
	x.First, _ = log.FirstIndex()
	x.Last, _ = log.LastIndex()
	var e raft.Log
	if x.Last > 0 && x.log.GetLog(x.Last, &e) == nil {
		x.LastTerm = e.Term
	}
	for _, s := range x.Snapshots {
		x.LastTerm = max(x.LastTerm, s.Term)
	}
	return files.inspect()
}

// Entries calls visit for each entry of the log behind an index, in order. An entry is valid until visit returns.
func (x *Exam) Entries(after uint64, visit func(*raft.Log) error) error {
	if x.log == nil || x.Last == 0 {
		return nil
	}
	for i := max(after+1, x.First); i <= x.Last; i++ {
		var e raft.Log
		if err := x.log.GetLog(i, &e); err != nil {
			return fmt.Errorf("entry %d of the log: %w", i, err)
		}
		if err := visit(&e); err != nil {
			return err
		}
	}
	return nil
}

// OpenSnapshot opens the newest readable snapshot; nil: there is none.
func (x *Exam) OpenSnapshot() (*raft.SnapshotMeta, io.ReadCloser, error) {
	for _, s := range x.Snapshots {
		if s.Err == nil {
			return x.snaps.Open(s.ID)
		}
	}
	return nil, nil, nil
}

func (x *Exam) listSnapshots() error {
	list, err := x.snaps.List()
	if err != nil {
		return err
	}
	for _, meta := range list {
		s := ExamSnapshot{SnapshotMeta: *meta}
		_, body, err := x.snaps.Open(meta.ID)
		if s.Err = err; err == nil {
			_ = body.Close()
		}
		x.Snapshots = append(x.Snapshots, s)
	}
	return nil
}

func readMark(path string) uint64 {
	text, err := readFileMax(path, markLen)
	if err != nil {
		return 0
	}
	n, _ := decodeMark(text)
	return n
}

func isMarkText(text []byte) bool {
	_, err := decodeMark(text)
	return err == nil
}

func (x *Exam) openVotes() (checkedVotes, error) {
	db, err := x.openBolt(votesFile)
	return checkedVotes{readOnlyVotes{StableStore: db, exam: x}}, err
}

func (x *Exam) openBolt(name string) (*boltstore.BoltStore, error) {
	path := filepath.Join(x.path, name)
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	db, err := boltstore.New(boltstore.Options{
		Path: path, MsgpackUseNewTimeFormat: true, BoltOptions: &bbolt.Options{Timeout: boltLockWait, ReadOnly: true},
	})
	if err == nil {
		x.closers = append(x.closers, db)
	}
	return db, err
}

func (x *Exam) openLog() (raft.LogStore, error) {
	if x.Meta.LogStore == BoltDB {
		db, err := x.openBolt(logFile)
		return readOnlyLog{LogStore: db, exam: x}, err
	}
	log, err := x.openSegments(filepath.Join(x.path, walFolder))
	return readOnlyLog{LogStore: log, exam: x}, err
}

// segments is a log of raft-wal that is only read: its library would open one for appending.
type segments struct {
	raft.LogStore // nil: what writes is never called
	list          []openSegment
}

type openSegment struct {
	first, last uint64
	reader      types.SegmentReader
}

func (x *Exam) openSegments(dir string) (*segments, error) {
	path := filepath.Join(dir, walMetaFile)
	if err := checkBolt(path); err != nil {
		return nil, err
	}
	state, err := readSegmentList(path)
	if err != nil {
		return nil, err
	}
	filer, log := segment.NewFiler(dir, readOnlyFiles{walfs.New()}), &segments{}
	for i, info := range state.Segments {
		s := openSegment{first: info.MinIndex, last: info.MaxIndex}
		if i+1 < len(state.Segments) || !info.SealTime.IsZero() {
			s.reader, err = filer.Open(info)
		} else {
			var tail types.SegmentWriter
			if tail, err = filer.RecoverTail(info); err == nil {
				s.reader, s.last = tail, tail.LastIndex()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", segment.FileName(info), err)
		}
		x.closers = append(x.closers, s.reader)
		if s.last >= s.first && s.last > 0 {
			log.list = append(log.list, s)
		}
	}
	return log, nil
}

// readSegmentList reads raft-wal's list of its files.
func readSegmentList(path string) (state types.PersistentState, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: boltLockWait, ReadOnly: true})
	if err != nil {
		return state, err
	}
	defer func() { _ = db.Close() }()
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(metadb.MetaBucket))
		if b == nil {
			return errors.New("no list of segments")
		}
		if text := b.Get([]byte(metadb.MetaKey)); text != nil {
			return json.Unmarshal(text, &state)
		}
		return nil
	})
	return state, err
}

// FirstIndex implements raft.LogStore.
func (l *segments) FirstIndex() (uint64, error) {
	if len(l.list) == 0 {
		return 0, nil
	}
	return l.list[0].first, nil
}

// LastIndex implements raft.LogStore.
func (l *segments) LastIndex() (uint64, error) {
	if len(l.list) == 0 {
		return 0, nil
	}
	return l.list[len(l.list)-1].last, nil
}

// GetLog implements raft.LogStore.
func (l *segments) GetLog(index uint64, e *raft.Log) error {
	i := slices.IndexFunc(l.list, func(s openSegment) bool { return s.first <= index && index <= s.last })
	if i < 0 {
		return raft.ErrLogNotFound
	}
	buf, err := l.list[i].reader.GetLog(index)
	if err != nil {
		return err
	}
	defer func() { _ = buf.Close() }()
	return (&wal.BinaryCodec{}).Decode(bytes.Clone(buf.Bs), e)
}

// errReadOnly is the error of a write to a folder that is only read.
var errReadOnly = errors.New("it is only read")

// readOnlyLog is a read-only log: a repair becomes a note.
type readOnlyLog struct {
	raft.LogStore
	exam *Exam
}

// DeleteRange implements raft.LogStore.
func (l readOnlyLog) DeleteRange(first, last uint64) error {
	l.exam.Notes = append(l.exam.Notes,
		fmt.Sprintf("entries %d to %d are older than the snapshot that was installed: the next start removes them", first,
			last))
	return nil
}

// readOnlyVotes is a read-only record of votes: a repair becomes a note.
type readOnlyVotes struct {
	raft.StableStore
	exam *Exam
}

// Set implements raft.StableStore.
func (v readOnlyVotes) Set([]byte, []byte) error {
	v.exam.Notes = append(v.exam.Notes, "founding a cluster was cut short: the next start repeats it")
	return nil
}

// readOnlyFiles is a read-only file system.
type readOnlyFiles struct{ types.VFS }

// OpenWriter implements types.VFS.
func (s readOnlyFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	r, err := s.OpenReader(dir, name)
	return readOnlyFile{r}, err
}

// Create implements types.VFS.
func (s readOnlyFiles) Create(string, string, uint64) (types.WritableFile, error) {
	return nil, errReadOnly
}

// Delete implements types.VFS.
func (s readOnlyFiles) Delete(string, string) error { return errReadOnly }

type readOnlyFile struct{ types.ReadableFile }

// WriteAt implements types.WritableFile. It ignores the lowering of the mark, which a note covers.
func (f readOnlyFile) WriteAt(b []byte, _ int64) (int, error) {
	if f.ReadableFile == nil {
		return len(b), nil
	}
	return 0, errReadOnly
}

// Sync implements types.WritableFile.
func (f readOnlyFile) Sync() error { return nil }

// readSnapshots is a read-only store of snapshots. raft.FileSnapshotStore would write a file to test its permissions.
type readSnapshots struct {
	raft.SnapshotStore // nil: Create is never called
	dir                string
}

const (
	snapshotMetaFile = "meta.json" // raft.FileSnapshotStore's name for it
	snapshotMetaMax  = 1 << 20     // bytes
)

type snapshotFileMeta struct {
	raft.SnapshotMeta
	CRC []byte
}

// List implements raft.SnapshotStore.
func (s *readSnapshots) List() ([]*raft.SnapshotMeta, error) {
	found, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*raft.SnapshotMeta
	for _, f := range found {
		if !f.IsDir() || strings.HasSuffix(f.Name(), tmpSuffix) {
			continue
		}
		if meta, err := s.read(f.Name()); err == nil { // as raft.FileSnapshotStore does
			list = append(list, &meta.SnapshotMeta)
		}
	}
	slices.SortFunc(list, func(a, b *raft.SnapshotMeta) int {
		return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Index, a.Index), cmp.Compare(b.ID, a.ID))
	})
	return list[:min(len(list), SnapshotsKept)], nil
}

func (s *readSnapshots) read(id string) (*snapshotFileMeta, error) {
	text, err := readFileMax(filepath.Join(s.dir, id, snapshotMetaFile), snapshotMetaMax)
	if err != nil {
		return nil, err
	}
	meta := &snapshotFileMeta{}
	if err := json.Unmarshal(text, meta); err != nil {
		return nil, err
	}
	if meta.ID != id {
		return nil, fmt.Errorf("snapshot %s describes %s", id, meta.ID)
	}
	return meta, nil
}

// Open implements raft.SnapshotStore.
func (s *readSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, err := s.read(id)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(filepath.Join(s.dir, id, stateFile))
	if err != nil {
		return nil, nil, err
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	_, err = io.Copy(sum, f)
	if err == nil && !bytes.Equal(sum.Sum(nil), meta.CRC) {
		err = errChecksum
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &meta.SnapshotMeta, f, nil
}
