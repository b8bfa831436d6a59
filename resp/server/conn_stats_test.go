package server

import (
	"strings"
	"testing"

	"lockd/resp"
)

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
		"redis_version": redisVersion, "lockd_version": "test", "tcp_port": "6379", "connected_clients": "1",
		"total_connections_received": "1", "total_commands_processed": "3", "errorstat_ERR": "count=3", "total_error_replies": "3",
	} {
		if got[name] != want {
			t.Errorf("%s:%s, want %s", name, got[name], want)
		}
	}
	if !strings.HasPrefix(got["cmdstat_incr"], "calls=1,") || !strings.HasSuffix(got["cmdstat_incr"], ",failed_calls=1") {
		t.Error("cmdstat_incr:" + got["cmdstat_incr"])
	}
	entries := srv.slowlog.Newest(-1)
	if len(entries) != 2 || entries[0].Elems[3].Elems[1].Str != "(redacted)" || !strings.HasPrefix(entries[1].Elems[3].Elems[3].Str, "... (1 more") {
		t.Error("SLOWLOG", entries)
	}
}
