package keyspace

import (
	"strings"

	"lockd/resp"
)

// table holds the rows of all families.
var table *resp.Table[command]

// A new family of commands is joined here. It is done in init, not where table is declared,
// because EVAL's own row leads back to it: a script finds its commands there.
func init() {
	table = resp.NewTable(
		stringRows, compareRows, hashRows, listRows, setRows, zsetRows, zsetRangeRows, zsetOpRows,
		streamRows, streamReadRows, keyRows, blockRows, lockRows, locksRows, scriptRows, pubsubRows, serverRows, memoryRows, functionRows, aclRows)
	for level := LevelLowest; level <= Level; level++ {
		languages[level] = languageOf(level)
	}
}

// Find looks up the row of a command; see cluster.Machine.
func (m *Machine) Find(args resp.Args) (*resp.Spec, resp.Reply) {
	row, fail := table.Find(args)
	if row == nil {
		return nil, fail
	}
	return &row.Spec, resp.Reply{}
}

// Specs lists the rows of all commands.
func (m *Machine) Specs() []*resp.Spec { return table.Specs() }

// elsewhere are the commands that connections and nodes have, with their arities: a script
// that calls one is told that it may not. The list is fixed, because what a script is
// answered may not depend on how its node was started; a test of cmd/lockd compares it
// with the tables it stands for.
var elsewhere = resp.NewTable(elsewhereRows(elsewhereList))

const elsewhereList = `
asking:1 auth:-2 bgsave:-1
client:-2 client|caching:3 client|getname:2 client|getredir:2 client|help:2 client|id:2 client|info:2 client|kill:-3
client|list:-2
client|no-evict:3 client|no-touch:3 client|pause:-3 client|reply:3 client|setinfo:4 client|setname:3 client|tracking:-3
client|trackinginfo:2 client|unblock:-3 client|unpause:2
cluster:-2 cluster|addslots:-3 cluster|addslotsrange:-4 cluster|bumpepoch:2 cluster|count-failure-reports:3
cluster|countkeysinslot:3
cluster|delslots:-3 cluster|delslotsrange:-4 cluster|failover:-2 cluster|flushslots:2 cluster|forget:3
cluster|getkeysinslot:4
cluster|help:2 cluster|info:2 cluster|keyslot:3 cluster|links:2 cluster|meet:-4 cluster|myid:2 cluster|myshardid:2
cluster|nodes:2
cluster|replicas:3 cluster|replicate:3 cluster|reset:-2 cluster|saveconfig:2 cluster|set-config-epoch:3
cluster|setslot:-4
cluster|shards:2 cluster|slaves:3 cluster|slots:2
command:-1 command|count:2 command|docs:-2 command|getkeys:-4 command|getkeysandflags:-4 command|help:2 command|info:-2
command|list:-2
debug:-2 discard:1 exec:1 failover:-1 hello:-1 info:-1 lastsave:1
latency:-2 latency|help:2 latency|histogram:-2 latency|history:3 latency|latest:2 latency|reset:-2
lockd:-2 lockd|add:4 lockd|backup:-2 lockd|hash:2 lockd|help:2 lockd|index:2 lockd|level:-2 lockd|members:2
lockd|remove:3 lockd|snapshot:2 lockd|transfer:-2
monitor:1 multi:1 psubscribe:-2
pubsub:-2 pubsub|channels:-2 pubsub|help:2 pubsub|numpat:2 pubsub|numsub:-2 pubsub|shardchannels:-2
pubsub|shardnumsub:-2
punsubscribe:-1 quit:-1 readonly:1 readwrite:1 replicaof:3 reset:1 role:1 save:1 slaveof:3
slowlog:-2 slowlog|get:-2 slowlog|help:2 slowlog|len:2 slowlog|reset:2 slowlog|waits:-2
ssubscribe:-2 subscribe:-2 sunsubscribe:-1 unsubscribe:-1 unwatch:1 wait:3 waitaof:4 watch:-2
`

// Elsewhere lists the commands that scripts know and the machine does not have.
func Elsewhere() []*resp.Spec { return elsewhere.Specs() }

// elsewhereRows reads name:arity or name:arity:level, each container before its subcommands.
func elsewhereRows(list string) []resp.Row[struct{}] {
	var rows []resp.Row[struct{}]
	for word := range strings.FieldsSeq(list) {
		name, digits, _ := strings.Cut(word, ":")
		digits, since, _ := strings.Cut(digits, ":")
		arity, _ := resp.ParseInt(digits)
		level, _ := resp.ParseInt(since)
		row := resp.Row[struct{}]{Spec: resp.Spec{Name: name, Arity: int(arity), Level: int(level)}}
		if strings.Contains(name, "|") {
			of := &rows[len(rows)-1]
			of.Subs = append(of.Subs, row)
		} else {
			rows = append(rows, row)
		}
	}
	return rows
}
