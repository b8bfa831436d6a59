package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"lockd/internal/client"
	"lockd/internal/process"
	"lockd/resp"
)

// nodesOfDrill is the number of nodes: the smallest cluster that survives the loss of one.
const nodesOfDrill = 3

// nodes are the nodes of a drill. One goroutine calls its methods.
type nodes struct{ all []*node }

// node is one node; its process is nil while it does not run.
type node struct {
	id, addr string
	command  process.Command
	client   *client.Cluster
	*process.Process
}

// newNodes lays the nodes out.
func newNodes(d *Drill) (*nodes, error) {
	laid, err := process.Cluster(d.Dir, "n", nodesOfDrill)
	if err != nil {
		return nil, err
	}
	c := &nodes{}
	for _, node := range laid {
		c.add(d, node)
	}
	return c, nil
}

func (c *nodes) add(d *Drill, at process.Node) {
	c.all = append(c.all, &node{
		id: at.ID, addr: at.Addr,
		command: process.Command{ // inherits the input of this process, like a command of a shell
			Name: at.ID, Path: d.Program, Args: at.Args, Env: d.Environ, Stdin: os.Stdin, Log: at.Dir + ".log",
		},
		client: &client.Cluster{Addrs: []string{at.Addr}, Name: "lockd-drill"},
	})
}

func (c *nodes) addrs() []string {
	var addrs []string
	for _, n := range c.all {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// client returns a client of all nodes.
func (c *nodes) client(name string) *client.Cluster {
	return &client.Cluster{Addrs: c.addrs(), Name: name}
}

func (c *nodes) alive() []*node {
	var alive []*node
	for _, n := range c.all {
		if n.Process != nil {
			alive = append(alive, n)
		}
	}
	return alive
}

// end ends all processes that were started.
func (c *nodes) end() {
	for _, n := range c.alive() {
		n.kill()
	}
}

// ended returns an error that names a node that should run and does not.
func (c *nodes) ended() error {
	for _, n := range c.alive() {
		if err := n.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) String() string { return fmt.Sprintf("%s (pid %d)", n.id, n.PID()) }

func (n *node) start() (err error) {
	n.Process, err = n.command.Start()
	return err
}

// kill ends the process with SIGKILL and waits until it has ended.
func (n *node) kill() {
	n.Kill()
	n.client.Close()
	n.Process = nil
}

// ask asks one node until it answers. The question may be asked twice.
func (c *nodes) ask(ctx context.Context, n *node, args ...string) (r resp.Reply, err error) {
	err = c.await(ctx, n.id+" answers "+args[0], func(ctx context.Context) (err error) {
		r, err = n.client.DoIdempotent(ctx, args...)
		if err == nil && r.IsErr() {
			err = errors.New(r.Str)
		}
		return err
	})
	return r, err
}

// integer asks one node for a number.
func (c *nodes) integer(ctx context.Context, n *node, args ...string) (int64, error) {
	r, err := c.ask(ctx, n, args...)
	if err != nil {
		return 0, err
	}
	value, ok := resp.ParseInt(r.Str)
	if !ok {
		return 0, fmt.Errorf("%s answers %q to %s", n.id, r.Str, args[0])
	}
	return value, nil
}

// awaitLeader waits until a node leads, and says in which term.
func (c *nodes) awaitLeader(ctx context.Context) (leader *node, term string, err error) {
	err = c.await(ctx, "a node leads", func(ctx context.Context) error {
		for _, n := range c.alive() {
			r, err := n.client.DoIdempotent(ctx, "INFO", "raft")
			if err == nil && infoField(r, "leader_id") == n.id && infoField(r, "ready") == "1" {
				leader, term = n, infoField(r, "term")
				return nil
			}
		}
		return errors.New("none does")
	})
	return leader, term, err
}

// awaitCaughtUp waits until a node follows, and has applied what the others have.
func (c *nodes) awaitCaughtUp(ctx context.Context, n *node) error {
	mark := int64(0)
	for _, o := range c.alive() {
		if o == n {
			continue
		}
		r, err := c.ask(ctx, o, "INFO", "raft")
		if err != nil {
			return err
		}
		applied, _ := resp.ParseInt(infoField(r, "applied_index"))
		mark = max(mark, applied)
	}
	return c.await(ctx, n.id+" has caught up", func(ctx context.Context) error {
		r, err := n.client.DoIdempotent(ctx, "INFO", "raft")
		if err != nil {
			return err
		}
		if applied, _ := resp.ParseInt(infoField(r, "applied_index")); applied < mark || infoField(r, "ready") != "1" {
			return fmt.Errorf("it has applied entry %d of %d", applied, mark)
		}
		return nil
	})
}

// infoField returns a field of a reply to INFO.
func infoField(r resp.Reply, name string) string {
	for line := range strings.Lines(r.Str) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func isUnknown(r resp.Reply) bool { return resp.Code(r.Str) == resp.CodeUnknown }
