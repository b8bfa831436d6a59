package server

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockd/resp"
)

// SLOWLOG records commands with a long execution, alone, in a run, or in a transaction; the waiting time is recorded
// separately.
func TestSlowlogIsExecution(t *testing.T) {
	var now atomic.Int64
	srv, fake, addr := startServer(t, func(cfg *Config) {
		cfg.Clock = func() time.Time { return time.UnixMicro(now.Load()) }
	})
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "slowlog-log-slower-than", Payload: "5000"}})
	fake.held = func() { now.Add(1_000_000) } // a slow disk
	c := dial(t, addr)
	logged := 0
	for _, step := range []struct {
		took    time.Duration
		request string
		reply   string
		entry   string // the first word, or ""
	}{
		{4999 * time.Microsecond, "SET a 1\r\n", "+OK\r\n", ""},
		{5 * time.Millisecond, "SET a 1\r\n", "+OK\r\n", "SET"},
		{4 * time.Millisecond, "MULTI\r\nINCR a\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n:2\r\n", ""},
		{7 * time.Millisecond, "MULTI\r\nINCR a\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n:3\r\n", "INCR"},
	} {
		fake.mu.Lock()
		fake.took = step.took
		fake.mu.Unlock()
		c.send(step.request + "PING\r\n") // the answer comes when the first is accounted for
		c.want(step.reply + "+PONG\r\n")
		if step.entry != "" {
			logged++
		}
		entries := srv.slowlog.Newest(-1, true)
		if len(entries) != logged {
			t.Fatalf("%s for %s: %v", step.request, step.took, entries)
		}
		if step.entry == "" {
			continue
		}
		e := entries[0].Elems
		if e[2].Int != step.took.Microseconds() || e[3].Elems[0].Str != step.entry || e[6].Int != 1_000_000-step.took.Microseconds() {
			t.Errorf("%v", e)
		}
	}
}

// The figures of INFO, SLOWLOG and LATENCY come from what was run.
func TestFigures(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	for name, value := range map[string]string{"slowlog-log-slower-than": "0", "latency-monitor-threshold": "1"} {
		srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: name, Payload: value}})
	}
	c := dial(t, addr)
	c.send("SET a x\r\nINCR a\r\nNOSUCH\r\nGET\r\nAUTH default secret\r\n")
	c.want("+OK\r\n-ERR value is not an integer or out of range\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n" +
		"-ERR wrong number of arguments for 'get' command\r\n+OK\r\n")
	got := map[string]string{}
	for _, section := range srv.Info() {
		for _, f := range section.Fields {
			got[f.Name] = f.Value
		}
	}
	for name, want := range map[string]string{
		"redis_version": redisVersion, "lockd_release": "test", "tcp_port": "6379", "connected_clients": "1",
		"total_connections_received": "1", "total_commands_processed": "3", "errorstat_ERR": "count=3", "total_error_replies": "3",
	} {
		if got[name] != want {
			t.Errorf("%s:%s, want %s", name, got[name], want)
		}
	}
	if !strings.HasPrefix(got["cmdstat_incr"], "calls=1,") || !strings.HasSuffix(got["cmdstat_incr"], ",failed_calls=1") {
		t.Error("cmdstat_incr:" + got["cmdstat_incr"])
	}
	entries := srv.slowlog.Newest(-1, true)
	if len(entries) != 2 || entries[0].Elems[3].Elems[1].Str != "(redacted)" || !strings.HasPrefix(entries[1].Elems[3].Elems[3].Str, "... (1 more") {
		t.Error("SLOWLOG", entries)
	}
}
