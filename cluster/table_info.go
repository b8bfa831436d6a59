package cluster

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/resp"
)

const (
	notByHand  = "ERR lockd replicates by itself: see LOCKD HELP for adding, removing and changing the leader"
	readFlags  = resp.Loading | resp.Stale
	adminFlags = resp.Admin | resp.NoScript
)

// infoRows are Redis's commands about a server and its replication.
var infoRows = []resp.Row[nodeCommand]{
	row("info", -1, readFlags, "server", "1.0.0",
		"Returns information and statistics about the server.", "[section [section ...]]", here(cmdInfo)),
	row("role", 1, resp.NoScript|readFlags|resp.Fast, "server", "2.8.12",
		"Returns the replication role.", "", here(cmdRole)),
	row("wait", 3, resp.NoScript, "generic", "3.0.0",
		"Blocks until the asynchronous replication of all preceding write commands sent by the connection is "+
			"completed.",
		"numreplicas timeout", here(cmdWait)),
	row("waitaof", 4, resp.NoScript, "generic", "7.2.0",
		"Blocks until all of the preceding write commands sent by the connection are written to the append-only "+
			"file of the master and/or replicas.",
		"numlocal numreplicas timeout", here(cmdWaitAOF)),
	row("lastsave", 1, readFlags|resp.Fast, "server", "1.0.0",
		"Returns the Unix timestamp of the last successful save to disk.", "", here(cmdLastSave)),
	row("save", 1, adminFlags|resp.NoMulti, "server", "1.0.0",
		"Synchronously saves the database(s) to disk.", "", here(cmdSave)),
	row("bgsave", -1, adminFlags, "server", "1.0.0",
		"Asynchronously saves the database(s) to disk.", "[SCHEDULE]", here(cmdBGSave)),
	row("replicaof", 3, adminFlags|resp.Stale, "server", "5.0.0",
		"Refused: lockd replicates by itself.", "host port", always(resp.Err(notByHand))),
	row("slaveof", 3, adminFlags|resp.Stale, "server", "1.0.0",
		"Refused: lockd replicates by itself.", "host port", always(resp.Err(notByHand))),
	row("failover", -1, adminFlags|resp.Stale, "server", "6.2.0",
		"Refused: see LOCKD TRANSFER.", "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
		always(resp.Err(notByHand))),
}

// cmdWait answers at once: a reply to a write already means that a majority has it
// on its disks.
func cmdWait(_ context.Context, n *Node, args resp.Args) resp.Reply {
	want, err := number(args[1])
	if err == nil {
		err = checkTimeout(args[2])
	}
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(min(max(want, 0), n.raft.Others()))
}

