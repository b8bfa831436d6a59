package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"lockd/cluster/refound"
	"lockd/internal/client"
	"lockd/keyspace"
	"lockd/luavm"
	"lockd/resp"
)

var _ refound.Machine = (*keyspace.Machine)(nil)

func newMachine() refound.Machine { return keyspace.New(luavm.New()) }

// backupCmd reads a backup from a node.
type backupCmd struct {
	clusterFlags `embed:""`

	From []string `help:"Node to take the backup from; any will do (default: --addr)." placeholder:"HOST:PORT"`
	Out  string   `required:"" help:"File to write, which must not be there yet; - for standard output." placeholder:"FILE"`
}

func (c *backupCmd) check() error {
	if len(c.From) > 0 {
		c.Addr = c.From
	}
	if c.Out == "" {
		return usagef("--out is empty")
	}
	return c.clusterFlags.check()
}

// run writes beside the file, which gets its name when the backup is whole and on the disk.
func (c *backupCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	if c.Out == "-" {
		_, err := c.fetch(ctx, stdout)
		return err
	}
	if _, err := os.Lstat(c.Out); err == nil {
		return usagef("--out %s is there already", c.Out)
	}
	f, err := os.CreateTemp(filepath.Dir(c.Out), filepath.Base(c.Out)+".*.part")
	if err != nil {
		return usageError{err}
	}
	part := f.Name()
	got, err := c.fetch(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(part, c.Out) // which does not replace what is there meanwhile
		if err != nil {
			if _, there := os.Lstat(c.Out); there != nil { // a file system without links
				return os.Rename(part, c.Out)
			}
		}
	}
	if err = errors.Join(err, os.Remove(part)); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s: %d bytes, up to entry %d, from %s\n", c.Out, got.bytes, got.index, got.from)
	return nil
}

type fetched struct {
	from  string
	index int64
	bytes int64
}

// fetch copies a backup, and checks that it has come whole.
func (c *backupCmd) fetch(ctx context.Context, to io.Writer) (got fetched, err error) {
	for _, addr := range c.Addr {
		var began bool
		if got, began, err = c.fetchFrom(ctx, addr, to); err == nil || began {
			return got, err
		}
	}
	return got, err
}

// fetchFrom reports whether anything has been written.
func (c *backupCmd) fetchFrom(ctx context.Context, addr string, to io.Writer) (got fetched, began bool, err error) {
	one := client.Cluster{Addrs: []string{addr}, User: c.User, Password: c.Auth, TLS: c.secured, Name: "lockd-backup"}
	conn, err := one.Dial(ctx, addr)
	if err != nil {
		return got, false, fmt.Errorf("no backup from %s: %w", addr, err)
	}
	defer conn.Close()
	r, err := conn.Do(ctx, "LOCKD", "BACKUP")
	switch {
	case err != nil:
		return got, false, fmt.Errorf("no backup from %s: %w", addr, err)
	case r.IsErr():
		return got, false, fmt.Errorf("no backup from %s: %w", addr, refusedError(r.Str))
	case len(r.Elems) != 2:
		return got, false, fmt.Errorf("%s is no server of lockd that makes backups", addr)
	}
	id := r.Elems[0].Str
	sum := &refound.BackupSum{}
	out := bufio.NewWriter(io.MultiWriter(to, sum))
	got = fetched{from: addr, index: r.Elems[1].Int}
	for {
		r, err := conn.Do(ctx, "LOCKD", "BACKUP", id, strconv.FormatInt(got.bytes, 10))
		switch {
		case err != nil:
			return got, true, fmt.Errorf("the backup from %s is not whole: %w", addr, err)
		case r.Kind != resp.KindBulk:
			return got, true, fmt.Errorf("the backup from %s is not whole: %w", addr, refusedError(r.Str))
		case r.Str == "":
			return got, true, errors.Join(out.Flush(), sum.Check())
		}
		got.bytes += int64(len(r.Str))
		if _, err := out.WriteString(r.Str); err != nil {
			return got, true, err
		}
	}
}

// foundFlags configure a new cluster made of an old state; restore and recover share them.
type foundFlags struct {
	PeerAdvertise string        `help:"Peer address of the first node, as other nodes will reach it; its own flags count once it starts." placeholder:"HOST:PORT"`
	Hold          time.Duration `default:"1m" help:"For how long the new cluster grants no lock that it does not know yet: the longest lease that may have been given since (default: ${default})." placeholder:"DURATION"`
	FenceAbove    string        `help:"Begin with fences above this number: that which the last restore or recovery of these data printed. Needed where they may not follow from the clock, which is said." placeholder:"N"`

	above *uint64 // --fence-above; nil: it was not given
}

