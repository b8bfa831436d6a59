package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"lockd/resp"
)

// A node that has just started does not serve what the cluster does before it knows the users that the
// cluster has by now: its clients would be those of a fresh server.
func TestUsersAreLearntFirst(t *testing.T) {
	srv, fake, addr := startServer(t, func(c *Config) { c.Node = justStarted })
	c := dial(t, addr)
	fake.mu.Lock()
	fake.failing = resp.ErrNotDone
	fake.mu.Unlock()
	c.send("PING\r\nGET k\r\n")
	c.want("+PONG\r\n-" + resp.ErrNotDone + "\r\n")
	fake.mu.Lock()
	user, err := fake.users.Default().With(fake.known, []string{"-get"})
	if err != nil {
		t.Fatal(err)
	}
	fake.failing, fake.users, fake.rev = "", fake.users.With(user), 3
	fake.mu.Unlock()
	c.send("GET k\r\n")
	c.want("-NOPERM this user has no permissions to run the 'get' command\r\n")

	// What comes late from the log is no news any more.
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageUser, Channel: "default", Payload: "on nopass ~* &* +@all", Index: 2}})
	c.send("GET k\r\n")
	c.want("-NOPERM this user has no permissions to run the 'get' command\r\n")
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageUser, Channel: "default", Payload: "on nopass ~* &* +@all", Index: 4}})
	c.send("GET k\r\n")
	c.want("$-1\r\n")
}

// A request with scripts names the user whose rights bind them, unless that user may do everything; other requests do
// not.
func TestScriptsNameTheirUser(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c, admin := dial(t, addr), dial(t, addr)
	admin.send("ACL SETUSER alice on >pw ~* +eval +get\r\n")
	admin.want("+OK\r\n")
	c.send("AUTH alice pw\r\n")
	c.want("+OK\r\n")
	for _, x := range []struct {
		c          *testClient
		line, user string
	}{{c, "EVAL x 0", "alice"}, {c, "GET k", ""}, {admin, "EVAL x 0", ""}} {
		x.c.send(x.line + "\r\n")
		x.c.want("$-1\r\n")
		fake.mu.Lock()
		if fake.user != x.user {
			t.Errorf("%s: %q, want %q", x.line, fake.user, x.user)
		}
		fake.mu.Unlock()
	}
}

// What scripts were denied is in ACL LOG, in Redis's words: of a request and of a transaction.
func TestScriptsDenialsAreLogged(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	admin, c := dial(t, addr), dial(t, addr)
	admin.send("ACL SETUSER alice on nopass ~a* +eval +multi +exec +ping\r\n")
	admin.want("+OK\r\n")
	fake.mu.Lock()
	fake.denied = []resp.Denial{{Reason: "command", Object: "incr"}, {Reason: "key", Object: "b"}}
	fake.mu.Unlock()
	const eval = "EVAL script 0\r\n"
	c.send("AUTH alice x\r\n" + eval + "MULTI\r\n" + eval + "EXEC\r\nPING\r\n")
	c.want("+OK\r\n$-1\r\n+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n+PONG\r\n")
	var got []string
	for _, e := range srv.aclLog.Newest(10, srv.clock()).Elems {
		for _, i := range []int{3, 5, 7, 9} {
			got = append(got, e.Elems[i].Str)
		}
		got = append(got, strconv.FormatInt(e.Elems[1].Int, 10))
		if client := e.Elems[13].Str; !strings.Contains(client, "user=alice") {
			t.Error(client)
		}
	}
	if want := "key lua b alice 2 command lua incr alice 2"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A password is neither sent to the backend nor kept by SLOWLOG.
func TestNoPasswordLeavesTheSession(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "slowlog-log-slower-than", Payload: "0"}})
	c := dial(t, addr)
	c.send("ACL SETUSER alice on >sesame\r\n")
	c.want("+OK\r\n")
	fake.mu.Lock()
	sent := fmt.Sprint(fake.lastArgs)
	fake.mu.Unlock()
	if kept := fmt.Sprint(srv.slowlog.Newest(10, false)); strings.Contains(sent+kept, "sesame") || !strings.Contains(sent, "#") {
		t.Errorf("%s %s", sent, kept)
	}
}
