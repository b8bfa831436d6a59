package settings

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"lockd/resp/server/wire"
)

// Values arrive as CONFIG SET accepts them, with Redis's units; what does not concern connections is ignored.
func TestClusterApply(t *testing.T) {
	c := NewCluster()
	for _, s := range []struct {
		name, value string
		of          func() int64
		want        int64
	}{
		{"timeout", "30", c.IdleSeconds.Load, 30},
		{"maxclients", "5", c.ClientsMax.Load, 5},
		{"slowlog-log-slower-than", "-1", c.SlowlogMicros.Load, -1},
		{"proto-max-bulk-len", "2mb", c.BulkBytesMax.Load, 2 << 20},
		{"proto-max-bulk-len", "2M", c.BulkBytesMax.Load, 2000 * 1000},
		{"client-query-buffer-limit", "1GB", c.QueryBytesMax.Load, 1 << 30},
		{"tracking-table-max-keys", "0", c.TrackedKeysMax.Load, 0},
		{"timeout", "thirty", c.IdleSeconds.Load, 30},
		{"timeout", "9000000000gb", c.IdleSeconds.Load, 30},
		{"maxmemory", "7", c.ClientsMax.Load, 5},
	} {
		if c.Apply(s.name, s.value); s.of() != s.want {
			t.Errorf("%s %s: %d, want %d", s.name, s.value, s.of(), s.want)
		}
	}
}

// Of client-output-buffer-limit only the class of subscribers counts.
func TestPushLimit(t *testing.T) {
	c := NewCluster()
	c.Apply("client-output-buffer-limit", "normal 1 2 3 pubsub 4kb 5 6")
	want := wire.PushLimit{Hard: 4096, Soft: 5, SoftSeconds: 6}
	if got := c.PushLimit(); got != want {
		t.Errorf("%+v", got)
	}
	c.Apply("client-output-buffer-limit", "normal 7 8 9")
	c.Apply("client-output-buffer-limit", "pubsub 7 8")
	if got := c.PushLimit(); got != want {
		t.Errorf("%+v after values that have no such class", got)
	}
}

func newNode() (*Node, *slog.LevelVar) {
	level := &slog.LevelVar{}
	return NewNode(NodeConfig{
		Fixed: map[string]string{"port": "6379", RequirePass: "secret"}, Protect: true, ClientsMax: 100,
		LogLevel: level, SeatsMax: func() int64 { return 1000 },
	}), level
}

// A node's own settings change when change is called, not before; wrong values and fixed settings are refused.
func TestNodeSet(t *testing.T) {
	for _, s := range []struct{ name, value, wrong string }{
		{"protected-mode", "NO", ""},
		{"protected-mode", "maybe", "argument must be 'yes' or 'no'"},
		{"pubsub-count", "node", ""},
		{"pubsub-count", "all", "argument(s) must be one of the following: cluster, node"},
		{"maxclients", "1000", ""},
		{"maxclients", "0", "argument must be between 1 and 4294967295 inclusive"},
		{"maxclients", "many", "argument couldn't be parsed into an integer"},
		{"maxclients", "1001", "The operating system is not able to handle the specified number of clients, try with 1000"},
		{"loglevel", "warning", ""},
		{"loglevel", "loud", "argument(s) must be one of the following: debug, verbose, notice, warning"},
		{"port", "6379", ""},
		{"port", "1", "can't set immutable config"},
	} {
		n, _ := newNode()
		before, _ := n.Value(s.name)
		change, err := n.Set(s.name, s.value)
		if err != nil {
			if err.Error() != s.wrong {
				t.Errorf("%s %s: %v", s.name, s.value, err)
			}
			continue
		}
		if s.wrong != "" {
			t.Errorf("%s %s is accepted", s.name, s.value)
		}
		if now, _ := n.Value(s.name); now != before {
			t.Errorf("%s is %s too early", s.name, now)
		}
		change()
		if again, err := n.Set(s.name, s.value); again == nil || err != nil {
			t.Errorf("%s %s again: %v", s.name, s.value, err)
		}
		if now, _ := n.Value(s.name); now != strings.ToLower(s.value) {
			t.Errorf("%s is %s, not %s", s.name, now, s.value)
		}
	}
}

// The typed values follow the settings.
func TestNodeValues(t *testing.T) {
	n, level := newNode()
	if !n.Protected() || !n.CountsCluster() || n.ClientsMax() != 100 {
		t.Error("the values at the start are others")
	}
	for _, s := range [][2]string{{"protected-mode", "no"}, {"pubsub-count", "node"}, {"maxclients", "7"}, {"loglevel", "debug"}} {
		change, err := n.Set(s[0], s[1])
		if err != nil {
			t.Fatal(err)
		}
		change()
	}
	if n.Protected() || n.CountsCluster() || n.ClientsMax() != 7 || level.Level() != slog.LevelDebug {
		t.Error("a change had no effect")
	}
	n.SetLogLevel(slog.LevelError)
	if word, _ := n.Value("loglevel"); word != "warning" || level.Level() != slog.LevelError {
		t.Errorf("level %v is told as %s", level.Level(), word)
	}
	want := []string{"loglevel", "maxclients", "port", "protected-mode", "pubsub-count", RequirePass}
	if names := n.Names(); !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// Without limits and level of its own a node has no settings for them.
func TestNodeWithoutOwn(t *testing.T) {
	n := NewNode(NodeConfig{})
	if _, has := n.Value("maxclients"); has || n.ClientsMax() != 0 {
		t.Error("it has maxclients of its own")
	}
	n.SetLogLevel(slog.LevelError)
	if _, err := n.Set(RequirePass, "x"); err == nil {
		t.Error("a password that is not there was changed")
	}
}
