package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"lockd/cluster/refound"
	"lockd/internal/client"
	"lockd/resp"
)

// Backup reads backups from nodes.
type Backup struct {
	Client client.Cluster // without addresses
	From   []string       // addresses of nodes, which are asked in turn
}

// Fetched describes a backup that has come.
type Fetched struct {
	From  string // address of the node
	Index int64  // of the last entry in it
	Bytes int64
}

// FileError is the error of a file that is there already, or cannot be made.
type FileError struct{ error }

// Write writes a backup beside a file, which gets its name when the backup is whole and on the disk.
func (b *Backup) Write(ctx context.Context, file string) (got Fetched, err error) {
	if _, err := os.Lstat(file); err == nil {
		return got, FileError{fmt.Errorf("--out %s is there already", file)}
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.part")
	if err != nil {
		return got, FileError{err}
	}
	part := f.Name()
	got, err = b.Fetch(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(part, file) // which does not replace what is there meanwhile
		if err != nil {
			if _, there := os.Lstat(file); there != nil { // a file system without links
				return got, os.Rename(part, file)
			}
		}
	}
	return got, errors.Join(err, os.Remove(part))
}

// Fetch copies a backup, and checks that it has come whole.
func (b *Backup) Fetch(ctx context.Context, to io.Writer) (got Fetched, err error) {
	for _, addr := range b.From {
		var began bool
		if got, began, err = b.fetchFrom(ctx, addr, to); err == nil || began {
			return got, err
		}
	}
	return got, err
}

// fetchFrom reports whether anything has been written.
func (b *Backup) fetchFrom(ctx context.Context, addr string, to io.Writer) (got Fetched, began bool, err error) {
	conn, err := b.Client.Dial(ctx, addr)
	if err != nil {
		return got, false, fmt.Errorf("no backup from %s: %w", addr, err)
	}
	defer conn.Close()
	r, err := conn.Do(ctx, "LOCKD", "BACKUP")
	switch {
	case err != nil:
		return got, false, fmt.Errorf("no backup from %s: %w", addr, err)
	case r.IsErr():
		return got, false, fmt.Errorf("no backup from %s: %w", addr, Refused(r.Str))
	case len(r.Elems) != 2:
		return got, false, fmt.Errorf("%s is no server of lockd that makes backups", addr)
	}
	id := r.Elems[0].Str
	sum := &refound.BackupSum{}
	out := bufio.NewWriter(io.MultiWriter(to, sum))
	got = Fetched{From: addr, Index: r.Elems[1].Int}
	for {
		r, err := conn.Do(ctx, "LOCKD", "BACKUP", id, strconv.FormatInt(got.Bytes, 10))
		switch {
		case err != nil:
			return got, true, fmt.Errorf("the backup from %s is not whole: %w", addr, err)
		case r.Kind != resp.KindBulk:
			return got, true, fmt.Errorf("the backup from %s is not whole: %w", addr, Refused(r.Str))
		case r.Str == "":
			return got, true, errors.Join(out.Flush(), sum.Check())
		}
		got.Bytes += int64(len(r.Str))
		if _, err := out.WriteString(r.Str); err != nil {
			return got, true, err
		}
	}
}
