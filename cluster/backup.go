package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"lockd/cluster/face"
	"lockd/cluster/group"
	"lockd/cluster/peer"
	"lockd/cluster/refound"
	"lockd/cluster/snapshot"
	"lockd/resp"
)

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
	pause := time.NewTimer((snapshot.Part - 1) * (w.clock.Monotonic() - w.since))
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
	i := n.state.Image()
	head := refound.BackupHead{
		Version: n.cfg.Version, Cluster: i.Roster.Cluster, Node: n.cfg.ID, Index: i.Applied, MadeMs: n.clock.Wall() / 1000,
	}
	id, err := n.backups.begin(func(w io.Writer) error { return refound.WriteBackup(w, head, i) })
	if err != nil {
		return resp.Errf("ERR no backup: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.Array(resp.Bulk(id), resp.Int(int64(i.Applied)))
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
