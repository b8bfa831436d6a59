package redisconf

import (
	"strconv"
	"strings"
)

// No node has these as its settings: lines of names with the defaults of Redis, 7.0 where it has the name (and what is
// so in lockd anyway), and what lockd does instead.
var noSettings = []struct{ instead, lines string }{
	{OfCluster, `
		acllog-max-len 128
		activerehashing yes
		busy-reply-threshold 5000
		client-output-buffer-limit normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60
		client-query-buffer-limit 1073741824
		hash-max-listpack-entries 512
		hash-max-listpack-value 64
		hash-max-ziplist-entries 512
		hash-max-ziplist-value 64
		hz 10
		latency-monitor-threshold 0
		latency-tracking yes
		list-compress-depth 0
		list-max-listpack-size -2
		list-max-ziplist-size -2
		lua-time-limit 5000
		lock-history-max-events 100000
		lock-hold-until -1
		lock-pattern *
		lock-show-tokens prefix
		lock-wake-libraries yes
		lockd-full-disks
		lockd-script-memory 67108864
		lockd-script-steps 10000000
		maxmemory 0
		maxmemory-clients 0
		maxmemory-eviction-tenacity 10
		maxmemory-samples 5
		notify-keyspace-events
		proto-max-bulk-len 536870912
		set-max-intset-entries 512
		set-max-listpack-entries 128
		set-max-listpack-value 64
		slowlog-log-slower-than 10000
		slowlog-max-len 128
		stream-node-max-bytes 4096
		stream-node-max-entries 100
		tcp-keepalive 300
		timeout 0
		tracking-table-max-keys 1000000
		zset-max-listpack-entries 128
		zset-max-listpack-value 64
		zset-max-ziplist-entries 128
		zset-max-ziplist-value 64`},
	{"lockd has no such files: every write is on the disks of a majority before it is answered, " +
		"snapshots come by themselves, and lockd backup saves a copy", `
		aof-disable-auto-gc no
		aof-load-truncated yes
		aof-rewrite-incremental-fsync yes
		aof-timestamp-enabled no
		aof-use-rdb-preamble yes
		appenddirname appendonlydir
		appendfilename appendonly.aof
		appendfsync everysec always
		appendonly no yes
		auto-aof-rewrite-min-size 67108864
		auto-aof-rewrite-percentage 100
		dbfilename dump.rdb
		no-appendfsync-on-rewrite no
		propagation-error-behavior ignore
		rdb-del-sync-files no
		rdb-save-incremental-fsync yes
		rdbchecksum yes
		rdbcompression yes
		sanitize-dump-payload no
		save 3600 1 300 100 60 10000
		shutdown-on-sigint default
		shutdown-on-sigterm default
		stop-writes-on-bgsave-error yes`},
	{"lockd evicts nothing and ends leases in the order of its log: beyond maxmemory (CONFIG SET) " +
		"writes are refused", `
		active-expire-effort 1
		lazyfree-lazy-eviction no
		lazyfree-lazy-expire no
		lazyfree-lazy-server-del no
		lazyfree-lazy-user-del no
		lazyfree-lazy-user-flush no
		lfu-decay-time 1
		lfu-log-factor 10
		maxmemory-policy noeviction`},
	{"lockd replicates through Raft: a write waits for a majority, a read sees every write before it, " +
		"and whoever can leads", `
		min-replicas-max-lag 10
		min-replicas-to-write 0
		min-slaves-max-lag 10
		min-slaves-to-write 0
		repl-backlog-size 1048576
		repl-backlog-ttl 3600
		repl-disable-tcp-nodelay no
		repl-diskless-load disabled
		repl-diskless-sync yes
		repl-diskless-sync-delay 5
		repl-diskless-sync-max-replicas 0
		repl-ping-replica-period 10
		repl-ping-slave-period 10
		repl-timeout 60
		replica-announced yes
		replica-full-sync-buffer-limit 0
		replica-ignore-disk-write-errors no
		replica-ignore-maxmemory yes
		replica-lazy-flush no
		replica-priority 100
		replica-read-only yes
		replica-serve-stale-data yes
		slave-ignore-maxmemory yes
		slave-lazy-flush no
		slave-priority 100
		slave-read-only yes
		slave-serve-stale-data yes`},
	{"nodes know each other by --peer-secret-file, or by --peer-tls-cert-file, --peer-tls-key-file " +
		"and --peer-tls-ca-cert-file", `
		masterauth
		masteruser
		tls-client-cert-file
		tls-client-key-file
		tls-client-key-file-pass
		tls-cluster no
		tls-replication no`},
	{"--advertise, --tls-advertise and --peer-advertise say where a node is reached", `
		cluster-announce-bus-port 0
		cluster-announce-hostname
		cluster-announce-human-nodename
		cluster-announce-ip
		cluster-announce-port 0
		cluster-announce-tls-port 0
		cluster-preferred-endpoint-type ip
		replica-announce-ip
		replica-announce-port 0
		slave-announce-ip
		slave-announce-port 0`},
	{"lockd is one shard with all slots, which Raft keeps; --cluster names its members", `
		cluster-allow-pubsubshard-when-down yes
		cluster-allow-reads-when-down no
		cluster-allow-replica-migration yes
		cluster-config-file nodes.conf
		cluster-link-sendbuf-limit 0
		cluster-migration-barrier 1
		cluster-ping-interval 1000
		cluster-replica-no-failover no
		cluster-replica-validity-factor 10
		cluster-require-full-coverage yes
		cluster-slave-no-failover no
		cluster-slave-validity-factor 10`},
	{"--heartbeat says how soon a leader is missed", `
		cluster-node-timeout 15000`},
	{"--peer-listen says where peers are let in", `
		cluster-port 0`},
	{"lockd logs to standard error, one event a line: --log-format json for programs; systemd or a " +
		"container keeps it", `
		crash-log-enabled yes
		crash-memcheck-enabled yes
		hide-user-data-from-log no
		logfile
		syslog-enabled no
		syslog-facility local0
		syslog-ident redis`},
	{"lockd stays in the foreground under its own name, for systemd or a container, and uses the " +
		"processors that it is given", `
		always-show-logo no
		aof-rewrite-cpulist
		aof_rewrite_cpulist
		bgsave-cpulist
		bgsave_cpulist
		bio-cpulist
		bio_cpulist
		daemonize no
		disable-thp yes
		ignore-warnings
		io-threads 1
		io-threads-do-reads no
		jemalloc-bg-thread yes
		locale-collate
		oom-score-adj no
		oom-score-adj-values 0 200 800
		pidfile
		proc-title-template {title} {listen-addr} {server-mode}
		server-cpulist
		server_cpulist
		set-proc-title yes
		shutdown-timeout 10
		supervised no auto systemd`},
	{"Go's memory is not tuned by it", `
		active-defrag-cycle-max 25
		active-defrag-cycle-min 1
		active-defrag-ignore-bytes 104857600
		active-defrag-max-scan-fields 1000
		active-defrag-threshold-lower 10
		active-defrag-threshold-upper 100
		activedefrag no
		dynamic-hz yes
		hll-sparse-max-bytes 3000`},
	{"lockd takes what the system gives: the backlog of net.core.somaxconn, the permissions of the " +
		"umask", `
		bind-source-addr
		max-new-connections-per-cycle 10
		max-new-tls-connections-per-cycle 1
		socket-mark-id 0
		tcp-backlog 511
		unixsocketperm 0`},
	{"lockd speaks TLS 1.2 and 1.3 with Go's ciphers, reads keys without a passphrase, and " +
		"authorities from --tls-ca-cert-file", `
		tls-ca-cert-dir
		tls-ciphers
		tls-ciphersuites
		tls-dh-params-file
		tls-key-file-pass
		tls-prefer-server-ciphers no
		tls-protocols
		tls-session-cache-size 20480
		tls-session-cache-timeout 300
		tls-session-caching yes`},
	{"there are 16 databases", `
		databases 16`},
	{"INFO latencystats has the percentiles 50, 99 and 99.9", `
		latency-tracking-info-percentiles 50 99 99.9`},
	{"lockd has nothing of that: no modules, and no commands to look into the server by", `
		acl-pubsub-default resetchannels
		enable-debug-command no
		enable-module-command no
		enable-protected-configs no
		gopher-enabled no
		key-load-delay 0
		loadmodule
		lua-enable-deprecated-api no
		lua-replicate-commands yes
		rdb-key-save-delay 0
		watchdog-period 0`},
}

