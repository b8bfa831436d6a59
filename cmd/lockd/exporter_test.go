package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// exporterReads are the fields of INFO ALL that redis_exporter 1.74 turns into metrics and that apply to lockd.
// Fields about absent features are left out: forks, AOF rewrites, eviction, defragmentation, threads, modules,
// replication buffers.
const exporterReads = `
	redis_version redis_build_id redis_mode os tcp_port run_id process_id uptime_in_seconds configured_hz hz
	connected_clients blocked_clients maxclients tracking_clients clients_in_timeout_table pubsub_clients
	client_recent_max_output_buffer client_recent_max_input_buffer
	used_memory used_memory_rss used_memory_peak used_memory_lua used_memory_overhead used_memory_startup
	used_memory_dataset used_memory_scripts used_memory_scripts_eval used_memory_functions number_of_cached_scripts
	number_of_functions number_of_libraries maxmemory maxmemory_policy total_system_memory mem_fragmentation_ratio
	mem_fragmentation_bytes mem_clients_normal mem_clients_slaves mem_not_counted_for_evict
	loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status
	rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec aof_enabled aof_current_size aof_last_write_status
	aof_last_bgrewrite_status
	total_connections_received total_commands_processed rejected_connections total_net_input_bytes
	total_net_output_bytes expired_keys expired_stale_perc expired_time_cap_reached_count evicted_keys evicted_clients
	keyspace_hits keyspace_misses pubsub_channels pubsub_patterns pubsubshard_channels latest_fork_usec
	tracking_total_keys tracking_total_items tracking_total_prefixes total_error_replies unexpected_error_replies
	total_reads_processed total_writes_processed
	role connected_slaves master_replid master_repl_offset second_repl_offset repl_backlog_active repl_backlog_size
	repl_backlog_first_byte_offset repl_backlog_histlen
	used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children cluster_enabled`

// infoAll are the fields of INFO ALL of a node.
func (p *proc) infoAll() map[string]string {
	p.t.Helper()
	text, err := p.client().Info(context.Background(), "all").Result()
	if err != nil {
		p.t.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Every field that redis_exporter reads is present, parses, and is true.
func TestWhatExporterReads(t *testing.T) {
	t.Parallel()
	p := startSingle(t)
	ctx := context.Background()
	c := p.client()
	p.ask("CONFIG", "SET", "slowlog-log-slower-than", "0", "latency-monitor-threshold", "1")
	p.ask("CONFIG", "RESETSTAT") // removes the calls of awaitServing
	for _, line := range []string{
		"SET a 1 PX 100000", "SET b 2", "SET gone 1 PX 1", "GET a", "GET a", "GET nothing", "INCRBY a x", "NOSUCH",
		"EVAL return(1) 0", "GET",
	} {
		words := []any{}
		for _, w := range strings.Fields(line) {
			words = append(words, w)
		}
		_ = c.Do(ctx, words...).Err()
	}
	listener := c.Subscribe(ctx, "news", "more")
	defer listener.Close()
	if _, err := listener.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, startTimeout, "the key is gone", func() error {
		if got := p.infoAll()["expired_keys"]; got != "1" {
			return fmt.Errorf("expired_keys:%s", got)
		}
		return nil
	})

	info := p.infoAll()
	for _, name := range strings.Fields(exporterReads) {
		if _, ok := info[name]; !ok {
			t.Errorf("INFO has no %s", name)
		}
	}
	for name, want := range map[string]string{
		"role": "master", "connected_slaves": "0", "keyspace_hits": "2", "evicted_keys": "0",
		"rejected_connections": "0", "pubsub_clients": "1", "pubsub_channels": "2", "blocked_clients": "0",
		"errorstat_ERR": "count=" + info["total_error_replies"], "number_of_cached_scripts": "1", "maxclients": "10000",
		"rdb_last_bgsave_status": "ok", "aof_last_write_status": "ok",
	} {
		if info[name] != want {
			t.Errorf("%s:%s, want %s", name, info[name], want)
		}
	}
	for name, form := range map[string]string{
		"db0":                          `^keys=2,expires=1,avg_ttl=[0-9]+`,
		"cmdstat_get":                  `^calls=3,usec=[0-9]+,usec_per_call=[0-9.]+,rejected_calls=1,failed_calls=0$`,
		"cmdstat_incrby":               `^calls=1,usec=[0-9]+,usec_per_call=[0-9.]+,rejected_calls=0,failed_calls=1$`,
		"latency_percentiles_usec_get": `^p50=[0-9.]+,p99=[0-9.]+,p99\.9=[0-9.]+$`,
		"used_memory":                  `^[1-9][0-9]*$`, "used_memory_rss": `^[1-9][0-9]*$`, "used_cpu_user": `^[0-9.]+$`,
		"mem_fragmentation_ratio": `^[0-9.]+$`, "uptime_in_seconds": `^[0-9]+$`, "master_repl_offset": `^[1-9][0-9]*$`,
	} {
		if !regexp.MustCompile(form).MatchString(info[name]) {
			t.Errorf("%s:%s is not of the form %s", name, info[name], form)
		}
	}

	list, err := c.ClientList(ctx).Result()
	if err != nil || !strings.HasPrefix(list, "id=") {
		t.Fatal(list, err)
	}
	for part := range strings.FieldsSeq(strings.TrimSpace(list)) {
		if strings.Count(part, "=") != 1 {
			t.Errorf("CLIENT LIST: %q is not read", part)
		}
	}
	slow, err := c.SlowLogGet(ctx, 1).Result()
	if err != nil || len(slow) != 1 || slow[0].ID < 1 || time.Since(slow[0].Time) > startTimeout {
		t.Errorf("SLOWLOG GET: %+v, %v", slow, err)
	}
	if n, err := c.Do(ctx, "SLOWLOG", "LEN").Int(); err != nil || n < 2 {
		t.Errorf("SLOWLOG LEN: %d, %v", n, err)
	}
	histogram, err := c.Do(ctx, "LATENCY", "HISTOGRAM", "get").Result()
	if err != nil || !strings.Contains(strings.ToLower(fmt.Sprint(histogram)), "calls:3") {
		t.Errorf("LATENCY HISTOGRAM: %v, %v", histogram, err)
	}
	for _, name := range []string{"databases", "maxmemory", "maxclients", "io-threads", "port", "timeout"} {
		values, err := c.ConfigGet(ctx, name).Result()
		if _, numErr := strconv.ParseFloat(values[name], 64); err != nil || numErr != nil {
			t.Errorf("CONFIG GET %s: %v, %v", name, values, err)
		}
	}
}
