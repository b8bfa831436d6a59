package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lockd/internal/client"
	"lockd/internal/freeport"
	"lockd/internal/process"
	"lockd/resp"
)

// nodesOfDrill is how many nodes there are: the fewest of which one can be lost.
const nodesOfDrill = 3

// nodes are those of a drill. Its methods are called by one goroutine.
type nodes struct{ all []*node }

// node is one process of lockd, or none while it does not run.
type node struct {
	id, addr string
	args     []string
	environ  []string
	program  string
	log      string // file
	client   *client.Cluster

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
}

// newNodes lays the nodes out.
func newNodes(d *Drill) (*nodes, error) {
	clients, err := freeport.Addrs("127.0.0.1", nodesOfDrill)
	if err != nil {
		return nil, err
	}
	peers, err := freeport.Addrs("127.0.0.1", nodesOfDrill)
	if err != nil {
		return nil, err
	}
	var list []string
	for i, peer := range peers {
		list = append(list, fmt.Sprintf("n%d=%s", i+1, peer))
	}
	c := &nodes{}
	for i := range nodesOfDrill {
		id := fmt.Sprintf("n%d", i+1)
		c.all = append(c.all, &node{
			id: id, addr: clients[i], program: d.Program, environ: d.Environ, log: filepath.Join(d.Dir, id+".log"),
			args: []string{"serve", "--id", id, "--listen", clients[i], "--peer-listen", peers[i],
				"--dir", filepath.Join(d.Dir, id), "--cluster", strings.Join(list, ",")},
			client: &client.Cluster{Addrs: clients[i : i+1], Name: "lockd-drill"},
		})
	}
	return c, nil
}

func (c *nodes) addrs() []string {
	var addrs []string
	for _, n := range c.all {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// client is one for any of the nodes.
func (c *nodes) client(name string) *client.Cluster {
	return &client.Cluster{Addrs: c.addrs(), Name: name}
}

func (c *nodes) alive() []*node {
	var alive []*node
	for _, n := range c.all {
		if n.cmd != nil {
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

// endedError says that a process ended that nobody has ended.
type endedError struct{ id, log string }

func (e endedError) Error() string {
	return e.id + " has ended by itself; its last words: " + e.log
}

// ended says which node that should run does not.
func (c *nodes) ended() error {
	for _, n := range c.alive() {
		select {
		case <-n.exited:
			return endedError{n.id, n.lastWords()}
		default:
		}
	}
	return nil
}

func (n *node) String() string { return fmt.Sprintf("%s (pid %d)", n.id, n.pid()) }

func (n *node) pid() int { return n.cmd.Process.Pid }

// start starts the process. Its input is that of this one, as that of a shell's command would be.
func (n *node) start() error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.program, n.args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = n.environ, os.Stdin, log, log
	if err := process.Start(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	n.cmd, n.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	return nil
}

// kill ends the process with SIGKILL, by its number, and waits until it is gone.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
	n.client.Close()
	n.cmd = nil
}

// lastWords are the last line of the log.
func (n *node) lastWords() string {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// ask asks one node until it answers. The question may be asked twice.
func (c *nodes) ask(ctx context.Context, n *node, args ...string) (r resp.Reply, err error) {
	err = c.await(ctx, n.id+" answers "+args[0], func(ctx context.Context) (err error) {
		r, err = n.client.Ask(ctx, args...)
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
			r, err := n.client.Ask(ctx, "INFO", "raft")
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
		r, err := n.client.Ask(ctx, "INFO", "raft")
		if err != nil {
			return err
		}
		if applied, _ := resp.ParseInt(infoField(r, "applied_index")); applied < mark || infoField(r, "ready") != "1" {
			return fmt.Errorf("it has applied entry %d of %d", applied, mark)
		}
		return nil
	})
}

// infoField is a field of what INFO has answered.
func infoField(r resp.Reply, name string) string {
	for line := range strings.Lines(r.Str) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func isUnknown(r resp.Reply) bool { return strings.HasPrefix(r.Str, "UNKNOWN") }
