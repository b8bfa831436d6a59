package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/group"
)

// Limits of backups that clients read from a node.
const (
	backupsMax  = 2         // at a time: each keeps alive the data that is changed meanwhile
	backupChunk = 256 << 10 // bytes of an answer
	// BackupIdleMax is the time after which a backup without a reader is dropped.
	BackupIdleMax = 30 * time.Second
)

// Backups holds the backups that clients are reading from this node. All methods may be called concurrently.
type Backups struct {
	clock clock.Clock
	stop  <-chan struct{}

	mu   sync.Mutex
	open map[string]*backup
}

// NewBackups returns an empty Backups.
func NewBackups(c clock.Clock, stop <-chan struct{}) *Backups {
	return &Backups{clock: c, stop: stop, open: map[string]*backup{}}
}

// backup is a backup under way. A goroutine writes it, a chunk ahead of its reader.
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

// Begin begins a backup, whose content write writes, and returns its name.
func (b *Backups) Begin(write func(io.Writer) error) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= backupsMax {
		return "", fmt.Errorf("%d backups of this node are being read already", len(b.open))
	}
	id := rand.Text()
	one := &backup{chunks: make(chan []byte), end: make(chan struct{})}
	one.idle = time.AfterFunc(BackupIdleMax, func() { b.drop(id) })
	b.open[id] = one
	go func() {
		defer close(one.chunks)
		w := &chunkWriter{Backups: b, to: one, since: b.clock.Monotonic()}
		if one.err = write(w); one.err == nil {
			one.err = w.flush()
		}
	}()
	return id, nil
}

// drop ends a backup.
func (b *Backups) drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.open[id]; one != nil {
		one.idle.Stop()
		one.stop()
		delete(b.open, id)
	}
}

var errNoBackup = errors.New("no such backup: it was not read for 30 s, or this node was restarted")

// Read returns the next chunk of a backup; none at the end.
func (b *Backups) Read(ctx context.Context, id string, offset int64) ([]byte, error) {
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
	one.idle.Reset(BackupIdleMax)
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
	case <-b.stop:
		return nil, group.ErrHalted
	}
}

// chunkWriter divides a backup into chunks. It works only a part of the time, like the writer of a snapshot, as clients
// come first.
type chunkWriter struct {
	*Backups
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
	case <-w.Backups.stop:
		return group.ErrHalted
	}
}

// rest pauses for a multiple of the time worked.
func (w *chunkWriter) rest() error {
	pause := time.NewTimer((Part - 1) * (w.clock.Monotonic() - w.since))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-w.to.end:
		return errNoBackup
	case <-w.Backups.stop:
		return group.ErrHalted
	}
}
