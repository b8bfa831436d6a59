package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"

	"lockd/cluster/face"
	"lockd/cluster/group"
	"lockd/cluster/peer"
	"lockd/resp"
)

// A backup is a file:
//
//	head   a line of JSON, BackupHead, and a line "crc32c" with its checksum
//	image  as in a snapshot
//	tail   "lockdend", the length of all before it as 8 bytes, little endian, and the SHA-256 of all that, 32 bytes
//
// What a release has written opens for ever.
const (
	backupProgram = "lockd backup"
	backupFormat  = 1
	backupHeadMax = 4 << 10 // bytes
	backupTail    = "lockdend"
	backupTailLen = len(backupTail) + 8 + sha256.Size
)

// BackupHead is what a backup says of itself.
type BackupHead struct {
	Program string `json:"program"` // backupProgram
	Format  int    `json:"format"`
	Version string `json:"version"` // of lockd
	Cluster string `json:"cluster"`
	Node    string `json:"node"`   // that made it
	Index   uint64 `json:"index"`  // of the last entry in it
	MadeMs  int64  `json:"madeMs"` // wall time, since 1970
}

var errBackup = errors.New("this is no sound backup")

// sealer writes a backup: what goes through it is summed for the tail.
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

func writeBackup(w io.Writer, head BackupHead, i *image) error {
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	s := newSealer(w)
	if _, err := fmt.Fprintf(s, "%s\ncrc32c %08x\n", line, crc32.Checksum(line, resp.CRC32C)); err != nil {
		return err
	}
	if err := i.writeTo(s); err != nil {
		return err
	}
	_, err = w.Write(s.tail())
	return err
}

// BackupSum follows a backup as it comes, and says whether it has come whole.
type BackupSum struct {
	s    *sealer
	last []byte // what may be the tail
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

// Check returns why what has been written is not a whole backup.
func (b *BackupSum) Check() error {
	if b.s == nil || !bytes.Equal(b.last, b.s.tail()) {
		return fmt.Errorf("%w: it is cut short, or its checksum does not match", errBackup)
	}
	return nil
}

// ReadBackup reads a backup into an empty machine, and returns what it says of itself. Nothing of the machine is of
// use after an error.
func ReadBackup(path string, heir ForkableMachine) (*BackupHead, error) {
	head, _, err := loadBackup(path, heir)
	return head, err
}

func loadBackup(path string, heir ForkableMachine) (*BackupHead, *offline, error) {
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
		return nil, nil, fmt.Errorf("%s: %w: %w", path, errBackup, err)
	}
	o := newOffline("", heir)
	if err := o.restore(io.NewSectionReader(body, n, body.Size()-n)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if ros := o.members.roster.Load(); o.applied != head.Index || ros.Cluster != head.Cluster {
		return nil, nil, fmt.Errorf("%s: %w: it says entry %d of cluster %s, and holds entry %d of cluster %s",
			path, errBackup, head.Index, head.Cluster, o.applied, ros.Cluster)
	}
	return head, o, nil
}

// readBackupHead returns the head, and how long it is.
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

// Restore makes a new cluster of a backup: the data folder of its first node.
func Restore(path string, r Fork) (*Refounded, *BackupHead, error) {
	if err := r.complete(); err != nil {
		return nil, nil, err
	}
	head, o, err := loadBackup(path, r.Machine)
	if err != nil {
		return nil, nil, err
	}
	done, err := o.found(&r, max(head.MadeMs, o.heir.WallMs()))
	return done, head, err
}

// Limits of backups that clients read from a node.
const (
	backupsMax    = 2                // at a time: each keeps alive what is changed meanwhile
	backupIdleMax = 30 * time.Second // after which one that is not read is given up
	backupChunk   = 256 << 10        // bytes of an answer
)

// backups are those that clients are reading from this node. All methods may be called concurrently.
type backups struct {
	*core
	mu   sync.Mutex
	open map[string]*backup
}

func newBackups(c *core) *backups { return &backups{core: c, open: map[string]*backup{}} }

// backup is one of them. A goroutine writes it, a chunk ahead of its reader.
type backup struct {
	reading sync.Mutex
	offset  int64
	idle    *time.Timer
	chunks  chan []byte // closed at the end
	end     chan struct{}
	once    sync.Once
	err     error // read after chunks is closed
}

func (b *backup) stop() { b.once.Do(func() { close(b.end) }) }

// begin begins a backup, and returns its name.
func (b *backups) begin(write func(io.Writer) error) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= backupsMax {
		return "", fmt.Errorf("%d backups of this node are being read already", len(b.open))
	}
	id := rand.Text()
	one := &backup{chunks: make(chan []byte), end: make(chan struct{})}
	one.idle = time.AfterFunc(backupIdleMax, func() { b.drop(id) })
	b.open[id] = one
	go func() {
		defer close(one.chunks)
		w := &chunkWriter{backups: b, to: one, since: b.clock.Monotonic()}
		if one.err = write(w); one.err == nil {
			one.err = w.flush()
		}
	}()
	return id, nil
}

