package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/resp"
)

// nodeCommand is how a row of the node table runs.
type nodeCommand struct {
	run      func(context.Context, *Node, resp.Args) resp.Reply
	onLeader bool // forwarded to the leader
}

// protocol is what clients take the nodes for.
type protocol struct {
	rows    *resp.Table[nodeCommand]
	enabled string // cluster_enabled of INFO
	notDone string // the error after which clients send a command again
}

// The protocols, with the commands that are about the node or the cluster and not
// about data.
var (
	standalone = &protocol{
		rows: resp.NewTable(
			lockdRows,
			infoRows,
			clusterRows(func(nodeCommand) nodeCommand { return always(resp.Err(resp.ErrNotCluster)) }),
		),
		enabled: "0", notDone: resp.ErrNotDone,
	}
	redisCluster = &protocol{
		rows:    resp.NewTable(lockdRows, infoRows, clusterRows(func(c nodeCommand) nodeCommand { return c })),
		enabled: "1", notDone: resp.ErrClusterDown,
	}
)

func protocolOf(c *Config) *protocol {
	if c.ClusterProtocol {
		return redisCluster
	}
	return standalone
}

// row is a row of a table, from its parts in the order of Spec.
func row(
	name string, arity int, flags resp.Flags, group, since, summary, syntax string, run nodeCommand,
) resp.Row[nodeCommand] {
	return resp.Row[nodeCommand]{
		Spec: resp.Spec{
			Name: name, Arity: arity, Flags: flags, Group: group, Since: since, Summary: summary, Syntax: syntax,
		},
		Run: run,
	}
}

func here(run func(context.Context, *Node, resp.Args) resp.Reply) nodeCommand {
	return nodeCommand{run: run}
}

func onLeader(run func(context.Context, *Node, resp.Args) resp.Reply) nodeCommand {
	return nodeCommand{run: run, onLeader: true}
}

// always answers with the same reply.
func always(r resp.Reply) nodeCommand {
	return here(func(context.Context, *Node, resp.Args) resp.Reply { return r })
}

// number reads an integer argument of a command that has no other errors.
func number(s string) (int64, *resp.Reply) {
	n, ok := resp.ParseInt(s)
	if !ok {
		r := resp.Err(resp.ErrNotInteger)
		return 0, &r
	}
	return n, nil
}

const lockdGroup = "lockd"

