//go:build golden

package keyspace

import (
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/settings"
)

// differentDefaults are the parameters whose defaults differ from those of Redis 7.0, with the reason.
var differentDefaults = map[string]string{
	"proto-max-bulk-len":        "a value has 8 MiB at most: an entry of the log travels whole",
	"client-query-buffer-limit": "what is read ahead is bounded by the largest request",
	"appendonly":                "each write is in the log before its reply",
	"appendfsync":               "likewise",
	"save":                      "snapshots are taken by the size of the log",
	"replica-serve-stale-data":  "a node that hears no leader answers no reads",
	"slave-serve-stale-data":    "likewise",
	"protected-mode":            "the node's own setting, which hides this one",
}

// absentParameters are Redis's parameters that are none of the machine, by what they are about.
var absentParameters = map[string]string{
	"the node's own, in its flags and in the server's CONFIG GET": "port bind bind-source-addr unixsocket unixsocketperm dir " +
		"requirepass aclfile tls-* tcp-backlog socket-mark-id supervised pidfile logfile syslog-* set-proc-title " +
		"proc-title-template always-show-logo shutdown-* crash-* oom-score-adj* disable-thp *_cpulist *cpulist " +
		"io-threads-do-reads jemalloc-bg-thread ignore-warnings enable-* locale-collate",
	"replication of Redis, which Raft is in the place of": "repl-* replica-* slave-* master* cluster-* " +
		"propagation-error-behavior min-* acl-pubsub-default",
	"files of Redis": "rdb* aof* appenddirname auto-aof-* no-appendfsync-on-rewrite sanitize-dump-payload",
	"cycles and encodings that lockd does not have": "active-* hll-sparse-max-bytes",
}

// The defaults are Redis's, or their difference has a reason. This comes first: transcripts change settings.
func TestGoldenDefaults(t *testing.T) {
	referee := dialReferee(t)
	all, _ := referee.do("CONFIG", "GET", "*")
	theirs := map[string]string{}
	for i := 0; i+1 < len(all.Elems); i += 2 {
		theirs[all.Elems[i].Str] = all.Elems[i+1].Str
	}
	ours := map[string]string{}
	for _, p := range settings.Parameters {
		for _, name := range []string{p.Name, p.Alias} {
			if name != "" {
				ours[name] = p.Value
			}
		}
	}
	for name, value := range ours {
		theirs, known := theirs[name]
		reason := differentDefaults[name]
		switch {
		case !known: // lockd's, or a later Redis's
		case value != theirs && reason == "":
			t.Errorf("%s is %q, in Redis %q", name, value, theirs)
		case value == theirs && reason != "" && name != "save": // the referee is started with --save ''
			t.Errorf("%s is as in Redis, and does not differ because %s", name, reason)
		}
	}
	for name := range theirs {
		if _, known := ours[name]; !known && !isAbsent(name) {
			t.Errorf("Redis's %s is missing, and there is no reason", name)
		}
	}
}

func isAbsent(name string) bool {
	for _, names := range absentParameters {
		if slices.ContainsFunc(strings.Fields(names), func(glob string) bool {
			head, rest, wild := strings.Cut(glob, "*")
			return glob == name || wild && strings.HasPrefix(name, head) && strings.HasSuffix(name, rest)
		}) {
			return true
		}
	}
	return false
}
