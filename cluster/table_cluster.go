package cluster

import (
	"context"
	"net"
	"strconv"
	"strings"

	"lockd/cluster/face"
	"lockd/cluster/peer"
	"lockd/resp"
)

// clusterRows lists CLUSTER's rows. lockd is a cluster of one shard that holds all slots;
// its leader is the master. run has the last word on what a row does: outside this
// protocol every row answers that it is off, so clients know.
func clusterRows(run func(nodeCommand) nodeCommand) []resp.Row[nodeCommand] {
	const admin = resp.Admin | resp.Stale
	var subs []resp.Row[nodeCommand]
	add := func(name string, arity int, flags resp.Flags, since, summary, syntax string, c nodeCommand) {
		subs = append(subs, row("cluster|"+name, arity, flags, "cluster", since, summary, syntax, run(c)))
	}
	add("countkeysinslot", 3, resp.Stale, "3.0.0", "Return the number of local keys in the specified hash slot", "slot",
		here(cmdCountKeysInSlot))
	add("getkeysinslot", 4, resp.Stale, "3.0.0", "Return local key names in the specified hash slot", "slot count",
		here(cmdGetKeysInSlot))
	add("info", 2, resp.Stale, "3.0.0", "Provides info about Redis Cluster node state", "", here(cmdClusterInfo))
	add("keyslot", 3, resp.Stale, "3.0.0", "Returns the hash slot of the specified key", "key", here(cmdKeySlot))
	add("links", 2, resp.Stale, "7.0.0", "Returns a list of all TCP links to and from peer nodes in cluster", "",
		here(cmdClusterLinks))
	add("myid", 2, resp.Stale, "3.0.0", "Return the node id", "", here(cmdMyID))
	add("myshardid", 2, resp.Stale, "7.2.0", "Return the node shard id", "", here(cmdMyShardID))
	add("nodes", 2, resp.Stale, "3.0.0", "Get Cluster config for the node", "", here(cmdClusterNodes))
	add("replicas", 3, admin, "5.0.0", "List replica nodes of the specified master node", "node-id",
		here(cmdClusterReplicas))
	add("shards", 2, resp.Stale, "7.0.0", "Get array of cluster slots to node mappings", "", here(cmdClusterShards))
	add("slaves", 3, admin, "3.0.0", "List replica nodes of the specified master node", "node-id",
		here(cmdClusterReplicas))
	add("slots", 2, resp.Stale, "3.0.0", "Get array of Cluster slot to node mappings", "", here(cmdClusterSlots))
	add("count-failure-reports", 3, admin, "3.0.0", "Return the number of failure reports active for a given node",
		"node-id", here(cmdFailureReports))
	for _, c := range []struct {
		name   string
		arity  int
		syntax string
	}{
		{"addslots", -3, "slot [slot ...]"}, {"addslotsrange", -4, "start-slot end-slot [start-slot end-slot ...]"},
		{"bumpepoch", 2, ""},
		{"delslots", -3, "slot [slot ...]"}, {"delslotsrange", -4, "start-slot end-slot [start-slot end-slot ...]"},
		{"failover", -2, "[FORCE | TAKEOVER]"}, {"flushslots", 2, ""}, {"forget", 3, "node-id"},
		{"meet", -4, "ip port [cluster-bus-port]"},
		{"replicate", 3, "node-id"}, {"reset", -2, "[HARD | SOFT]"}, {"saveconfig", 2, ""},
		{"set-config-epoch", 3, "config-epoch"},
		{"setslot", -4, "slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>"},
	} {
		add(
			c.name, c.arity, admin, "3.0.0", "Refused: lockd replicates by itself.", c.syntax,
			always(resp.Err(face.NotByHand)),
		)
	}
	answer := func(r resp.Reply) nodeCommand { return run(always(r)) }
	return []resp.Row[nodeCommand]{resp.WithHelp("5.0.0", answer, resp.Row[nodeCommand]{
		Spec: resp.Spec{
			Name: "cluster", Arity: -2, Group: "cluster", Since: "3.0.0",
			Summary: "A container for Redis Cluster commands.",
		},
		Subs: subs,
	})}
}