func (f *foundFlags) check() error {
	if f.FenceAbove != "" {
		above, err := strconv.ParseUint(f.FenceAbove, 10, 64)
		if err != nil || above > refound.FenceAboveMax {
			return usagef("--fence-above %q is not a whole number from 0 to %d", f.FenceAbove, uint64(refound.FenceAboveMax))
		}
		f.above = &above
	}
	if f.Hold < 0 || f.Hold > holdFlagMax {
		return usagef("--hold %s is not between 0s and %s", f.Hold, holdFlagMax)
	}
	if f.PeerAdvertise == "" {
		return nil
	}
	_, _, err := splitAddr("--peer-advertise", f.PeerAdvertise)
	return err
}

// holdFlagMax bounds --hold.
const holdFlagMax = 100 * 365 * 24 * time.Hour

// restoreCmd makes a new cluster of a backup.
type restoreCmd struct {
	foundFlags `embed:""`

	Dir      string `required:"" help:"Data folder to make; it is new, or empty." placeholder:"DIR"`
	In       string `required:"" help:"The backup." placeholder:"FILE"`
	ID       string `default:"n1" help:"Name of the first node (default: ${default})." placeholder:"NAME"`
	LogStore string `enum:"wal,boltdb" default:"wal" help:"Where the node keeps its log: wal or boltdb."`
}

func (c *restoreCmd) check() error {
	if err := checkID(c.ID); err != nil {
		return err
	}
	if c.PeerAdvertise == "" {
		c.PeerAdvertise = "127.0.0.1:16379" // what a node without flags listens on
	}
	return c.foundFlags.check()
}

func (c *restoreCmd) run(_ context.Context, stdout, _ io.Writer) error {
	done, head, err := refound.Restore(c.In, refound.Fork{
		Dir: c.Dir, ID: c.ID, PeerAddr: c.PeerAdvertise, LogStore: c.LogStore, Hold: c.Hold, FenceAbove: c.above,
		Machine: newMachine(),
	})
	if err != nil {
		return foundError(err)
	}
	fmt.Fprintf(stdout, "The backup was made by node %s at %s.\n", head.Node, wallTime(head.MadeMs))
	explain(stdout, done, c.ID, c.Dir)
	return nil
}

// foundError is a mistake in a flag where --fence-above is missing, or wrong.
func foundError(err error) error {
	if errors.Is(err, refound.ErrFenceAbove) {
		return usageError{err}
	}
	return err
}

// explain prints what a new cluster does that the old one did not.
func explain(w io.Writer, done *refound.Refounded, id, dir string) {
	fmt.Fprintf(w, "Cluster %s goes on with the state of cluster %s as of entry %d, %d keys.\n", done.Cluster, done.Old,
		done.Index, done.Keys)
	fmt.Fprintf(w, "Fences: every lock that is granted from now on has a fence above %d, more than the old cluster can "+
		"have given; should another cluster be made of the same or of older data, give --fence-above %d. A lock that was "+
		"held keeps its fence, so a holder that has lost it since is refused by it. ",
		done.Fence, done.Fence)
	if done.Hold > 0 {
		fmt.Fprintf(w, "Hold: for %s from its first start, counted while it has a leader, the cluster grants no lock that "+
			"is not in the state (-LOADING): by then the leases have ended that the old cluster gave meanwhile, if none was "+
			"longer. Who holds a lock that is known may renew and release it. CONFIG SET lock-hold-until -1 ends this "+
			"early, where it is certain that nobody holds another lock.\n", done.Hold)
	} else {
		fmt.Fprintf(w, "Hold: there is none, so a lock that the old cluster granted meanwhile may be granted again at once.\n")
	}
	fmt.Fprintf(w, "Start it by: lockd serve --id %s --dir %s (with its addresses, without --cluster and --join). Further nodes join "+
		"it with empty folders: --join. Nodes of the old cluster are refused; stop them all, as clients might still reach "+
		"them.\n", id, dir)
}

// wallTime is a time in milliseconds, and how long ago it was.
func wallTime(ms int64) string {
	if ms == 0 {
		return "an unknown time"
	}
	at := time.UnixMilli(ms)
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), time.Since(at).Round(time.Second))
}
