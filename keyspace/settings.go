package keyspace

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/check"
	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

// settings are the values of the replicated parameters. They are immutable:
// CONFIG SET replaces them as a whole, which is what makes it atomic.
type settings struct {
	values []string // as CONFIG GET shows them, in the order of parameters

	// What the machine itself uses, read from values.
	maxMemoryBytes    int64
	notify            emit.Classes
	script            resp.ScriptLimits
	stepWork          int64 // what a step counts for in its request: one script may take all that it is allowed
	hashes            value.HashLimits
	lists             value.ListLimits
	sets              value.SetLimits
	zsets             value.ZsetLimits
	streamNodeEntries int64 // of a full node
	streamNodes       value.NodeLimits
	lockPattern       string
	historyMax        int64 // events of locks
	showTokens        bool  // whole
	wakeLibraries     bool
	holdUntil         int64  // tick; see fate.go
	fullDisks, noRoom string // nodes, and the error of what would let the state grow; see FullDisks
}

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
	nameLockHold      = "lock-hold-until"
	nameFullDisks     = "lockd-full-disks"
)

// parameters are all parameters of CONFIG that are the same on every node. Those
// of a node alone (port, dir, requirepass) are not here. The machine checks, keeps
// and reports them all; the session acts on those about connections. One without
// an effect is here because a client or a test suite sets or reads it.
var parameters = []parameter{
	{name: nameMaxMemory, value: "0", check: check.Memory(0)},
	{name: "maxmemory-policy", value: "noeviction", check: check.OneOf("noeviction")},
	{name: "maxmemory-samples", value: "5", check: check.Number(1, math.MaxInt32)},
	{name: "maxmemory-eviction-tenacity", value: "10", check: check.Number(0, 100)},
	{name: "maxmemory-clients", value: "0", check: check.MemoryOrPercent},
	{name: nameNotify, value: "", check: emit.CheckClasses},
	{name: nameScriptSteps, value: "10000000", check: check.Number(1000, 1_000_000_000)},
	{name: nameScriptMemory, value: "67108864", check: check.Memory(1 << 20)},
	{name: nameLockPattern, value: "*", check: check.Text(lockPatternBytesMax)},
	{name: nameLockHistory, value: "100000", check: check.Number(0, history.EventsMax)},
	{name: nameLockTokens, value: "prefix", check: check.OneOf("full", "prefix")},
	{name: nameLockWake, value: "yes", check: check.YesNo},
	{name: nameLockHold, value: "-1", check: check.Number(-1, maxInt), seldom: true},
	{name: nameFullDisks, value: "", check: check.Text(fullDisksBytesMax), seldom: true},

	{name: "maxclients", value: "10000", check: check.Number(1, 1<<32-1)},
	{name: "timeout", value: "0", check: check.Number(0, math.MaxInt32)},
	{name: "tcp-keepalive", value: "300", check: check.Number(0, math.MaxInt32)},
	{name: "slowlog-log-slower-than", value: "10000", check: check.Number(-1, maxInt)},
	{name: "slowlog-max-len", value: "128", check: check.Number(0, maxInt)},
	{name: "acllog-max-len", value: "128", check: check.Number(0, maxInt)},
	{name: "latency-monitor-threshold", value: "0", check: check.Number(0, maxInt)},
	{name: "latency-tracking", value: "yes", check: check.YesNo},
	{name: nameOutputBuffers, merge: check.Buffers,
		value: "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
	{name: "proto-max-bulk-len", value: "8388608", check: check.Memory(1 << 20)},
	{name: "client-query-buffer-limit", value: "67108864", check: check.Memory(1 << 20)},
	{name: "tracking-table-max-keys", value: "1000000", check: check.Number(0, maxInt)},

	{name: nameHashEntries, alias: "hash-max-ziplist-entries", value: "512", check: check.Number(0, maxInt)},
	{name: nameHashValue, alias: "hash-max-ziplist-value", value: "64", check: check.Memory(0)},
	{name: nameListSize, alias: "list-max-ziplist-size", value: "-2", check: check.Number(-math.MaxInt32-1, math.MaxInt32)},
	{name: "list-compress-depth", value: "0", check: check.Number(0, math.MaxInt32)},
	{name: nameSetInts, value: "512", check: check.Number(0, maxInt)},
	{name: nameSetEntries, value: "128", check: check.Number(0, maxInt)},
	{name: nameSetValue, value: "64", check: check.Number(0, maxInt)},
	{name: nameZsetEntries, alias: "zset-max-ziplist-entries", value: "128", check: check.Number(0, maxInt)},
	{name: nameZsetValue, alias: "zset-max-ziplist-value", value: "64", check: check.Memory(0)},
	{name: nameStreamBytes, value: "4096", check: check.Memory(0)},
	{name: nameStreamEntries, value: "100", check: check.Number(0, maxInt)},
	{name: "lua-time-limit", alias: "busy-reply-threshold", value: "5000", check: check.Number(0, maxInt)},
	{name: "activerehashing", value: "yes", check: check.YesNo},
	{name: "hz", value: "10", check: check.Number(0, math.MaxInt32)},

	// What lockd is and does not change.
	{name: "save", value: ""},
	{name: "appendonly", value: "yes"},
	{name: "appendfsync", value: "always"},
	{name: "databases", value: "16"},
	{name: "replica-read-only", alias: "slave-read-only", value: "yes"},
	{name: "replica-serve-stale-data", alias: "slave-serve-stale-data", value: "no"},
	{name: "min-replicas-to-write", alias: "min-slaves-to-write", value: "0"},
	{name: "cluster-enabled", value: "no"},
	{name: "daemonize", value: "no"},
	{name: "io-threads", value: "1"},
	{name: "activedefrag", value: "no"},
	{name: "latency-tracking-info-percentiles", value: "50 99 99.9"},
	{name: "protected-mode", value: "no"},
	{name: "loglevel", value: "notice"},
	{name: "dynamic-hz", value: "yes"},
	{name: "tls-port", value: "0"},
	{name: "stop-writes-on-bgsave-error", value: "yes"},
	{name: "dbfilename", value: "dump.rdb"},
	{name: "appendfilename", value: "appendonly.aof"},
	{name: "replicaof", alias: "slaveof", value: ""},
	{name: "replica-priority", alias: "slave-priority", value: "100"},
	{name: "repl-timeout", value: "60"},
	{name: "repl-backlog-size", value: "1048576"},
	{name: "min-replicas-max-lag", alias: "min-slaves-max-lag", value: "10"},
	{name: "cluster-node-timeout", value: "15000"},
	{name: "cluster-require-full-coverage", value: "yes"},
	{name: "cluster-allow-reads-when-down", value: "no"},
	{name: "lazyfree-lazy-eviction", value: "no"},
	{name: "lazyfree-lazy-expire", value: "no"},
	{name: "lazyfree-lazy-server-del", value: "no"},
	{name: "lazyfree-lazy-user-del", value: "no"},
	{name: "lazyfree-lazy-user-flush", value: "no"},
	{name: "lfu-log-factor", value: "10"},
	{name: "lfu-decay-time", value: "1"},
}

// sumOfParameters is of the names and defaults of those that a level has: nodes that know others would not take the
// same CONFIG SET.
func sumOfParameters(level int) uint64 {
	var b strings.Builder
	for _, p := range parameters {
		if p.level <= level {
			b.WriteString(p.name + " " + p.alias + " " + p.value + "\n")
		}
	}
	return xxh3.HashString(b.String())
}

// parameter is one parameter of CONFIG. One with neither check nor merge is fixed.
type parameter struct {
	name, alias string // alias: the older name, or ""
	value       string // the default, as CONFIG GET shows it
	check       check.Value
	merge       func(has, value string) (kept string, err error)
	seldom      bool // an image has it only where it is not the default; so it is with all that have a level
	// level is the cluster's since which there is it; 0: there always was. Before, it has its default, and nobody can
	// set it or see it: the default must do what was done without it.
	level int
}

// take makes of the value that CONFIG SET was given what is kept, or says what is
// wrong with it, in Redis's words.
func (p *parameter) take(has, value string) (kept string, err error) {
	switch {
	case p.check != nil:
		return p.check(value)
	case p.merge != nil:
		return p.merge(has, value)
	case value == has:
		return has, nil // setting what is so anyway does no harm
	}
	return "", resp.Error("can't set immutable config")
}

// parameterIndex finds a parameter by name or alias, in any case; -1 if unknown.
func parameterIndex(name string) int {
	for i := range parameters {
		p := &parameters[i]
		if strings.EqualFold(name, p.name) || (p.alias != "" && strings.EqualFold(name, p.alias)) {
			return i
		}
	}
	return -1
}

func defaultSettings() *settings {
	s := &settings{values: make([]string, len(parameters))}
	for i := range parameters {
		s.values[i] = parameters[i].value
	}
	s.read()
	return s
}

// laterParameter finds the first parameter of a call of CONFIG SET that comes with the latest level; see resp.Spec.
func laterParameter(args resp.Args) (name string, level int) {
	for i := 2; i < len(args); i += 2 {
		if at := parameterIndex(args[i]); at >= 0 && parameters[at].level > level {
			name, level = parameters[at].name, parameters[at].level
		}
	}
	return name, level
}

// with returns settings that differ in the given names and values, name after
// value; the error is that of CONFIG SET at a level.
func (s *settings) with(level int, pairs []string) (next *settings, err error) {
	next = &settings{values: slices.Clone(s.values)}
	taken := make([]string, len(parameters)) // the name each was set by
	for i := 0; i+1 < len(pairs); i += 2 {
		at, name := parameterIndex(pairs[i]), strings.ToLower(pairs[i])
		if at < 0 || parameters[at].level > level {
			return nil, resp.Error("ERR Unknown option or number of arguments for CONFIG SET - '" + pairs[i] + "'")
		}
		err = resp.Error("duplicate parameter")
		if taken[at] != name {
			next.values[at], err = parameters[at].take(next.values[at], strings.Clone(pairs[i+1]))
		}
		if err != nil {
			return nil, resp.Errorf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, err)
		}
		taken[at] = name
	}
	next.read()
	return next, nil
}

