package cluster

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/face"
	"lockd/cluster/peer"
	"lockd/cluster/snapshot"
	"lockd/resp"
)

const (
	adminFlags = resp.Admin | resp.NoScript
)

// infoRows lists Redis's commands about a server and its replication.
var infoRows = []resp.Row[nodeCommand]{
	row("info", -1, face.ReadFlags, "server", "1.0.0",
		"Returns information and statistics about the server.", "[section [section ...]]", here(cmdInfo)),
	row("role", 1, resp.NoScript|face.ReadFlags|resp.Fast, "server", "2.8.12",
		"Returns the replication role.", "", here(cmdRole)),
	row("wait", 3, resp.NoScript, "generic", "3.0.0",
		"Blocks until the asynchronous replication of all preceding write commands sent by the connection is "+
			"completed.",
		"numreplicas timeout", here(cmdWait)),
	row("waitaof", 4, resp.NoScript, "generic", "7.2.0",
		"Blocks until all of the preceding write commands sent by the connection are written to the append-only "+
			"file of the master and/or replicas.",
		"numlocal numreplicas timeout", here(cmdWaitAOF)),
	row("lastsave", 1, face.ReadFlags|resp.Fast, "server", "1.0.0",
		"Returns the Unix timestamp of the last successful save to disk.", "", here(cmdLastSave)),
	row("save", 1, adminFlags|resp.NoMulti, "server", "1.0.0",
		"Synchronously saves the database(s) to disk.", "", here(cmdSave)),
	row("bgsave", -1, adminFlags, "server", "1.0.0",
		"Asynchronously saves the database(s) to disk.", "[SCHEDULE]", here(cmdBGSave)),
	row("replicaof", 3, adminFlags|resp.Stale, "server", "5.0.0",
		"Refused: lockd replicates by itself.", "host port", always(resp.Err(face.NotByHand))),
	row("slaveof", 3, adminFlags|resp.Stale, "server", "1.0.0",
		"Refused: lockd replicates by itself.", "host port", always(resp.Err(face.NotByHand))),
	row("failover", -1, adminFlags|resp.Stale, "server", "6.2.0",
		"Refused: see LOCKD TRANSFER.", "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
		always(resp.Err(face.NotByHand))),
}

// cmdWait answers at once: a reply to a write already means that a majority has it
// on its disks.
func cmdWait(_ context.Context, n *Node, args resp.Args) resp.Reply {
	want, err := face.Number(args[1])
	if err == nil {
		err = checkTimeout(args[2])
	}
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(min(max(want, 0), n.raft.Others()))
}

func cmdWaitAOF(_ context.Context, n *Node, args resp.Args) resp.Reply {
	local, err := face.Number(args[1])
	if err == nil && (local < 0 || local > 1) {
		return resp.Err("ERR value is out of range, value must between 0 and 1")
	}
	want := int64(0)
	if err == nil {
		want, err = face.Number(args[2])
	}
	if err == nil && want < 0 {
		return resp.Err("ERR value is out of range, must be positive")
	}
	if err == nil {
		err = checkTimeout(args[3])
	}
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Array(resp.Int(local), resp.Int(min(want, n.raft.Others())))
}

func checkTimeout(s string) error {
	ms, ok := resp.ParseInt(s)
	switch {
	case !ok:
		return resp.Error("ERR timeout is not an integer or out of range")
	case ms < 0:
		return resp.Error("ERR timeout is negative")
	}
	return nil
}

func cmdLastSave(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	return resp.Int(n.snapshots.LastSave.Load())
}

