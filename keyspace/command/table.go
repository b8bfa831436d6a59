package command

import (
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/settings"
	"lockd/keyspace/state"
	"lockd/resp"
	"lockd/resp/acl"
)

// table holds the rows of all families.
var table *resp.Table[parser]

// A new family of commands is joined here. It is done in init, not where table is declared,
// because EVAL's own row leads back to it: a script finds its commands there.
func init() {
	table = newTable(
		stringRows, compareRows, hashRows, listRows, setRows, zsetRows, zsetRangeRows, zsetOpRows,
		streamRows, streamReadRows, keyRows, blockRows, lockRows, locksRows, scriptRows, pubsubRows, serverRows, memoryRows, functionRows, aclRows)
	commandSets = make([]*commandSet, LevelLowest, Level+1)
	for level := LevelLowest; level <= Level; level++ {
		commandSets = append(commandSets, commandSetOf(level))
	}
}

// Find looks up the row of a command.
func Find(args resp.Args) (*resp.Spec, resp.Reply) {
	row, fail := table.Find(args)
	if row == nil {
		return nil, fail
	}
	return &row.Spec, resp.Reply{}
}

// Check parses a call whose row is known. wrong: its arguments are, whatever the state is, and fail says how.
func Check(cmd resp.Cmd) (fail resp.Reply, wrong bool) {
	row := table.Row(cmd.Spec)
	if row == nil {
		return resp.Reply{}, false
	}
	if _, err := row.Run(cmd.Args); err != nil {
		return resp.Fail(err), true
	}
	return resp.Reply{}, false
}

// Specs lists the rows of all commands.
func Specs() []*resp.Spec { return table.Specs() }

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

// A cluster has a level, which is part of its state: what an entry does follows from the level in force when it is
// applied, and not from the build that applies it. So two neighbouring builds make one machine: the newer one does
// what the older one did until the level rises, which it does once every member can (package cluster).
//
// What a build adds or changes belongs to its highest level: a row says so (resp.Spec.Level), and so does a parameter
// of CONFIG (parameter.level); other behaviour asks State.Level and has a word in rulesSince.

// The levels that this build can: all from LevelLowest to Level. A build that adds a command to the machine, or
// changes what an entry does or how it or an image is written, has a Level one higher than the release before.
const (
	LevelLowest = 1
	Level       = 1
)

// rulesSince are versions of everything, besides the rows, that the state follows from. A new one is a new line, with
// its level and a name of one word.
var rulesSince = []resp.Rule{
	{Level: 1, Name: "wall", Version: 1}, // that of entries never goes back
	{Level: 1, Name: "image", Version: 1},
	{Level: 1, Name: "deadlocks", Version: 1},
	{Level: 1, Name: "gifts", Version: 1},            // what comes back of them, and where to
	{Level: 1, Name: "fences", Version: 1},           // a string with another value has another one
	{Level: 1, Name: "full-disks", Version: 1},       // renewals are not refused; nor are they by maxmemory
	{Level: 1, Name: "stream-nodes", Version: 1},     // into which ~ cuts a stream
	{Level: 1, Name: "loops-in-scripts", Version: 1}, // with what a loop begins (luavm/compiler: jumpsFirst)
	{Level: 1, Name: "numbers", Version: 1},          // in scripts -0 stays what it is, and levels of errors count as Lua's
	{Level: 1, Name: "swaps", Version: 1},            // SWAPDB answers a waiter that holds what it brings
	{Level: 1, Name: "work", Version: 3},             // what requests are charged (package meter)
}

func commandSetOf(level int) *commandSet {
	l := &commandSet{table: table.At(level), elsewhere: elsewhere.At(level)}
	l.known = acl.NewCommands(l.table.Specs(), l.elsewhere.Specs())
	return l
}

// namesForScripts sums up the names of commands that are elsewhere.
func (l *commandSet) namesForScripts() uint64 {
	var b strings.Builder
	for _, spec := range l.elsewhere.Specs() {
		b.WriteString(spec.Name + ":" + itoa(int64(spec.Arity)) + " ")
		for _, sub := range spec.Subs {
			b.WriteString(sub.Name + ":" + itoa(int64(sub.Arity)) + " ")
		}
	}
	return xxh3.HashString(b.String())
}

// Formats returns the versions of everything, besides the rows, that the state follows from at a level.
func Formats(level int) map[string]uint64 {
	formats := resp.RulesAt(rulesSince, level)
	formats["names-for-scripts"] = commandsAt(level).namesForScripts()
	formats["settings"] = settings.SumAt(level)
	return formats
}

// Known returns the commands that rules of users may name at a level.
func Known(level int) *acl.Commands { return commandsAt(level).known }

// NewState returns an empty state at a level, whose scripts run with scripts.
func NewState(scripts state.Scripts, level int) state.State {
	return state.New(scripts, level, commandsAt(level).known)
}

// SetLevel has a level in force, with its commands. Users may have rights to commands that are new.
func SetLevel(s *state.State, level int) {
	s.Level = level
	known := commandsAt(level).known
	users := acl.NewUsers(known)
	for _, was := range s.Users.All() {
		user, err := acl.Read(known, was.Name, was.Text())
		if err != nil { // the level has removed what the rules name: rather no rights than more
			user = acl.New(known, was.Name)
		}
		users = users.With(user)
	}
	s.Users = users
}
