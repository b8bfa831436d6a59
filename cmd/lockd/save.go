package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"lockd/cluster/refound"
	"lockd/cmd/lockd/operate"
	"lockd/internal/client"
	"lockd/keyspace"
	"lockd/luavm"
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

// run writes the backup to a file, or to the standard output.
func (c *backupCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	b := operate.Backup{
		Client: client.Cluster{User: c.User, Password: c.Auth, TLS: c.secured, Name: "lockd-backup"}, From: c.Addr,
	}
	if c.Out == "-" {
		_, err := b.Fetch(ctx, stdout)
		return err
	}
	got, err := b.Write(ctx, c.Out)
	if noFile := (operate.FileError{}); errors.As(err, &noFile) {
		return usageError{noFile}
	}
	if err == nil {
		fmt.Fprintf(stderr, "%s: %d bytes, up to entry %d, from %s\n", c.Out, got.Bytes, got.Index, got.From)
	}
	return err
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
