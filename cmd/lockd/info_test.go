package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// absentFields are fields of Redis's INFO that lockd does not show, with the reason.
var absentFields = []struct{ why, names string }{
	{"Redis is written in C", `Server\.(atomicvar_api|gcc_version|monotonic_clock)`},
	{"nothing is forked to save, and no module is loaded", `Persistence\.(.*cow.*|current_.*|module_fork.*)`},
	{"there is neither an RDB nor an AOF file", `Persistence\.(rdb_saves|rdb_last_load_.*|aof_rewrites.*)`},
	{"there is no stream to replicas: Raft has a port of its own", `(Stats\..*_repl_.*|Memory\.mem_(replication_backlog|total_replication_buffers|aof_buffer|cluster_links))`},
	{"Go's runtime is the allocator, also of the scripts", `(Memory\.(rss_overhead_.*|used_memory_vm_.*|lazyfreed_objects)|Stats\..*active_defrag.*)`},
	{"nothing is evicted, migrated or restored", `Stats\.(.*eviction_exceeded_time|migrate_cached_sockets|dump_payload_sanitizations)`},
	{"a lease ends by an entry of the log, not in a cycle", `Stats\.(expire_cycle_cpu_milliseconds|slave_expires_tracked_keys)`},
	{"each client has a goroutine", `(CPU\.used_cpu_.*_main_thread|Stats\.(io_threaded_.*|reply_buffer_.*))`},
}

// INFO has the fields of Redis 7.0.15, as a server of that version has listed them, in its
// sections: exporters and dashboards look for them by name.
func TestInfoHasRedisFields(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/info-7.0.15.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := startSingle(t).client().Info(context.Background(), "everything").Result()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	section := ""
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n") {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			section = name
		}
		name, _, _ := strings.Cut(line, ":")
		have[section+"."+name] = true
	}
	for name := range strings.FieldsSeq(string(list)) {
		if why := absent(name); have[name] == (why != "") {
			t.Errorf("%s: shown %v, absent because %q", name, have[name], why)
		}
	}
}

func absent(name string) string {
	for _, a := range absentFields {
		if regexp.MustCompile("^" + a.names + "$").MatchString(name) {
			return a.why
		}
	}
	return ""
}

// Programs take a field whose name ends with _version for a number of parts.
func TestVersionsOfInfoAreNumbers(t *testing.T) {
	t.Parallel()
	text, err := startSingle(t).client().Info(t.Context(), "everything").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "_version") && !regexp.MustCompile(`^\d+(\.\d+)*$`).MatchString(value) {
			t.Error(line)
		}
	}
	for _, want := range []string{"\r\nlockd_release:" + version + "\r\n", "\r\ngo_release:" + runtime.Version() + "\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// CONFIG RESETSTAT resets the same fields as in Redis, in every package that counts.
func TestResetStat(t *testing.T) {
	t.Parallel()
	p := startSingle(t)
	c, ctx := p.client(), t.Context()
	figures := func() map[string]string {
		t.Helper()
		all := map[string]string{}
		for line := range strings.SplitSeq(strings.ReplaceAll(c.Info(ctx, "everything").Val(), "\r", ""), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				all[name] = value
			}
		}
		return all
	}
	c.Set(ctx, "k", "v", 0)
	c.Set(ctx, "short", "v", time.Millisecond)
	eventually(t, startTimeout, "a lease ends", func() error {
		if n := c.Exists(ctx, "short").Val(); n > 0 {
			return errors.New("it runs")
		}
		return nil
	})
	c.Get(ctx, "k")
	c.Get(ctx, "none")
	c.Do(ctx, "NOSUCH")
	counted := []string{
		"keyspace_hits", "keyspace_misses", "expired_keys", "total_error_replies", "total_connections_received",
	}
	for _, name := range counted {
		if figures()[name] == "0" {
			t.Errorf("%s does not count", name)
		}
	}
	if err := c.ConfigResetStat(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	now := figures()
	for _, name := range counted {
		if now[name] != "0" {
			t.Errorf("%s:%s", name, now[name])
		}
	}
	for name := range now {
		if strings.HasPrefix(name, "errorstat_") || strings.HasPrefix(name, "cmdstat_get") || strings.HasPrefix(name, "latency_percentiles_usec_get") {
			t.Errorf("%s:%s", name, now[name])
		}
	}
}
