package server

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// settings are the replicated settings that tune the connections of this node.
// They arrive as messages, in the order of the log.
type settings struct {
	clientsMax       atomic.Int64
	idleSeconds      atomic.Int64 // 0: never
	keepAliveSeconds atomic.Int64 // 0: off
	slowlogMicros    atomic.Int64 // negative: nothing is logged
	slowlogMax       atomic.Int64
	aclLogMax        atomic.Int64
	latencyMillis    atomic.Int64 // 0: off
	bulkBytesMax     atomic.Int64
	queryBytesMax    atomic.Int64
	trackedKeysMax   atomic.Int64 // 0: no limit
	push             atomic.Pointer[wire.PushLimit]
}

func (s *settings) setDefaults() {
	s.clientsMax.Store(clientsMaxDefault)
	s.keepAliveSeconds.Store(keepAliveSecondsDefault)
	s.slowlogMicros.Store(slowlogMicrosDefault)
	s.slowlogMax.Store(slowlogLenDefault)
	s.aclLogMax.Store(aclLogLenDefault)
	s.bulkBytesMax.Store(bulkBytesMaxDefault)
	s.queryBytesMax.Store(queryBytesMaxDefault)
	s.trackedKeysMax.Store(trackedKeysMaxDefault)
	s.push.Store(&wire.PushLimit{Hard: pushBytesHardDefault, Soft: pushBytesSoftDefault,
		SoftSeconds: pushSoftSecondsDefault})
}

func (s *settings) pushLimit() wire.PushLimit { return *s.push.Load() }

// apply takes a new value. Names that do not concern connections are ignored; CONFIG SET accepts no value that does
// not parse.
func (s *settings) apply(name, value string) {
	if name == "client-output-buffer-limit" {
		s.applyOutputLimit(value)
		return
	}
	target := s.number(name)
	if n, ok := parseSize(value); ok && target != nil {
		target.Store(n)
	}
}

func (s *settings) number(name string) *atomic.Int64 {
	switch name {
	case "maxclients":
		return &s.clientsMax
	case "timeout":
		return &s.idleSeconds
	case "tcp-keepalive":
		return &s.keepAliveSeconds
	case "slowlog-log-slower-than":
		return &s.slowlogMicros
	case "slowlog-max-len":
		return &s.slowlogMax
	case "acllog-max-len":
		return &s.aclLogMax
	case "latency-monitor-threshold":
		return &s.latencyMillis
	case "proto-max-bulk-len":
		return &s.bulkBytesMax
	case "client-query-buffer-limit":
		return &s.queryBytesMax
	case "tracking-table-max-keys":
		return &s.trackedKeysMax
	}
	return nil
}

// applyOutputLimit parses "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60" or a part of it.
func (s *settings) applyOutputLimit(value string) {
	words := strings.Fields(value)
	for ; len(words) >= 4; words = words[4:] {
		hard, ok1 := parseSize(words[1])
		soft, ok2 := parseSize(words[2])
		seconds, ok3 := parseSize(words[3])
		if ok1 && ok2 && ok3 && resp.Is(words[0], "PUBSUB") {
			s.push.Store(&wire.PushLimit{Hard: int(hard), Soft: int(soft), SoftSeconds: int(seconds)})
		}
	}
}

// parseSize parses a number with Redis's units of memory.
func parseSize(text string) (int64, bool) {
	digits := strings.TrimRight(strings.ToLower(text), "bgkm")
	unit := int64(1)
	switch strings.ToLower(text)[len(digits):] {
	case "", "b":
	case "k":
		unit = 1000
	case "kb":
		unit = 1 << 10
	case "m":
		unit = 1000 * 1000
	case "mb":
		unit = 1 << 20
	case "g":
		unit = 1000 * 1000 * 1000
	case "gb":
		unit = 1 << 30
	default:
		return 0, false
	}
	n, ok := resp.ParseInt(digits)
	if !ok || n > (1<<62)/unit {
		return 0, false
	}
	return n * unit, true
}

// ownSetting is a setting of this node that CONFIG SET can change, until the process ends.
type ownSetting struct {
	value atomic.Pointer[string]
	words []string // allowed values; nil: it is maxclients, a number
	wrong string   // the error text for other values
	apply func(value string)
}

func (o *ownSetting) set(value string) {
	o.value.Store(&value)
	if o.apply != nil {
		o.apply(value)
	}
}