// read fills in what the machine uses, of settings that are new. The values have been checked.
func (s *settings) read() {
	s.maxMemoryBytes = s.number(nameMaxMemory)
	s.notify, _ = emit.ParseClasses(s.value(nameNotify))
	s.script = resp.ScriptLimits{Steps: s.number(nameScriptSteps), MemBytes: s.number(nameScriptMemory)}
	s.stepWork = meter.StepWorkOf(s.script.Steps)
	s.hashes = value.HashLimits{
		Entries:    min(s.number(nameHashEntries), value.SmallMax),
		ValueBytes: min(s.number(nameHashValue), value.SmallValueMax),
	}
	s.lists = listLimits(s.number(nameListSize))
	s.sets = value.SetLimits{
		Ints:       min(s.number(nameSetInts), value.SmallMax),
		Entries:    min(s.number(nameSetEntries), value.SmallMax),
		ValueBytes: min(s.number(nameSetValue), value.SmallValueMax),
	}
	s.zsets = value.ZsetLimits{
		Entries:    min(s.number(nameZsetEntries), value.SmallMax),
		ValueBytes: min(s.number(nameZsetValue), value.SmallValueMax),
	}
	s.lockPattern = s.value(nameLockPattern)
	s.historyMax = s.number(nameLockHistory)
	s.showTokens = s.value(nameLockTokens) == "full"
	s.wakeLibraries = s.value(nameLockWake) == "yes"
	s.holdUntil = s.number(nameLockHold)
	if s.fullDisks = s.value(nameFullDisks); s.fullDisks != "" {
		s.noRoom = fmt.Sprintf(errDiskFullFmt, s.fullDisks)
	}
	s.streamNodes = value.NodeLimits{Entries: s.number(nameStreamEntries), Bytes: s.number(nameStreamBytes)}
	s.streamNodeEntries = s.streamNodes.Entries
	if s.streamNodeEntries == 0 { // the nodes have no limit in entries
		s.streamNodeEntries = streamNodeEntries
	}
}

