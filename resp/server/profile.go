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
