package server

import (
	"slices"

	"lockd/resp"
)

// The profiles.
var (
	// Standalone is a Redis on its own. Its role is always master, as any node serves
	// any command.
	Standalone = &Profile{
		mode: "standalone", role: "master", databases: databases, noDatabase: resp.ErrDBIndex,
		rows: func() [][]row { return append(families(), clusterRows(notCluster, notCluster, notCluster)) },
	}
	// Cluster is a node of a Redis Cluster, which has one database.
	Cluster = &Profile{
		mode: "cluster", role: "master", databases: 1, noDatabase: resp.ErrNotInCluster,
		rows: func() [][]row { return append(families(), clusterRows(readOnly, readWrite, asking)) },
	}
	// Sentinel is a Redis Sentinel: its connections have few commands.
	Sentinel = &Profile{
		mode: "sentinel", databases: 1, noDatabase: resp.ErrDBIndex,
		rows: func() [][]row { return sentinelRows(families()) },
	}
)

// families are the connection's commands, each family from its conn_*.go. clientRows includes those of tracking and
// pauses.
func families() [][]row {
	return [][]row{connectionRows(), clientRows(), commandRows(), pubsubRows(), multiRows(),
		configRows(), aclRows(), slowlogRows(), latencyRows(), monitorRows()}
}

func (p *Profile) table() *resp.Table[action] { return resp.NewTable(p.rows()...) }

// sentinelRows keeps the rows that a sentinel's clients have.
func sentinelRows(families [][]row) [][]row {
	for i := range families {
		families[i] = slices.DeleteFunc(families[i], func(r row) bool { return !r.Run.onSentinel })
	}
	return families
}

// clusterRows are the commands that a client of Redis Cluster sends to the node of its connection.
func clusterRows(readOnly, readWrite, asking func(*session, resp.Args) resp.Reply) []row {
	return []row{
		{Spec: resp.Spec{Name: "readonly", Arity: 1, Flags: basic, Group: "cluster", Since: "3.0.0",
			Summary: "Enables read queries for a connection to a cluster replica node"}, Run: action{run: readOnly}},
		{Spec: resp.Spec{Name: "readwrite", Arity: 1, Flags: basic, Group: "cluster", Since: "3.0.0",
			Summary: "Disables read queries for a connection to a cluster replica node"}, Run: action{run: readWrite}},
		{Spec: resp.Spec{Name: "asking", Arity: 1, Flags: resp.Fast, Group: "cluster", Since: "3.0.0",
			Summary: "Sent by cluster clients after an -ASK redirect"}, Run: action{run: asking}},
	}
}

func notCluster(*session, resp.Args) resp.Reply { return resp.Err(resp.ErrNotCluster) }

func readOnly(s *session, _ resp.Args) resp.Reply {
	s.readOnly.Store(true)
	return resp.OK()
}

func readWrite(s *session, _ resp.Args) resp.Reply {
	s.readOnly.Store(false)
	return resp.OK()
}

// asking does nothing: no slot ever migrates, so no client of lockd is answered -ASK.
func asking(*session, resp.Args) resp.Reply { return resp.OK() }