// The names of the settings of the node.
const (
	protectedMode = "protected-mode"
	logLevel      = "loglevel"
	maxClients    = "maxclients" // the cluster's, unless the node has its own
	pubsubCount   = "pubsub-count"
)

// The values of pubsub-count: PUBSUB and PUBLISH count the subscribers of all nodes, or of this one.
const (
	CountCluster = "cluster"
	CountNode    = "node"
)

// logLevels maps Redis's levels. Redis's verbose is below notice; here both are info.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "verbose": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
}

func ownSettings(cfg *Config) map[string]*ownSetting {
	protect := &ownSetting{words: []string{"yes", "no"}, wrong: "argument must be 'yes' or 'no'"}
	protect.set(map[bool]string{true: "yes", false: "no"}[cfg.Protect])
	count := &ownSetting{words: []string{CountCluster, CountNode},
		wrong: "argument(s) must be one of the following: cluster, node"}
	count.set(cmp.Or(cfg.PubSubCount, CountCluster))
	own := map[string]*ownSetting{protectedMode: protect, pubsubCount: count}
	if v := cfg.LogLevel; v != nil {
		level := &ownSetting{words: []string{"debug", "verbose", "notice", "warning"},
			wrong: "argument(s) must be one of the following: debug, verbose, notice, warning"}
		level.set(logWord(v.Level())) // v may be stricter than the word: it does not change
		level.apply = func(word string) { v.Set(logLevels[word]) }
		own[logLevel] = level
	}
	if cfg.ClientsMax > 0 {
		own[maxClients] = &ownSetting{}
		own[maxClients].set(strconv.FormatInt(cfg.ClientsMax, 10))
	}
	return own
}

// logWord returns Redis's word for a level.
func logWord(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "notice"
	}
	return "warning"
}

// SetLogLevel does as CONFIG SET loglevel, or nothing without Config.LogLevel. It is safe for concurrent use.
func (s *Server) SetLogLevel(level slog.Level) {
	if own := s.own[logLevel]; own != nil {
		own.set(logWord(level))
		s.logLevel.Set(level) // which may be stricter than the word
	}
}

// clientsMax returns how many clients may be connected, regardless of file descriptors.
func (s *Server) clientsMax() int64 {
	if own := s.own[maxClients]; own != nil {
		n, _ := resp.ParseInt(*own.value.Load()) // it was checked
		return n
	}
	return s.hub.settings.clientsMax.Load()
}

// checkClientsMax returns what is wrong with a value for a node's own maxclients, or nil.
func (s *Server) checkClientsMax(value string) error {
	switch n, ok := resp.ParseInt(value); {
	case !ok:
		return resp.Error("argument couldn't be parsed into an integer")
	case n < 1 || n > 1<<32-1:
		return resp.Error("argument must be between 1 and 4294967295 inclusive")
	case n > s.seats.Max():
		return resp.Error("The operating system is not able to handle the specified number of clients, try with " +
			strconv.FormatInt(s.seats.Max(), 10))
	}
	return nil
}

// localValue returns the value of a setting of this node.
func (s *Server) localValue(name string) (value string, ok bool) {
	if o := s.own[name]; o != nil {
		return *o.value.Load(), true
	}
	value, ok = s.local[name]
	return value, ok
}

// localNames lists the settings of this node.
func (s *Server) localNames() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.local)), maps.Keys(s.own))
	slices.Sort(names)
	return slices.Compact(names)
}

// setOwn checks a value of CONFIG SET for one setting of this node. Nothing changes before change is called.
func (s *Server) setOwn(name, value string) (change func(), err error) {
	o := s.own[name]
	if o == nil {
		if old := s.local[name]; value != old { // setting the present value is allowed
			if name == requirePass {
				return nil, resp.Error("the password of this node is that of its --requirepass or --requirepass-file: change it " +
					"there on all nodes, or give the default user one by ACL SETUSER")
			}
			return nil, resp.Error("can't set immutable config")
		}
		return func() {}, nil
	}
	value = lower(value)
	if o.words == nil {
		err = s.checkClientsMax(value)
	} else if !slices.Contains(o.words, value) {
		err = resp.Error(o.wrong)
	}
	if err != nil {
		return nil, err
	}
	return func() { o.set(value) }, nil
}