// refused maps settings that lockd cannot honour, because the node would behave differently or admit clients that the
// file keeps out, to advice on what to do instead. Lines with an empty value, and "replicaof no one", have no effect.
var refused = map[string]string{
	"aclfile": "users are state of the cluster, no file of them is read at start, and without the line everybody may do " +
		"more: take it out, start with --aclfile FILE, and have ACL LOAD at any node take the file's users, once",
	"user": "users are state of the cluster and in no file, and without the line everybody may do more: take it out, " +
		"and give the users by ACL SETUSER at any node, once",
	"rename-command": "lockd renames no commands, and without the line this one is there for everybody: take it out, " +
		"and take the command from users by ACL SETUSER, as in ACL SETUSER default -config",
	"replicaof": "the node would be a server of its own beside the other: a new node joins a cluster by --join " +
		"HOST:PORT, and those of a new one are listed by --cluster",
	"sentinel": "this is a file of Redis Sentinel: a node of lockd is a sentinel for clients by --sentinel-listen and " +
		"--master-name",
}

func init() {
	refused["slaveof"] = refused["replicaof"]
}

// OfCluster is the Instead of settings that are replicated.
const OfCluster = "it is a setting of the whole cluster and no node's: CONFIG SET at any node, once, changes it, and it " +
	"survives restarts"