// lockdRows are the commands about the cluster that are lockd's own.
var lockdRows = []resp.Row[nodeCommand]{
	resp.WithHelp("1.0.0", always, resp.Row[nodeCommand]{
		Spec: resp.Spec{
			Name: "lockd", Arity: -2, Group: lockdGroup, Since: "1.0.0",
			Summary: "A container for commands about the cluster.",
		},
		Subs: []resp.Row[nodeCommand]{
			row("lockd|members", 2, resp.Loading|resp.Stale, lockdGroup, "1.0.0",
				"Lists the members of the cluster as this node knows them.", "", here(cmdMembers)),
			row("lockd|add", 4, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Adds the node with this peer address as a member, and waits until it has a vote.", "id host:port",
				onLeader(cmdAdd)),
			row("lockd|remove", 3, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Removes a member for ever: its id is never used again.", "id", onLeader(cmdRemove)),
			row("lockd|transfer", -2, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Hands leadership to another voter.", "[id]", onLeader(cmdTransfer)),
			row("lockd|snapshot", 2, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Takes a snapshot on this node and trims its log.", "", here(cmdSave)),
			row("lockd|hash", 2, resp.Loading|resp.Stale, lockdGroup, "1.0.0",
				"Returns the index of the last log entry this node has applied, and the hash of its state.", "",
				here(cmdHash)),
		},
	}),
}

func cmdMembers(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	_, leader := n.raft.LeaderWithID()
	known := n.members.roster.Load().members
	var members []resp.Reply
	for _, m := range n.members.survey(ctx) {
		role, suffrage, state := "follower", "voter", "up"
		if m.ID == leader {
			role = "leader"
		}
		if m.Suffrage != raft.Voter {
			suffrage = "nonvoter"
		}
		if m.err != nil {
			state = "down"
		}
		members = append(members, resp.Map(
			resp.Bulk("id"), resp.Bulk(string(m.ID)),
			resp.Bulk("peer"), resp.Bulk(string(m.Address)),
			resp.Bulk("clients"), resp.Bulks(known[string(m.ID)].ClientAddrs...),
			resp.Bulk("role"), resp.Bulk(role),
			resp.Bulk("suffrage"), resp.Bulk(suffrage),
			resp.Bulk("state"), resp.Bulk(state),
			resp.Bulk("applied"), resp.Int(int64(m.Applied)),
		))
	}
	return resp.Array(members...)
}

func cmdAdd(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	return n.keeper.addMember(ctx, strings.Clone(args[2]), strings.Clone(args[3]))
}

func cmdRemove(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	return n.keeper.removeMember(ctx, strings.Clone(args[2]))
}

func cmdTransfer(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	if len(args) > 3 {
		return resp.WrongArity("lockd|transfer")
	}
	id := ""
	if len(args) == 3 {
		id = args[2]
	}
	if id == n.cfg.ID {
		return resp.OK()
	}
	if err := n.elections.handOver(ctx, id); err != nil {
		if errors.Is(err, raft.ErrNotLeader) {
			return resp.Err(resp.ErrNotDone)
		}
		return resp.Errf("ERR leadership stays at %s: %s", n.cfg.ID, peer.OneLine(err.Error(), 256))
	}
	return resp.OK()
}

func cmdHash(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	i := n.state.image(n.snapshots)
	hash, err := i.hash()
	if err != nil {
		return resp.Errf("ERR the state could not be hashed: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.Array(resp.Int(int64(i.applied)), resp.Bulk(hash))
}

// cmdSave is SAVE and LOCKD SNAPSHOT.
func cmdSave(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	if err := n.snapshots.save(ctx); err != nil {
		return resp.Errf("ERR no snapshot was taken: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.OK()
}

// commands are all that clients may send to this node: those about the node or the cluster, and the
// machine's. All methods may be called concurrently.
type commands struct {
	*protocol
	data interface { // the machine's
		Find(args resp.Args) (*resp.Spec, resp.Reply)
		Specs() []*resp.Spec
	}
}

// identify looks up the row of each command that has none yet: the request was made here, or it
// comes from another node. An unknown command keeps a nil Spec. A command of the node's own table
// that is called wrongly gets the Spec of its name.
func (k *commands) identify(cmds []resp.Cmd) {
	for i := range cmds {
		c := &cmds[i]
		if c.Spec != nil {
			continue
		}
		if row, _ := k.rows.Find(c.Args); row != nil {
			c.Spec = &row.Spec
		} else if c.Spec = k.rows.Lookup(c.Args[0]); c.Spec == nil {
			c.Spec, _ = k.data.Find(c.Args)
		}
	}
}

// own is the row of a command about the node; nil for a command on data.
func (k *commands) own(c *resp.Cmd) *resp.Row[nodeCommand] { return k.rows.Row(c.Spec) }

// unfit returns the error of the first command that the machine does not know, or does not take
// with so many arguments; false if there is none. The log must not hold such a command: a node that
// finds one there can only stop. The other commands have their Spec afterwards.
func (k *commands) unfit(req resp.Request) (fail resp.Reply, found bool) {
	for i := range req.Cmds {
		c := &req.Cmds[i]
		if c.Spec != nil && k.own(c) == nil {
			continue // it was found and checked when it came
		}
		if c.Spec, fail = k.data.Find(c.Args); c.Spec == nil {
			return fail, true
		}
	}
	return resp.Reply{}, false
}

// isOwn reports whether a request is a command about the node, which is then its only one.
func (k *commands) isOwn(req *resp.Request) bool {
	return len(req.Cmds) > 0 && k.own(&req.Cmds[0]) != nil
}

// Specs lists the rows of all commands that the cluster knows.
func (n *Node) Specs() []*resp.Spec {
	return slices.Concat(n.commands.rows.Specs(), n.commands.data.Specs())
}

// doOwn runs a command about the node, on the leader if that must run it.
func (n *Node) doOwn(ctx context.Context, c resp.Cmd) resp.Reply {
	if !n.commands.own(&c).Run.onLeader {
		return n.runOwn(ctx, c)
	}
	req := resp.Request{Cmds: []resp.Cmd{c}}
	return n.router.run(ctx, req).Replies[0]
}

func (n *Node) runOwn(ctx context.Context, c resp.Cmd) resp.Reply {
	if leaf, fail := c.Spec.Check(c.Args); leaf == nil {
		return fail
	}
	return n.commands.own(&c).Run.run(ctx, n, c.Args)
}