func cmdWaitAOF(_ context.Context, n *Node, args resp.Args) resp.Reply {
	local, err := number(args[1])
	if err == nil && (local < 0 || local > 1) {
		return resp.Err("ERR value is out of range, value must between 0 and 1")
	}
	want := int64(0)
	if err == nil {
		want, err = number(args[2])
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
	return resp.Int(n.snapshots.lastSave.Load())
}

// cmdSave is SAVE and LOCKD SNAPSHOT.
func cmdSave(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	if err := n.snapshots.save(ctx); err != nil {
		return resp.Errf("ERR no snapshot was taken: %s", peer.OneLine(err.Error(), 256))
	}
	return resp.OK()
}

func cmdBGSave(_ context.Context, n *Node, args resp.Args) resp.Reply {
	if len(args) > 2 || len(args) == 2 && !resp.Is(args[1], "SCHEDULE") {
		return resp.Err(resp.ErrSyntax)
	}
	n.snapshots.ask()
	return resp.Status("Background saving started")
}

func cmdRole(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	applied := int64(n.state.appliedNow.Load())
	if n.lead.Held() {
		var replicas []resp.Reply
		for _, v := range n.raft.Voters() {
			if string(v.ID) != n.cfg.ID {
				host, port := n.members.clientHostPort(v)
				replicas = append(replicas, resp.Bulks(host, port, u64(n.offsetOf(v.ID))))
			}
		}
		return resp.Array(resp.Bulk("master"), resp.Int(applied), resp.Array(replicas...))
	}
	host, port, link := n.topology.leaderHostPort()
	portNumber, _ := resp.ParseInt(port)
	state := "connected"
	if link == "down" {
		state = "connect"
	}
	return resp.Array(resp.Bulk("slave"), resp.Bulk(host), resp.Int(portNumber), resp.Bulk(state), resp.Int(applied))
}

// offsetOf is how far a member is known to have the log of this node, which leads: no
// further than what this node has applied, which is its own offset.
func (n *Node) offsetOf(id raft.ServerID) uint64 {
	return min(n.announcer.Has(id), n.state.appliedNow.Load())
}

// sectionOrder is the order in which INFO lists its sections, and which of them
// belong to the default set.
var sectionOrder = []struct {
	name      string
	byDefault bool
}{
	{"server", true}, {"clients", true}, {"memory", true}, {"persistence", true}, {"stats", true},
	{"replication", true}, {"cpu", true}, {"modules", true}, {"commandstats", false}, {"errorstats", true},
	{"latencystats", false}, {"sentinel", true}, {"cluster", true}, {"keyspace", true}, {"raft", true},
	{"tls", true},
}

func cmdInfo(_ context.Context, n *Node, args resp.Args) resp.Reply {
	return infoReply(args, n.sections())
}

// infoReply lists the sections asked for, in their order.
func infoReply(args resp.Args, sections []resp.Section) resp.Reply {
	wanted := map[string]bool{}
	for _, a := range args[1:] {
		wanted[strings.ToLower(a)] = true
	}
	if len(args) == 1 {
		wanted["default"] = true
	}
	var out strings.Builder
	for _, o := range sectionOrder {
		all := wanted["all"] || wanted["everything"] || wanted["default"] && o.byDefault
		if all || wanted[o.name] {
			writeSections(&out, o.name, sections)
		}
	}
	return resp.Verbatim(out.String())
}

// writeSections writes everything that anybody knows for one section.
func writeSections(out *strings.Builder, name string, sections []resp.Section) {
	begun := false
	for _, s := range sections {
		if !strings.EqualFold(s.Name, name) {
			continue
		}
		if !begun {
			if out.Len() > 0 {
				out.WriteString("\r\n")
			}
			out.WriteString("# " + s.Name + "\r\n")
			begun = true
		}
		for _, f := range s.Fields {
			out.WriteString(f.Name + ":" + f.Value + "\r\n")
		}
	}
}

// sections gathers what the server, the machine and the cluster know.
func (n *Node) sections() []resp.Section {
	// The machine comes first: tools such as redis-cli --stat take the first field
	// whose name begins with used_memory, which in Redis is used_memory itself.
	all := n.state.info()
	if n.cfg.Info != nil {
		all = append(all, n.cfg.Info()...)
	}
	return append(
		all,
		infoPersistence(n.snapshots),
		n.infoReplication(),
		section("Cluster", "cluster_enabled", n.commands.enabled),
		n.infoRaft(),
	)
}

func infoPersistence(s *snapshots) resp.Section {
	return section("Persistence",
		"loading", "0",
		"async_loading", "0",
		"rdb_changes_since_last_save", u64(s.grownEntries.Load()),
		"rdb_bgsave_in_progress", flag(s.saving.Load()),
		"rdb_last_save_time", i64(s.lastSave.Load()),
		"rdb_last_bgsave_status", okOr(s.saveOK.Load()),
		"rdb_last_bgsave_time_sec", "-1",
		"rdb_current_bgsave_time_sec", "-1",
		"aof_enabled", "1",
		"aof_rewrite_in_progress", "0",
		"aof_rewrite_scheduled", "0",
		"aof_last_rewrite_time_sec", "-1",
		"aof_current_rewrite_time_sec", "-1",
		"aof_last_bgrewrite_status", "ok",
		"aof_last_write_status", "ok",
		"aof_current_size", u64(s.grownBytes.Load()),
	)
}

func (n *Node) infoReplication() resp.Section {
	applied := u64(n.state.appliedNow.Load())
	s := section("Replication")
	add := func(name, value string) { s.Fields = append(s.Fields, resp.Field{Name: name, Value: value}) }
	if n.lead.Held() {
		add("role", "master")
		add("connected_slaves", i64(n.raft.Others()))
		i := 0
		for _, v := range n.raft.Voters() {
			if string(v.ID) == n.cfg.ID {
				continue
			}
			host, port := n.members.clientHostPort(v)
			state, silent := "online", n.contacts.Silent(v.ID)
			if silent > downAfter {
				state = "offline"
			}
			add("slave"+strconv.Itoa(i), "ip="+host+",port="+port+",state="+state+
				",offset="+u64(n.offsetOf(v.ID))+",lag="+i64(int64(silent/time.Second)))
			i++
		}
	} else {
		host, port, link := n.topology.leaderHostPort()
		add("role", "slave")
		add("master_host", host)
		add("master_port", port)
		add("master_link_status", link)
		add("master_last_io_seconds_ago", i64(int64(n.leaderWatch.silence().Seconds())))
		add("master_sync_in_progress", "0")
		add("slave_read_repl_offset", applied)
		add("slave_repl_offset", applied)
		add("slave_priority", "100")
		add("slave_read_only", "0")
		add("replica_announced", "1")
		add("connected_slaves", i64(n.raft.Others()))
	}
	add("master_failover_state", "no-failover")
	add("master_replid", n.members.roster.Load().ReplicationID())
	add("master_replid2", strings.Repeat("0", 40))
	add("master_repl_offset", applied)
	add("second_repl_offset", "-1")
	add("repl_backlog_active", "1")
	add("repl_backlog_size", u64(n.cfg.SnapshotBytes))
	add("repl_backlog_first_byte_offset", "1")
	add("repl_backlog_histlen", applied)
	return s
}

// raftFields are the figures of Raft that INFO shows.
var raftFields = []string{
	"state", "term", "last_log_index", "last_log_term", "commit_index", "applied_index",
	"last_snapshot_index", "last_snapshot_term", "last_contact", "num_peers",
}

func (n *Node) infoRaft() resp.Section {
	cluster := n.members.identity().Cluster
	s := section("Raft", "node_id", n.cfg.ID, "cluster_id", cluster, "lockd_release", n.cfg.Version,
		"lockd_level", strconv.Itoa(n.members.level()), "lockd_level_highest", strconv.Itoa(n.members.highest))
	_, leader := n.raft.LeaderWithID()
	stats := n.raft.Stats()
	add := func(name, value string) { s.Fields = append(s.Fields, resp.Field{Name: name, Value: value}) }
	add("leader_id", string(leader))
	for _, name := range raftFields {
		add(name, strings.ToLower(stats[name]))
	}
	add("machine_index", u64(n.state.appliedNow.Load()))
	var ids []string
	for _, m := range n.raft.Servers() {
		ids = append(ids, string(m.ID))
	}
	slices.Sort(ids)
	add("members", strings.Join(ids, ","))
	if ahead, _, known := n.members.clocks.Offset(); known {
		add("clock_offset_ms", i64(ahead.Milliseconds()))
	}
	if lead := n.lead.Load(); lead != nil {
		add("clock_ahead_ms", i64(lead.Wall.Ahead().Milliseconds()))
	}
	s.Fields = append(s.Fields, n.readyFields()...)
	return s
}

// section makes a section from names and values in turn.
func section(name string, pairs ...string) resp.Section {
	s := resp.Section{Name: name}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.Fields = append(s.Fields, resp.Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return s
}

func u64(n uint64) string { return strconv.FormatUint(n, 10) }
func i64(n int64) string  { return strconv.FormatInt(n, 10) }

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

func okOr(ok bool) string {
	if ok {
		return "ok"
	}
	return "err"
}