// cmdSave runs SAVE and LOCKD SNAPSHOT.
func cmdSave(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	if err := n.snapshots.Save(ctx); err != nil {
		return resp.Errf("ERR no snapshot was taken: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.OK()
}

func cmdBGSave(_ context.Context, n *Node, args resp.Args) resp.Reply {
	if len(args) > 2 || len(args) == 2 && !resp.Is(args[1], "SCHEDULE") {
		return resp.Err(resp.ErrSyntax)
	}
	n.snapshots.Ask()
	return resp.Status("Background saving started")
}

func cmdRole(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	applied := int64(n.state.Applied.Load())
	if n.lead.Held() {
		var replicas []resp.Reply
		for _, v := range n.raft.Voters() {
			if string(v.ID) != n.cfg.ID {
				host, port := n.members.ClientHostPort(v)
				replicas = append(replicas, resp.Bulks(host, port, face.U64(offsetOf(n, v.ID))))
			}
		}
		return resp.Array(resp.Bulk("master"), resp.Int(applied), resp.Array(replicas...))
	}
	host, port, link := n.topology.LeaderHostPort()
	portNumber, _ := resp.ParseInt(port)
	state := "connected"
	if link == "down" {
		state = "connect"
	}
	return resp.Array(resp.Bulk("slave"), resp.Bulk(host), resp.Int(portNumber), resp.Bulk(state), resp.Int(applied))
}

// offsetOf returns up to which entry a member is known to have the log of this node, which leads: no
// further than what this node has applied, which is its own offset.
func offsetOf(n *Node, id raft.ServerID) uint64 {
	return min(n.announcer.Has(id), n.state.Applied.Load())
}

func cmdInfo(_ context.Context, n *Node, args resp.Args) resp.Reply {
	return face.InfoReply(args, sections(n))
}

// sections gathers what the server, the machine and the cluster know.
func sections(n *Node) []resp.Section {
	// The machine comes first: tools such as redis-cli --stat take the first field
	// whose name begins with used_memory, which in Redis is used_memory itself.
	all := n.state.Info()
	if n.cfg.Info != nil {
		all = append(all, n.cfg.Info()...)
	}
	return append(
		all,
		infoPersistence(n.snapshots),
		infoReplication(n),
		face.Section("Cluster", "cluster_enabled", n.commands.enabled),
		infoRaft(n),
	)
}

func infoPersistence(s *snapshot.Snapshots) resp.Section {
	return face.Section("Persistence",
		"loading", "0",
		"async_loading", "0",
		"rdb_changes_since_last_save", face.U64(s.GrownEntries.Load()),
		"rdb_bgsave_in_progress", face.Flag(s.Saving.Load()),
		"rdb_last_save_time", face.I64(s.LastSave.Load()),
		"rdb_last_bgsave_status", face.OKOr(s.SaveOK.Load()),
		"rdb_last_bgsave_time_sec", "-1",
		"rdb_current_bgsave_time_sec", "-1",
		"aof_enabled", "1",
		"aof_rewrite_in_progress", "0",
		"aof_rewrite_scheduled", "0",
		"aof_last_rewrite_time_sec", "-1",
		"aof_current_rewrite_time_sec", "-1",
		"aof_last_bgrewrite_status", "ok",
		"aof_last_write_status", "ok",
		"aof_current_size", face.U64(s.GrownBytes.Load()),
	)
}

func infoReplication(n *Node) resp.Section {
	applied := face.U64(n.state.Applied.Load())
	s := face.Section("Replication")
	add := func(name, value string) { s.Fields = append(s.Fields, resp.Field{Name: name, Value: value}) }
	if n.lead.Held() {
		add("role", "master")
		add("connected_slaves", face.I64(n.raft.Others()))
		i := 0
		for _, v := range n.raft.Voters() {
			if string(v.ID) == n.cfg.ID {
				continue
			}
			host, port := n.members.ClientHostPort(v)
			state, silent := "online", n.contacts.Silent(v.ID)
			if silent > face.DownAfter {
				state = "offline"
			}
			add("slave"+strconv.Itoa(i), "ip="+host+",port="+port+",state="+state+
				",offset="+face.U64(offsetOf(n, v.ID))+",lag="+face.I64(int64(silent/time.Second)))
			i++
		}
	} else {
		host, port, link := n.topology.LeaderHostPort()
		add("role", "slave")
		add("master_host", host)
		add("master_port", port)
		add("master_link_status", link)
		add("master_last_io_seconds_ago", face.I64(int64(n.leaderWatch.silence().Seconds())))
		add("master_sync_in_progress", "0")
		add("slave_read_repl_offset", applied)
		add("slave_repl_offset", applied)
		add("slave_priority", "100")
		add("slave_read_only", "0")
		add("replica_announced", "1")
		add("connected_slaves", face.I64(n.raft.Others()))
	}
	add("master_failover_state", "no-failover")
	add("master_replid", n.members.roster.Load().ReplicationID())
	add("master_replid2", strings.Repeat("0", 40))
	add("master_repl_offset", applied)
	add("second_repl_offset", "-1")
	add("repl_backlog_active", "1")
	add("repl_backlog_size", face.U64(n.cfg.SnapshotBytes))
	add("repl_backlog_first_byte_offset", "1")
	add("repl_backlog_histlen", applied)
	return s
}

// raftFields lists the figures of Raft that INFO shows.
var raftFields = []string{
	"state", "term", "last_log_index", "last_log_term", "commit_index", "applied_index",
	"last_snapshot_index", "last_snapshot_term", "last_contact", "num_peers",
}

func infoRaft(n *Node) resp.Section {
	cluster := n.members.identity().Cluster
	s := face.Section("Raft", "node_id", n.cfg.ID, "cluster_id", cluster, "lockd_release", n.cfg.Version,
		"lockd_level", strconv.Itoa(n.members.level()), "lockd_level_highest", strconv.Itoa(n.members.highest))
	_, leader := n.raft.LeaderWithID()
	stats := n.raft.Stats()
	add := func(name, value string) { s.Fields = append(s.Fields, resp.Field{Name: name, Value: value}) }
	add("leader_id", string(leader))
	for _, name := range raftFields {
		add(name, strings.ToLower(stats[name]))
	}
	add("machine_index", face.U64(n.state.Applied.Load()))
	var ids []string
	for _, m := range n.raft.Servers() {
		ids = append(ids, string(m.ID))
	}
	slices.Sort(ids)
	add("members", strings.Join(ids, ","))
	if ahead, _, known := n.members.clocks.Offset(); known {
		add("clock_offset_ms", face.I64(ahead.Milliseconds()))
	}
	if lead := n.lead.Load(); lead != nil {
		add("clock_ahead_ms", face.I64(lead.Wall.Ahead().Milliseconds()))
	}
	s.Fields = append(s.Fields, readyFields(n.Ready())...)
	return s
}
