package server

import (
	"strings"
	"testing"

	"lockd/resp"
)

// shown reads one line of MONITOR, without the time and the client.
func (c *testClient) shown() string {
	c.t.Helper()
	line := c.line()
	_, words, ok := strings.Cut(line, "] ")
	if !ok || line[0] != '+' {
		c.t.Fatalf("%q", line)
	}
	return strings.TrimSuffix(words, "\r\n")
}

// MONITOR hides names and passwords, shows scripts, and cuts long arguments.
func TestMonitorHidesSecrets(t *testing.T) {
	_, _, addr := startServer(t, func(c *Config) { c.Password = "secret" })
	m, c := dial(t, addr), dial(t, addr)
	m.send("AUTH secret\r\nMONITOR\r\n")
	m.want("+OK\r\n+OK\r\n")
	long := strings.Repeat("x", monitorArgBytesMax+3)
	c.send("HELLO 3 AUTH default secret SETNAME me\r\n")
	c.send("AUTH default secret\r\nEVAL 'return 1' 0\r\n")
	c.send(string(resp.AppendCommand(nil, "SET", "k", long)))
	for _, want := range []string{
		`"HELLO" "3" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me"`, `"AUTH" "(redacted)" "(redacted)"`, `"EVAL" "return 1" "0"`,
		`"SET" "k" "` + long[:monitorArgBytesMax] + `"... (3 more bytes)`,
	} {
		if got := m.shown(); got != want {
			t.Errorf("%.200s\nwant %.200s", got, want)
		}
	}
}

// The lines go between replies to the monitoring client, in RESP3 too, and after the reply to its own command.
func TestMonitorBetweenReplies(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	m, c := dialTracker(t, addr, ""), dial(t, addr)
	m.send("MONITOR\r\n")
	m.want("+OK\r\n")
	const rounds = 200
	c.send(strings.Repeat("ECHO other\r\n", rounds)) // runs while m asks, too
	others := 0
	for range rounds {
		m.send("ECHO mine\r\n")
		for line := m.line(); line != "$4\r\n"; line = m.line() {
			others += strings.Count(line, `"ECHO" "other"`)
		}
		m.want("mine\r\n")
		for m.shown() != `"ECHO" "mine"` {
			others++
		}
	}
	for ; others < rounds; others++ {
		if got := m.shown(); got != `"ECHO" "other"` {
			t.Fatal(got)
		}
	}
	m.conn.Close()
	eventually(t, "nobody is shown anything", func() bool { return !srv.hub.monitors.some.Load() })
}

// Too many cannot monitor, and one that does not read is dropped.
func TestMonitorLimits(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "client-output-buffer-limit", Payload: "pubsub 1000 0 0"}})
	for range monitorsMax {
		m := dial(t, addr)
		m.send("MONITOR\r\n")
		m.want("+OK\r\n")
	}
	c := dial(t, addr)
	c.send("MONITOR\r\n")
	c.want("-ERR too many clients are monitoring\r\n")
	big := strings.Repeat("x", monitorArgBytesMax)
	eventually(t, "those who do not read are dropped", func() bool {
		c.send(string(resp.AppendCommand(nil, "ECHO", big)))
		c.want("$1048576\r\n" + big + "\r\n")
		return srv.count() == 1
	})
}
