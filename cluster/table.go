package cluster

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"lockd/cluster/face"
	"lockd/cluster/peer"
	"lockd/cluster/refound"
	"lockd/resp"
)

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

const lockdGroup = "lockd"

// lockdRows lists the commands about the cluster that are lockd's own.
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
			row("lockd|level", -2, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Returns the level in force and those that each member can do, or has the next one in force.", "[level]",
				onLeader(cmdLevel)),
			row("lockd|snapshot", 2, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Takes a snapshot on this node and trims its log.", "", here(cmdSave)),
			row("lockd|index", 2, resp.Admin|resp.NoScript, lockdGroup, "1.0.0",
				"Returns the index of a log entry by which all is done that was acknowledged before.", "",
				here(cmdIndex)),
			row("lockd|backup", -2, resp.Admin|resp.NoScript|resp.NoMulti, lockdGroup, "1.0.0",
				"Begins a backup on this node and returns its id, or returns a piece of it.", "[id offset]",
				here(cmdBackup)),
			row("lockd|hash", 2, resp.Loading|resp.Stale, lockdGroup, "1.0.0",
				"Returns the index of the last log entry this node has applied, and the hash of its state.", "",
				here(cmdHash)),
		},
	}),
}

func cmdMembers(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	_, leader := n.raft.LeaderWithID()
	known := n.members.roster.Load().Members
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
		who, _ := n.members.identityOf(string(m.ID)) // nothing, if it has not been met since this node was started
		members = append(members, resp.Map(
			resp.Bulk("id"), resp.Bulk(string(m.ID)),
			resp.Bulk("peer"), resp.Bulk(string(m.Address)),
			resp.Bulk("clients"), resp.Bulks(known[string(m.ID)].ClientAddrs...),
			resp.Bulk("role"), resp.Bulk(role),
			resp.Bulk("suffrage"), resp.Bulk(suffrage),
			resp.Bulk("state"), resp.Bulk(state),
			resp.Bulk("applied"), resp.Int(int64(m.Applied)),
			resp.Bulk("level"), resp.Int(int64(n.members.level())),
			resp.Bulk("lowest"), resp.Int(int64(who.Lowest)),
			resp.Bulk("highest"), resp.Int(int64(who.Highest)),
			resp.Bulk("version"), resp.Bulk(who.Version),
		))
	}
	return resp.Array(members...)
}

func cmdAdd(ctx context.Context, n *Node, args resp.Args) (peer.Outcome, resp.Reply) {
	return n.keeper.addMember(ctx, strings.Clone(args[2]), strings.Clone(args[3]))
}

func cmdRemove(ctx context.Context, n *Node, args resp.Args) (peer.Outcome, resp.Reply) {
	return n.keeper.removeMember(ctx, strings.Clone(args[2]))
}

func cmdTransfer(ctx context.Context, n *Node, args resp.Args) (peer.Outcome, resp.Reply) {
	if len(args) > 3 {
		return settled(resp.WrongArity("lockd|transfer"))
	}
	id := ""
	if len(args) == 3 {
		id = args[2]
	}
	if id == n.cfg.ID {
		return settled(resp.OK())
	}
	err := n.elections.handOver(ctx, id)
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return peer.NotDone, resp.Reply{}
	case err != nil:
		return settled(resp.Errf("ERR leadership stays at %s: %s", n.cfg.ID, peer.OneLine(err.Error(), 256)))
	}
	return settled(resp.OK())
}

func cmdLevel(ctx context.Context, n *Node, args resp.Args) (peer.Outcome, resp.Reply) {
	switch len(args) {
	case 2:
		return settled(levelsReply(ctx, n.members))
	case 3:
		level, err := face.Number(args[2])
		if err != nil {
			return settled(resp.Fail(err))
		}
		return n.keeper.setLevel(ctx, level)
	}
	return settled(resp.WrongArity("lockd|level"))
}

func cmdHash(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	i := n.state.Image()
	hash, err := i.Hash()
	if err != nil {
		return resp.Errf("ERR the state could not be hashed: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.Array(resp.Int(int64(i.Applied)), resp.Bulk(hash))
}

// Specs lists the rows of all commands that the cluster knows.
func (n *Node) Specs() []*resp.Spec {
	return slices.Concat(n.commands.rows.Specs(), n.commands.data.Specs())
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
	id, err := n.backups.Begin(func(w io.Writer) error { return refound.WriteBackup(w, head, i) })
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
	chunk, err := n.backups.Read(ctx, args[2], offset)
	if err != nil {
		return resp.Errf("ERR no backup: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.Bulk(string(chunk))
}

func cmdIndex(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	index, ok := n.requests.ConfirmedIndex(ctx)
	if !ok {
		return resp.Err(n.commands.notDone)
	}
	return resp.Int(int64(index))
}