// Meaning is the treatment of a setting that lockd does not have under this name.
type Meaning struct {
	Refused bool   // a node may not start with it
	Instead string // what lockd does, or what to do
	usual   []string
}

var meanings = readMeanings()

func readMeanings() map[string]Meaning {
	all := map[string]Meaning{}
	for _, group := range noSettings {
		for line := range strings.Lines(group.lines) {
			if words := strings.Fields(line); len(words) > 0 {
				all[words[0]] = Meaning{Instead: group.instead, usual: words[1:]}
			}
		}
	}
	return all
}

// MeaningOf finds what a name means; ok is false if Redis has no such name.
func MeaningOf(name string) (m Meaning, ok bool) {
	if why, ok := refused[name]; ok {
		return Meaning{Refused: true, Instead: why}, true
	}
	m, ok = meanings[name]
	return m, ok
}

// Names lists all names that MeaningOf knows.
func Names() []string {
	var names []string
	for name := range meanings {
		names = append(names, name)
	}
	for name := range refused {
		names = append(names, name)
	}
	return names
}

// AsksNothing reports whether a line has no effect: it states the default of Redis, or a part of the default such as
// one class of buffers, or removes something that is absent.
func (m Meaning) AsksNothing(args []string) bool {
	asked := sizes(args)
	if asked == "" || m.Refused && asked == "no one" {
		return true
	}
	return !m.Refused && strings.Contains(" "+sizes(m.usual)+" ", " "+asked+" ")
}

var units = map[string]int64{"b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}

// sizes joins words, with sizes converted to bytes: a file may say 64mb where CONFIG GET answers in bytes.
func sizes(words []string) string {
	var same []string
	for _, word := range words {
		word = strings.ToLower(word)
		digits := strings.TrimRight(word, "bgkm")
		unit := units[word[len(digits):]]
		if n, err := strconv.ParseInt(digits, 10, 32); err == nil && unit > 0 {
			word = strconv.FormatInt(n*unit, 10)
		}
		if word == "replica" {
			word = "slave"
		}
		same = append(same, word)
	}
	return strings.TrimSpace(strings.Join(same, " "))
}