// drop ends a backup, read to its end or not.
func (b *backups) drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.open[id]; one != nil {
		one.idle.Stop()
		one.stop()
		delete(b.open, id)
	}
}

var errNoBackup = errors.New("no such backup: it was not read for 30 s, or this node was started anew")

// read returns the next chunk; none at the end.
func (b *backups) read(ctx context.Context, id string, offset int64) ([]byte, error) {
	b.mu.Lock()
	one := b.open[id]
	b.mu.Unlock()
	if one == nil {
		return nil, errNoBackup
	}
	one.reading.Lock()
	defer one.reading.Unlock()
	if offset != one.offset {
		return nil, fmt.Errorf("this backup is read up to %d, and not to %d", one.offset, offset)
	}
	one.idle.Reset(backupIdleMax)
	select {
	case chunk, more := <-one.chunks:
		if !more {
			b.drop(id)
			return nil, one.err
		}
		one.offset += int64(len(chunk))
		return chunk, nil
	case <-one.end:
		return nil, errNoBackup
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.core.stop:
		return nil, group.ErrHalted
	}
}

// chunkWriter cuts a backup into chunks. It works a part of the time, as the writer of a snapshot does: clients come
// first.
type chunkWriter struct {
	*backups
	to    *backup
	buf   []byte
	since time.Duration
}

// Write implements io.Writer.
func (w *chunkWriter) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		if w.buf == nil {
			w.buf = make([]byte, 0, backupChunk)
		}
		n := min(len(p), backupChunk-len(w.buf))
		w.buf = append(w.buf, p[:n]...)
		p, done = p[n:], done+n
		if len(w.buf) < backupChunk {
			continue
		}
		if err := w.flush(); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (w *chunkWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if err := w.rest(); err != nil {
		return err
	}
	select {
	case w.to.chunks <- w.buf:
		w.buf, w.since = nil, w.clock.Monotonic()
		return nil
	case <-w.to.end:
		return errNoBackup
	case <-w.core.stop:
		return group.ErrHalted
	}
}

// rest is as long as the work was, several times.
func (w *chunkWriter) rest() error {
	pause := time.NewTimer((snapshotPart - 1) * (w.clock.Monotonic() - w.since))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-w.to.end:
		return errNoBackup
	case <-w.core.stop:
		return group.ErrHalted
	}
}

// beginBackup begins one of a state that has in it all that was acknowledged before, anywhere.
func beginBackup(ctx context.Context, n *Node) resp.Reply {
	if err := n.catchUp(ctx); err != nil {
		return resp.Fail(err)
	}
	i := n.state.image(n.snapshots)
	head := BackupHead{
		Program: backupProgram, Format: backupFormat, Version: n.cfg.Version, Cluster: i.roster.Cluster, Node: n.cfg.ID,
		Index: i.applied, MadeMs: n.clock.Wall() / 1000,
	}
	id, err := n.backups.begin(func(w io.Writer) error { return writeBackup(w, head, i) })
	if err != nil {
		return resp.Errf("ERR no backup: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.Array(resp.Bulk(id), resp.Int(int64(i.applied)))
}

// cmdBackup begins a backup, or reads a piece of it.
func cmdBackup(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	switch len(args) {
	case 2:
		return beginBackup(ctx, n)
	case 4:
	default:
		return resp.WrongArity("lockd|backup")
	}
	offset, bad := face.Number(args[3])
	if bad != nil {
		return resp.Fail(bad)
	}
	chunk, err := n.backups.read(ctx, args[2], offset)
	if err != nil {
		return resp.Errf("ERR no backup: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.Bulk(string(chunk))
}

func cmdIndex(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	index, ok := n.router.confirmedIndex(ctx)
	if !ok {
		return resp.Err(n.commands.notDone)
	}
	return resp.Int(int64(index))
}
