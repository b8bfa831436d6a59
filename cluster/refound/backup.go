package refound

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"lockd/cluster/replica"
	"lockd/resp"
)

// A backup is a file:
//
//	head   a line of JSON, BackupHead, and a line "crc32c" with its checksum
//	image  as in a snapshot
//	tail   "lockdend", the length of all before it as 8 bytes, little endian, and the SHA-256 of all that, 32 bytes
//
// A form that a release has written opens for ever.
const (
	backupProgram = "lockd backup"
	backupFormat  = 1
	backupHeadMax = 4 << 10 // bytes
	backupTail    = "lockdend"
	backupTailLen = len(backupTail) + 8 + sha256.Size
)

// BackupHead describes a backup, at its beginning.
type BackupHead struct {
	Program string `json:"program"` // backupProgram
	Format  int    `json:"format"`
	Version string `json:"version"` // of lockd
	Cluster string `json:"cluster"`
	Node    string `json:"node"`   // that made it
	Index   uint64 `json:"index"`  // of the last entry in it
	MadeMs  int64  `json:"madeMs"` // wall time in milliseconds since 1970
}

// ErrBackup marks the errors of files that are not backups, or are damaged.
var ErrBackup = errors.New("this is no sound backup")

// sealer writes a backup, and sums its bytes for the tail.
type sealer struct {
	w   io.Writer
	sum hash.Hash
	n   uint64
}

func newSealer(w io.Writer) *sealer { return &sealer{w: w, sum: sha256.New()} }

// Write implements io.Writer.
func (s *sealer) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.sum.Write(b[:n])
	s.n += uint64(n)
	return n, err
}

func (s *sealer) tail() []byte {
	tail := binary.LittleEndian.AppendUint64([]byte(backupTail), s.n)
	s.sum.Write(tail)
	return s.sum.Sum(tail)
}

// WriteBackup writes a backup of a state. head describes its origin.
func WriteBackup(w io.Writer, head BackupHead, i *replica.Image) error {
	head.Program, head.Format = backupProgram, backupFormat
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	s := newSealer(w)
	if _, err := fmt.Fprintf(s, "%s\ncrc32c %08x\n", line, crc32.Checksum(line, resp.CRC32C)); err != nil {
		return err
	}
	if err := i.Save(s); err != nil {
		return err
	}
	_, err = w.Write(s.tail())
	return err
}

// BackupSum checks a backup while it is written: whether it is complete.
type BackupSum struct {
	s    *sealer
	last []byte // possibly the tail
}

// Write implements io.Writer. It never fails.
func (b *BackupSum) Write(p []byte) (int, error) {
	if b.s == nil {
		b.s = newSealer(io.Discard)
	}
	b.last = append(b.last, p...)
	if more := len(b.last) - backupTailLen; more > 0 {
		_, _ = b.s.Write(b.last[:more])
		b.last = append(b.last[:0], b.last[more:]...)
	}
	return len(p), nil
}

// Check returns an error if the bytes written are not a whole backup.
func (b *BackupSum) Check() error {
	if b.s == nil || !bytes.Equal(b.last, b.s.tail()) {
		return fmt.Errorf("%w: it is cut short, or its checksum does not match", ErrBackup)
	}
	return nil
}

// ReadBackup reads a backup into an empty machine, and returns its head. After an error the machine is unusable.
func ReadBackup(path string, machine Machine) (*BackupHead, error) {
	head, _, err := loadBackup(path, machine)
	return head, err
}

func loadBackup(path string, machine Machine) (*BackupHead, *offline, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no file: a backup is read twice", path)
	}
	sum := &BackupSum{}
	if _, err := io.Copy(sum, f); err != nil {
		return nil, nil, err
	}
	if err := sum.Check(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	body := io.NewSectionReader(f, 0, info.Size()-int64(backupTailLen))
	head, n, err := readBackupHead(body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", path, ErrBackup, err)
	}
	o := newOffline("", machine)
	if err := o.restore(io.NewSectionReader(body, n, body.Size()-n)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if ros := o.Roster(); o.last != head.Index || ros.Cluster != head.Cluster {
		return nil, nil, fmt.Errorf("%s: %w: it says entry %d of cluster %s, and holds entry %d of cluster %s",
			path, ErrBackup, head.Index, head.Cluster, o.last, ros.Cluster)
	}
	return head, o, nil
}

// readBackupHead returns the head and its length.
func readBackupHead(r io.ReaderAt) (*BackupHead, int64, error) {
	text := make([]byte, backupHeadMax)
	n, err := r.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	line, rest, _ := bytes.Cut(text[:n], []byte("\n"))
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	var head BackupHead
	if err := json.Unmarshal(line, &head); err != nil || head.Program != backupProgram {
		return nil, 0, errors.New("it does not begin like one")
	}
	if head.Format > backupFormat {
		return nil, 0, fmt.Errorf("format %d is unknown to this version of lockd, which reads up to %d", head.Format,
			backupFormat)
	}
	if string(second) != fmt.Sprintf("crc32c %08x", crc32.Checksum(line, resp.CRC32C)) {
		return nil, 0, errors.New("the checksum of its head does not match")
	}
	return &head, int64(len(line) + len(second) + 2), nil
}

// Restore makes a new cluster from a backup: the data folder of its first node.
func Restore(path string, r Fork) (*Refounded, *BackupHead, error) {
	if err := r.complete(); err != nil {
		return nil, nil, err
	}
	head, o, err := loadBackup(path, r.Machine)
	if err != nil {
		return nil, nil, err
	}
	done, err := o.found(&r, max(head.MadeMs, o.machine.Wall()/1000))
	return done, head, err
}