// Redirect says where clients have to send commands with keys, host:port, where they
// are not served by any node: to the leader, or "" for here. While there is no
// leader the command waits here.
func (n *Node) Redirect(tls bool) string {
	s := n.topology.Current.Load()
	switch {
	case s.Vacant || s.LedBy(n.cfg.ID) || n.lead.Held():
		return ""
	case tls:
		return s.Master.OverTLS().Addr()
	}
	return s.Master.Addr()
}

func portNumber(text string) resp.Reply {
	port, _ := resp.ParseInt(text)
	return resp.Int(port)
}

func cmdClusterSlots(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	slots := []resp.Reply{resp.Int(0), resp.Int(resp.Slots - 1)}
	for _, p := range n.topology.Shard(ctx).InOrder(false) {
		slots = append(slots, resp.Array(resp.Bulk(p.Host), portNumber(p.Port), resp.Bulk(p.RunID), resp.Map()))
	}
	return resp.Array(resp.Array(slots...))
}

func cmdClusterShards(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	s := n.topology.Shard(ctx)
	var nodes []resp.Reply
	for _, p := range s.InOrder(true) {
		node := []resp.Reply{
			resp.Bulk("id"), resp.Bulk(p.RunID),
		}
		if p.Plain != "" {
			node = append(node, resp.Bulk("port"), portNumber(p.Plain))
		}
		if _, port, err := net.SplitHostPort(p.Tls); err == nil {
			node = append(node, resp.Bulk("tls-port"), portNumber(port))
		}
		node = append(node,
			resp.Bulk("ip"), resp.Bulk(p.Host),
			resp.Bulk("endpoint"), resp.Bulk(p.Host),
		)
		if net.ParseIP(p.Host) == nil {
			node = append(node, resp.Bulk("hostname"), resp.Bulk(p.Host))
		}
		role, health := "replica", "online"
		if p.RunID == s.MasterID {
			role = "master"
		} else if p.Down {
			health = "fail"
		}
		nodes = append(nodes, resp.Map(append(node,
			resp.Bulk("role"), resp.Bulk(role),
			resp.Bulk("replication-offset"), resp.Int(int64(n.topology.LastSeen(p.Id).Applied)),
			resp.Bulk("health"), resp.Bulk(health),
		)...))
	}
	return resp.Array(resp.Map(
		resp.Bulk("slots"), resp.Array(resp.Int(0), resp.Int(resp.Slots-1)),
		resp.Bulk("nodes"), resp.Array(nodes...),
	))
}

func cmdClusterNodes(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	s := n.topology.Shard(ctx)
	var b strings.Builder
	for _, p := range s.InOrder(true) {
		b.WriteString(n.topology.NodeLine(s, p) + "\n")
	}
	return resp.Verbatim(b.String())
}

func cmdClusterReplicas(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	s := n.topology.Shard(ctx)
	if s.Find(args[2]) == nil {
		return resp.Errf("ERR Unknown node %s", peer.OneLine(args[2], 128))
	}
	if args[2] != s.MasterID {
		return resp.Err("ERR The specified node is not a master")
	}
	var lines []string
	for _, p := range s.InOrder(true)[1:] {
		lines = append(lines, n.topology.NodeLine(s, p))
	}
	return resp.Bulks(lines...)
}

func cmdFailureReports(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	if n.topology.Shard(ctx).Find(args[2]) == nil {
		return resp.Errf("ERR Unknown node %s", peer.OneLine(args[2], 128))
	}
	return resp.Int(0) // nodes do not report each other: Raft decides
}