func (s *settings) value(name string) string { return s.values[parameterIndex(name)] }

func (s *settings) number(name string) int64 {
	n, ok := resp.ParseInt(s.value(name))
	if !ok {
		panic("keyspace: setting " + name + " is no number")
	}
	return n
}

// shown is a value as CONFIG GET shows it.
func (s *settings) shown(i int) string {
	if parameters[i].name == nameNotify {
		return s.notify.String()
	}
	return s.values[i]
}

func (s *settings) message(i int) resp.Message {
	return resp.Message{Kind: resp.MessageConfig, Channel: parameters[i].name, Payload: s.shown(i)}
}

// listPackBytes are the sizes that the negative values of list-max-listpack-size
// stand for: -1 for the first.
var listPackBytes = []int64{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}

// listLimits are those of a value of list-max-listpack-size.
func listLimits(n int64) value.ListLimits {
	if n < 0 {
		return value.ListLimits{Elements: maxInt, Bytes: listPackBytes[min(-n, int64(len(listPackBytes)))-1]}
	}
	return value.ListLimits{Elements: max(n, 1), Bytes: value.ListPackBytesMax}
}

// The nodes of a stream, where nothing else is set, and how many entries a trim with ~
// removes at most without LIMIT: those of a hundred nodes, as in Redis.
const (
	streamNodeEntries = 100
	streamTrimNodes   = 100
	streamTrimMost    = 1_000_000
)

func (s *settings) streamTrimMax() int64 {
	return streamTrimNodes * min(s.streamNodeEntries, streamTrimMost/streamTrimNodes)
}

// fullDisksBytesMax bounds the list of nodes whose disks are full.
const fullDisksBytesMax = 64 << 10

// errDiskFullFmt refuses, as Redis does over maxmemory, what would let the state grow.
const errDiskFullFmt = "OOM command not allowed when the disk is nearly full: make room on %s. Until then locks can " +
	"be renewed and released"

// changeable lists the parameters that CONFIG SET may change, by name: what an
// image holds of the settings.
func changeable() []int {
	var at []int
	for i := range parameters {
		if parameters[i].check != nil || parameters[i].merge != nil {
			at = append(at, i)
		}
	}
	slices.SortFunc(at, func(a, b int) int { return strings.Compare(parameters[a].name, parameters[b].name) })
	return at
}

func (s *settings) write(w *value.Writer) {
	all := slices.DeleteFunc(changeable(), func(i int) bool {
		p := &parameters[i]
		return (p.seldom || p.level > 0) && s.values[i] == p.value
	})
	w.U64(uint64(len(all)))
	for _, i := range all {
		w.Text(parameters[i].name)
		w.Text(s.values[i])
	}
}

// readSettings takes a parameter that the image does not have yet at its default.
func readSettings(r *value.Reader, level int) *settings {
	s, last := defaultSettings(), ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		name, value := r.Text(), r.Text()
		if name <= last {
			r.Fail("settings are not in order")
		}
		next, err := s.with(level, []string{name, value})
		if err != nil {
			r.Fail("setting " + name + ": " + err.Error())
			break
		}
		s, last = next, name
	}
	return s
}
