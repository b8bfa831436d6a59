package settings

import (
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/resp"
)

// lockPatternBytesMax bounds the setting lock-pattern.
const lockPatternBytesMax = 512

// The names of the parameters that the machine itself uses.
const (
	nameMaxMemory     = "maxmemory"
	nameNotify        = "notify-keyspace-events"
	nameScriptSteps   = "lockd-script-steps"
	nameScriptMemory  = "lockd-script-memory"
	nameHashEntries   = "hash-max-listpack-entries"
	nameHashValue     = "hash-max-listpack-value"
	nameListSize      = "list-max-listpack-size"
	nameSetInts       = "set-max-intset-entries"
	nameSetEntries    = "set-max-listpack-entries"
	nameSetValue      = "set-max-listpack-value"
	nameZsetEntries   = "zset-max-listpack-entries"
	nameZsetValue     = "zset-max-listpack-value"
	nameStreamEntries = "stream-node-max-entries"
	nameStreamBytes   = "stream-node-max-bytes"
	nameOutputBuffers = "client-output-buffer-limit"
	nameLockPattern   = "lock-pattern"
	nameLockHistory   = "lock-history-max-events"
	nameLockTokens    = "lock-show-tokens"
	nameLockWake      = "lock-wake-libraries"
	NameLockHold      = "lock-hold-until"
	NameFullDisks     = "lockd-full-disks"
)

