package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"lockd/cluster/refound"
	"lockd/cmd/lockd/operate"
	"lockd/internal/client"
	"lockd/internal/process"
	"lockd/keyspace"
	"lockd/luavm"
)

// tool is a command of the program while it runs here.
type tool struct {
	*world
	flags map[string]string
	said  io.Writer
}

// tools are the commands by their names. They read and write files of this machine; what is said of data folders there
// is said of the disks that stand for them.
var tools = map[string]func(t tool, ctx context.Context) error{
	"drain": tool.drain, "backup": tool.backUp, "inspect": tool.inspect, "restore": tool.restore, "recover": tool.recover,
}

// Run implements target.Host.
func (w *world) Run(ctx context.Context, c process.Command) (status int, said string, err error) {
	do := tools[c.Args[0]]
	if do == nil {
		return 0, "", fmt.Errorf("lockd %s is not simulated", c.Args[0])
	}
	var out bytes.Buffer
	err = do(tool{w, flagsOf(c.Args), &out}, ctx)
	switch {
	case ctx.Err() != nil:
		return 0, out.String(), ctx.Err()
	case err != nil:
		return 1, fmt.Sprintf("%slockd: %v\n", &out, err), nil
	}
	return 0, out.String(), nil
}

// connect connects a client to a port of a node.
func (w *world) connect(ctx context.Context, addr string) (net.Conn, error) {
	until, _ := ctx.Deadline() // a client always has one
	return w.Dial(addr, time.Until(until))
}

// addrs returns the addresses of --addr.
func (t tool) addrs() []string { return strings.Split(t.flags["addr"], ",") }

// errStays is the error of a node that cannot be taken away.
var errStays = errors.New("it has to stay")

func (t tool) drain(ctx context.Context) error {
	wait, err := time.ParseDuration(t.flags["wait"])
	if err != nil {
		return err
	}
	d := operate.Drain{Node: &client.Cluster{Addrs: t.addrs(), Name: "lockd-drain", Connect: t.connect}}
	defer d.Node.Close()
	done, err := d.Run(ctx, wait, t.said)
	if err == nil && !done {
		err = errStays
	}
	return err
}

func (t tool) backUp(ctx context.Context) error {
	b := operate.Backup{Client: client.Cluster{Name: "lockd-backup", Connect: t.connect}, From: t.addrs()}
	_, err := b.Write(ctx, t.flags["out"])
	return err
}

func newMachine() refound.Machine { return keyspace.New(luavm.New()) }

// inspect inspects a backup.
func (t tool) inspect(context.Context) error {
	_, err := refound.ReadBackup(t.flags[""], newMachine())
	return err
}

// fork returns the new cluster that the flags describe.
func (t tool) fork() (f refound.Fork, err error) {
	f = refound.Fork{
		Dir: t.flags["dir"], ID: t.flags["id"], PeerAddr: t.flags["peer-advertise"], Machine: newMachine(),
		WallError: func() (time.Duration, error) { return 0, nil },
	}
	if f.Hold, err = time.ParseDuration(t.flags["hold"]); err != nil {
		return f, err
	}
	if above := t.flags["fence-above"]; above != "" {
		n, err := strconv.ParseUint(above, 10, 64)
		f.FenceAbove = &n
		return f, err
	}
	return f, nil
}

func (t tool) restore(context.Context) error {
	f, err := t.fork()
	if err == nil {
		_, _, err = refound.Restore(t.flags["in"], f)
	}
	return t.take(f.Dir, err)
}

// recover writes the disk that stands for a folder into it before, unless a try before has done that.
func (t tool) recover(context.Context) error {
	f, err := t.fork()
	if _, absent := os.Stat(f.Dir); err == nil && absent != nil {
		err = folder{t.world, f.Dir}.disk().WriteFolder(f.Dir)
	}
	if err == nil {
		_, _, err = refound.Recover(f)
	}
	return t.take(f.Dir, err)
}

// take has a disk stand for a folder that was made.
func (t tool) take(dir string, err error) error {
	if err != nil {
		return err
	}
	made, err := t.machines.ReadFolder(dir)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disks[dir] = made
	return nil
}