// cmdClusterInfo tells that the cluster fails only when requests do: a node holds
// them for LeaderWait.
func cmdClusterInfo(ctx context.Context, n *Node, _ resp.Args) resp.Reply {
	s := n.topology.Shard(ctx)
	state := "ok"
	if s.Failed {
		state = "fail"
	}
	var b strings.Builder
	for _, f := range face.Section("",
		"cluster_state", state,
		"cluster_slots_assigned", strconv.Itoa(resp.Slots),
		"cluster_slots_ok", strconv.Itoa(resp.Slots),
		"cluster_slots_pfail", "0",
		"cluster_slots_fail", "0",
		"cluster_known_nodes", strconv.Itoa(len(s.Nodes)),
		"cluster_size", "1",
		"cluster_current_epoch", face.U64(s.Term),
		"cluster_my_epoch", face.U64(s.Term),
		"cluster_stats_messages_sent", "0",
		"cluster_stats_messages_received", "0",
		"total_cluster_links_buffer_limit_exceeded", "0",
	).Fields {
		b.WriteString(f.Name + ":" + f.Value + "\r\n")
	}
	return resp.Verbatim(b.String())
}

func cmdMyID(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	return resp.Bulk(face.RunID("node", n.members.MemberOf(n.cfg.ID)))
}

func cmdMyShardID(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	return resp.Bulk(n.members.roster.Load().ReplicationID())
}

func cmdKeySlot(_ context.Context, _ *Node, args resp.Args) resp.Reply {
	return resp.Int(int64(resp.Slot(args[2])))
}

// cmdClusterLinks lists the two connections with each node that answers.
func cmdClusterLinks(_ context.Context, n *Node, _ resp.Args) resp.Reply {
	var links []resp.Reply
	for _, p := range n.topology.Current.Load().Nodes {
		if p.Id == n.cfg.ID || p.Down {
			continue
		}
		for _, direction := range []string{"to", "from"} {
			links = append(links, resp.Map(
				resp.Bulk("direction"), resp.Bulk(direction),
				resp.Bulk("node"), resp.Bulk(p.RunID),
				resp.Bulk("create-time"), resp.Int(n.topology.LastSeen(p.Id).Since),
				resp.Bulk("events"), resp.Bulk("r"),
				resp.Bulk("send-buffer-allocated"), resp.Int(0),
				resp.Bulk("send-buffer-used"), resp.Int(0),
			))
		}
	}
	return resp.Array(links...)
}

func cmdCountKeysInSlot(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	slot, err := face.Number(args[2])
	switch {
	case err != nil:
		return resp.Fail(err)
	case slot < 0 || slot >= resp.Slots:
		return resp.Err(resp.ErrInvalidSlot)
	}
	count := 0
	if err := keysInSlot(ctx, n, int(slot), func(keys []string) bool { count += len(keys); return true }); err != nil {
		return resp.Fail(err)
	}
	return resp.Int(int64(count))
}

func cmdGetKeysInSlot(ctx context.Context, n *Node, args resp.Args) resp.Reply {
	slot, err := face.Number(args[2])
	limit := int64(0)
	if err == nil {
		limit, err = face.Number(args[3])
	}
	switch {
	case err != nil:
		return resp.Fail(err)
	case slot < 0 || slot >= resp.Slots || limit < 0:
		return resp.Err("ERR Invalid slot or number of keys")
	}
	var keys []string
	more := func(found []string) bool {
		left := limit - int64(len(keys))
		keys = append(keys, found[:min(int64(len(found)), left)]...)
		return int64(len(keys)) < limit
	}
	if err := keysInSlot(ctx, n, int(slot), more); err != nil {
		return resp.Fail(err)
	}
	return resp.Bulks(keys...)
}

// keysInSlot calls visit with the keys of a slot, some at a time, until it returns false. Their state has every change
// that any node acknowledged before the call. lockd keeps no index of slots, so keysInSlot goes through all keys, in
// steps between which the node goes on.
func keysInSlot(ctx context.Context, n *Node, slot int, visit func(keys []string) bool) error {
	if err := n.catchUp(ctx); err != nil {
		return err
	}
	for cursor := uint64(0); ctx.Err() == nil; {
		keys, next := n.state.KeysInSlot(slot, cursor)
		if !visit(keys) || next == 0 {
			break
		}
		cursor = next
	}
	return nil
}
