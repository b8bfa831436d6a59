package server

import (
	"slices"

	"lockd/resp"
)

// Profile is the kind of server that clients take this one for: what it says of
// itself, and which rows its connections have. The Backend's rows must go with it.
type Profile struct {
	mode       string // of HELLO, and redis_mode of INFO
	role       string // of HELLO; "" where it has none
	databases  int    // that SELECT knows
	noDatabase string // the error of SELECT for any other
	rows       func() [][]row
}

// redisVersion is the version of Redis whose commands are all here. Clients
// choose what they send by it.
const redisVersion = "7.2.4"

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

// families are the connection's commands; each stands in the file of its name.
func families() [][]row {
	return [][]row{helloRows(), miscRows(), clientRows(), commandRows(), pubsubRows(), multiRows(),
		configRows(), slowlogRows(), latencyRows(), monitorRows()}
}

func (p *Profile) table() *resp.Table[action] { return resp.NewTable(p.rows()...) }

// sentinelRows keeps of families what a sentinel's clients find.
func sentinelRows(families [][]row) [][]row {
	for i := range families {
		families[i] = slices.DeleteFunc(families[i], func(r row) bool { return !r.Run.onSentinel })
	}
	return families
}

// databases is how many there are.
const databases = 16

func (p *Profile) parseDB(text string) (int, resp.Reply) {
	n, ok := resp.ParseInt(text)
	switch {
	case !ok:
		return 0, resp.Err(resp.ErrNotInteger)
	case n > 1<<31-1 || n < -1<<31:
		return 0, resp.Err("ERR value is out of range, value must between -2147483648 and 2147483647")
	case n < 0 || n >= int64(p.databases):
		return 0, resp.Err(p.noDatabase)
	}
	return int(n), resp.Reply{}
}
