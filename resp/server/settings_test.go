package server

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// from is a listener whose clients come from another address.
type from struct {
	net.Listener
	addr net.Addr
}

func (f from) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	return elsewhere{conn, f.addr}, err
}

type elsewhere struct {
	net.Conn
	addr net.Addr
}

func (e elsewhere) RemoteAddr() net.Addr { return e.addr }

// Without a password clients of other machines are refused in Redis's words, unless it
// was said that they may come.
func TestProtectedMode(t *testing.T) {
	const pong, denied, noauth = "+PONG\r\n", "-" + errProtected + "\r\n", "-NOAUTH Authentication required.\r\n"
	for name, tt := range map[string]struct {
		addr     net.Addr
		password string
		protect  bool
		want     string
	}{
		"another machine":      {&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7)}, "", true, denied},
		"another, IPv6":        {&net.TCPAddr{IP: net.ParseIP("fd00::7")}, "", true, denied},
		"with a password":      {&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7)}, "secret", true, noauth},
		"not protected":        {&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7)}, "", false, pong},
		"this machine":         {&net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}, "", true, pong},
		"this machine, IPv6":   {&net.TCPAddr{IP: net.IPv6loopback}, "", true, pong},
		"this machine, mapped": {&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1")}, "", true, pong},
		"a Unix socket":        {&net.UnixAddr{Name: "x", Net: "unix"}, "", true, pong},
	} {
		t.Run(name, func(t *testing.T) {
			srv, _, local := startServer(t, func(c *Config) { c.Protect, c.Password = tt.protect, tt.password })
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go srv.Serve(from{l, tt.addr})
			c := dial(t, l.Addr().String())
			if tt.want != denied {
				c.send("PING\r\n")
			}
			c.want(tt.want)
			if tt.want != denied {
				return
			}
			c.wantClosed()
			if srv.stats.Rejected.Load() != 1 {
				t.Error("not counted")
			}
			admin := dial(t, local)
			admin.send("CONFIG SET protected-mode no\r\nCONFIG GET protected-mode\r\n")
			admin.want("+OK\r\n*2\r\n$14\r\nprotected-mode\r\n$2\r\nno\r\n")
			c = dial(t, l.Addr().String())
			c.send("PING\r\n")
			c.want(pong)
		})
	}
}

// CONFIG SET changes settings of the node together with replicated ones, or none of them.
func TestConfigSetOwn(t *testing.T) {
	level := &slog.LevelVar{}
	level.Set(slog.LevelError)
	_, fake, addr := startServer(t, func(c *Config) {
		c.LogLevel = level
		c.Log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: level}))
	})
	c := dial(t, addr)
	ask := func(line, want string) {
		t.Helper()
		c.send(line + "\r\n")
		c.want(strings.ReplaceAll(want, "|", "\r\n") + "\r\n")
	}
	ask("CONFIG GET loglevel", "*2|$8|loglevel|$7|warning")
	ask("CONFIG SET loglevel loud", "-ERR CONFIG SET failed (possibly related to argument 'loglevel') - argument(s) must be one of the following: debug, verbose, notice, warning")
	ask("CONFIG SET protected-mode maybe", "-ERR CONFIG SET failed (possibly related to argument 'protected-mode') - argument must be 'yes' or 'no'")
	ask("CONFIG SET loglevel debug port 1", "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config")
	if level.Level() != slog.LevelError {
		t.Error("a failed CONFIG SET changed the level")
	}
	ask("CONFIG SET LOGLEVEL Verbose timeout 7", "+OK")
	ask("CONFIG GET loglevel", "*2|$8|loglevel|$7|verbose")
	if level.Level() != slog.LevelInfo || fake.hub.settings.IdleSeconds.Load() != 7 {
		t.Error(level, fake.hub.settings.IdleSeconds.Load())
	}
	for word, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "verbose": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
	} {
		ask("CONFIG SET loglevel "+word, "+OK")
		if level.Level() != want {
			t.Errorf("%s: %v", word, level)
		}
	}
	ask("CONFIG SET loglevel warning", "+OK")
	fake.failing = "ERR no"
	ask("CONFIG SET loglevel debug timeout 8", "-ERR no")
	if got := level.Level(); got == slog.LevelDebug {
		t.Error("a failed CONFIG SET changed the level")
	}
}
