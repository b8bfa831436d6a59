package settings

import (
	"strings"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// The defaults of the settings.
const (
	bulkBytesMaxDefault     = 8 << 20  // one argument
	queryBytesMaxDefault    = 64 << 20 // one command as sent
	trackedKeysMaxDefault   = 1000000  // keys that are tracked, for all clients
	clientsMaxDefault       = 10000
	pushBytesHardDefault    = 32 << 20
	pushBytesSoftDefault    = 8 << 20
	pushSoftSecondsDefault  = 60
	slowlogLenDefault       = 128
	aclLogLenDefault        = 128
	slowlogMicrosDefault    = 10000
	keepAliveSecondsDefault = 300
)

// Cluster has the replicated settings that tune the connections of this node.
// They arrive as messages, in the order of the log. It is safe for concurrent use.
type Cluster struct {
	ClientsMax       atomic.Int64
	IdleSeconds      atomic.Int64 // 0: never
	KeepAliveSeconds atomic.Int64 // 0: off
	SlowlogMicros    atomic.Int64 // negative: nothing is logged
	SlowlogMax       atomic.Int64
	ACLLogMax        atomic.Int64
	LatencyMillis    atomic.Int64 // 0: off
	BulkBytesMax     atomic.Int64
	QueryBytesMax    atomic.Int64
	TrackedKeysMax   atomic.Int64 // 0: no limit
	push             atomic.Pointer[wire.PushLimit]
}

// NewCluster returns the defaults.
func NewCluster() *Cluster {
	s := &Cluster{}
	s.ClientsMax.Store(clientsMaxDefault)
	s.KeepAliveSeconds.Store(keepAliveSecondsDefault)
	s.SlowlogMicros.Store(slowlogMicrosDefault)
	s.SlowlogMax.Store(slowlogLenDefault)
	s.ACLLogMax.Store(aclLogLenDefault)
	s.BulkBytesMax.Store(bulkBytesMaxDefault)
	s.QueryBytesMax.Store(queryBytesMaxDefault)
	s.TrackedKeysMax.Store(trackedKeysMaxDefault)
	s.push.Store(&wire.PushLimit{Hard: pushBytesHardDefault, Soft: pushBytesSoftDefault,
		SoftSeconds: pushSoftSecondsDefault})
	return s
}

// PushLimit returns client-output-buffer-limit pubsub.
func (s *Cluster) PushLimit() wire.PushLimit { return *s.push.Load() }

// Apply takes a new value. Names that do not concern connections are ignored; CONFIG SET accepts no value that does
// not parse.
func (s *Cluster) Apply(name, value string) {
	if name == "client-output-buffer-limit" {
		s.applyOutputLimit(value)
		return
	}
	target := s.number(name)
	if n, ok := parseSize(value); ok && target != nil {
		target.Store(n)
	}
}

func (s *Cluster) number(name string) *atomic.Int64 {
	switch name {
	case "maxclients":
		return &s.ClientsMax
	case "timeout":
		return &s.IdleSeconds
	case "tcp-keepalive":
		return &s.KeepAliveSeconds
	case "slowlog-log-slower-than":
		return &s.SlowlogMicros
	case "slowlog-max-len":
		return &s.SlowlogMax
	case "acllog-max-len":
		return &s.ACLLogMax
	case "latency-monitor-threshold":
		return &s.LatencyMillis
	case "proto-max-bulk-len":
		return &s.BulkBytesMax
	case "client-query-buffer-limit":
		return &s.QueryBytesMax
	case "tracking-table-max-keys":
		return &s.TrackedKeysMax
	}
	return nil
}

// applyOutputLimit parses "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60" or a part of it.
func (s *Cluster) applyOutputLimit(value string) {
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