// Parameters are all parameters of CONFIG that are the same on every node. Those
// of a node alone (port, dir, requirepass) are not here. The machine checks, keeps
// and reports them all; the session acts on those about connections. One without
// an effect is here because a client or a test suite sets or reads it.
var Parameters = []Parameter{
	{Name: nameMaxMemory, Value: "0", Check: Memory(0)},
	{Name: "maxmemory-policy", Value: "noeviction", Check: OneOf("noeviction")},
	{Name: "maxmemory-samples", Value: "5", Check: Number(1, math.MaxInt32)},
	{Name: "maxmemory-eviction-tenacity", Value: "10", Check: Number(0, 100)},
	{Name: "maxmemory-clients", Value: "0", Check: MemoryOrPercent},
	{Name: nameNotify, Value: "", Check: emit.CheckClasses},
	{Name: nameScriptSteps, Value: "10000000", Check: Number(1000, 1_000_000_000)},
	{Name: nameScriptMemory, Value: "67108864", Check: Memory(1 << 20)},
	{Name: nameLockPattern, Value: "*", Check: Text(lockPatternBytesMax)},
	{Name: nameLockHistory, Value: "100000", Check: Number(0, history.EventsMax)},
	{Name: nameLockTokens, Value: "prefix", Check: OneOf("full", "prefix")},
	{Name: nameLockWake, Value: "yes", Check: YesNo},
	{Name: NameLockHold, Value: "-1", Check: Number(-1, math.MaxInt64), Seldom: true},
	{Name: NameFullDisks, Value: "", Check: Text(fullDisksBytesMax), Seldom: true},

	{Name: "maxclients", Value: "10000", Check: Number(1, 1<<32-1)},
	{Name: "timeout", Value: "0", Check: Number(0, math.MaxInt32)},
	{Name: "tcp-keepalive", Value: "300", Check: Number(0, math.MaxInt32)},
	{Name: "slowlog-log-slower-than", Value: "10000", Check: Number(-1, math.MaxInt64)},
	{Name: "slowlog-max-len", Value: "128", Check: Number(0, math.MaxInt64)},
	{Name: "acllog-max-len", Value: "128", Check: Number(0, math.MaxInt64)},
	{Name: "latency-monitor-threshold", Value: "0", Check: Number(0, math.MaxInt64)},
	{Name: "latency-tracking", Value: "yes", Check: YesNo},
	{Name: nameOutputBuffers, Merge: Buffers,
		Value: "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
	{Name: "proto-max-bulk-len", Value: "8388608", Check: Memory(1 << 20)},
	{Name: "client-query-buffer-limit", Value: "67108864", Check: Memory(1 << 20)},
	{Name: "tracking-table-max-keys", Value: "1000000", Check: Number(0, math.MaxInt64)},

	{Name: nameHashEntries, Alias: "hash-max-ziplist-entries", Value: "512", Check: Number(0, math.MaxInt64)},
	{Name: nameHashValue, Alias: "hash-max-ziplist-value", Value: "64", Check: Memory(0)},
	{Name: nameListSize, Alias: "list-max-ziplist-size", Value: "-2", Check: Number(-math.MaxInt32-1, math.MaxInt32)},
	{Name: "list-compress-depth", Value: "0", Check: Number(0, math.MaxInt32)},
	{Name: nameSetInts, Value: "512", Check: Number(0, math.MaxInt64)},
	{Name: nameSetEntries, Value: "128", Check: Number(0, math.MaxInt64)},
	{Name: nameSetValue, Value: "64", Check: Number(0, math.MaxInt64)},
	{Name: nameZsetEntries, Alias: "zset-max-ziplist-entries", Value: "128", Check: Number(0, math.MaxInt64)},
	{Name: nameZsetValue, Alias: "zset-max-ziplist-value", Value: "64", Check: Memory(0)},
	{Name: nameStreamBytes, Value: "4096", Check: Memory(0)},
	{Name: nameStreamEntries, Value: "100", Check: Number(0, math.MaxInt64)},
	{Name: "lua-time-limit", Alias: "busy-reply-threshold", Value: "5000", Check: Number(0, math.MaxInt64)},
	{Name: "activerehashing", Value: "yes", Check: YesNo},
	{Name: "hz", Value: "10", Check: Number(0, math.MaxInt32)},

	// What lockd is and does not change.
	{Name: "save", Value: ""},
	{Name: "appendonly", Value: "yes"},
	{Name: "appendfsync", Value: "always"},
	{Name: "databases", Value: "16"},
	{Name: "replica-read-only", Alias: "slave-read-only", Value: "yes"},
	{Name: "replica-serve-stale-data", Alias: "slave-serve-stale-data", Value: "no"},
	{Name: "min-replicas-to-write", Alias: "min-slaves-to-write", Value: "0"},
	{Name: "cluster-enabled", Value: "no"},
	{Name: "daemonize", Value: "no"},
	{Name: "io-threads", Value: "1"},
	{Name: "activedefrag", Value: "no"},
	{Name: "latency-tracking-info-percentiles", Value: "50 99 99.9"},
	{Name: "protected-mode", Value: "no"},
	{Name: "loglevel", Value: "notice"},
	{Name: "dynamic-hz", Value: "yes"},
	{Name: "tls-port", Value: "0"},
	{Name: "stop-writes-on-bgsave-error", Value: "yes"},
	{Name: "dbfilename", Value: "dump.rdb"},
	{Name: "appendfilename", Value: "appendonly.aof"},
	{Name: "replicaof", Alias: "slaveof", Value: ""},
	{Name: "replica-priority", Alias: "slave-priority", Value: "100"},
	{Name: "repl-timeout", Value: "60"},
	{Name: "repl-backlog-size", Value: "1048576"},
	{Name: "min-replicas-max-lag", Alias: "min-slaves-max-lag", Value: "10"},
	{Name: "cluster-node-timeout", Value: "15000"},
	{Name: "cluster-require-full-coverage", Value: "yes"},
	{Name: "cluster-allow-reads-when-down", Value: "no"},
	{Name: "lazyfree-lazy-eviction", Value: "no"},
	{Name: "lazyfree-lazy-expire", Value: "no"},
	{Name: "lazyfree-lazy-server-del", Value: "no"},
	{Name: "lazyfree-lazy-user-del", Value: "no"},
	{Name: "lazyfree-lazy-user-flush", Value: "no"},
	{Name: "lfu-log-factor", Value: "10"},
	{Name: "lfu-decay-time", Value: "1"},
}

// SumAt sums up the names and defaults of the parameters that a level has: nodes that know others would not take the
// same CONFIG SET.
func SumAt(level int) uint64 {
	var b strings.Builder
	for _, p := range Parameters {
		if p.Level <= level {
			b.WriteString(p.Name + " " + p.Alias + " " + p.Value + "\n")
		}
	}
	return xxh3.HashString(b.String())
}

// Parameter is one parameter of CONFIG. One with neither check nor merge is fixed.
type Parameter struct {
	Name, Alias string // Alias: the older name, or ""
	Value       string // the default, as CONFIG GET shows it
	Check       Check
	Merge       func(has, value string) (kept string, err error)
	Seldom      bool // an image has it only where it is not the default; the same holds for a parameter with a level
	// Level is the first level of the cluster that has the parameter; 0: every one. Below it the parameter has its
	// default, and cannot be set or seen: the default must do what was done without it.
	Level int
}

// take makes of the value that CONFIG SET was given what is kept, or says what is
// wrong with it, in Redis's words.
func (p *Parameter) take(has, value string) (kept string, err error) {
	switch {
	case p.Check != nil:
		return p.Check(value)
	case p.Merge != nil:
		return p.Merge(has, value)
	case value == has:
		return has, nil // setting what is so anyway does no harm
	}
	return "", resp.Error("can't set immutable config")
}

// indexOf finds a parameter by name or alias, in any case; -1 if unknown.
func indexOf(name string) int {
	for i := range Parameters {
		p := &Parameters[i]
		if strings.EqualFold(name, p.Name) || (p.Alias != "" && strings.EqualFold(name, p.Alias)) {
			return i
		}
	}
	return -1
}

// Later finds the first parameter of a call of CONFIG SET that comes with the latest level; see resp.Spec.
func Later(args resp.Args) (name string, level int) {
	for i := 2; i < len(args); i += 2 {
		if at := indexOf(args[i]); at >= 0 && Parameters[at].Level > level {
			name, level = Parameters[at].Name, Parameters[at].Level
		}
	}
	return name, level
}

// changeable lists the parameters that CONFIG SET may change, by name: what an
// image holds of the settings.
func changeable() []int {
	var at []int
	for i := range Parameters {
		if Parameters[i].Check != nil || Parameters[i].Merge != nil {
			at = append(at, i)
		}
	}
	slices.SortFunc(at, func(a, b int) int { return strings.Compare(Parameters[a].Name, Parameters[b].Name) })
	return at
}
