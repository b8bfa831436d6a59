package keyspace

import (
	"fmt"
	"strings"
	"testing"

	"lockd/luavm"
	"lockd/resp"
)

// A script has the rights that its user has at its place in the log, and one whose user is gone has none.
func TestScriptsHaveTheRightsOfTheirUser(t *testing.T) {
	m := New(luavm.New())
	mustApply(t, m, at(1), 0, "ACL SETUSER alice ~a* +get +set +eval &c", "SET a held")
	as := func(user, line string) string {
		words, _ := resp.SplitWords(line)
		req := resp.Request{Cmds: []resp.Cmd{{Args: words}}, User: user}
		results, _ := m.Apply(at(1), []resp.Request{req})
		return plain(results[0].Replies[0])
	}
	for _, c := range []struct{ user, line, want string }{
		{"alice", `EVAL "return redis.call('get','a')" 0`, "held"},
		{"alice", `EVAL "return redis.call('get','b')" 0`, "can't access at least one of the keys mentioned in the command arguments"},
		{"alice", `EVAL "return redis.call('del','a')" 0`, "can't run this command or subcommand"},
		{"alice", `EVAL "return redis.pcall('incr','a').err" 0`, "can't run this command or subcommand"},
		{"alice", `EVAL "return redis.acl_check_cmd('get','a')" 0`, "1"},
		{"alice", `EVAL "return redis.acl_check_cmd('get','b')" 0`, "nil"},
		{"alice", `EVAL "return redis.acl_check_cmd('del','a')" 0`, "nil"},
		{"", `EVAL "return redis.call('del','a')" 0`, "1"},
		{"bob", `EVAL "return redis.call('get','a')" 0`, "can't run this command or subcommand"},
	} {
		if got := as(c.user, c.line); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s: %s, want %s", c.user, c.line, got, c.want)
		}
	}
	if mustApply(t, m, at(1), 0, "ACL SETUSER alice allchannels allkeys allcommands"); strings.Contains(as("alice", `EVAL "return redis.call('set','b','x')" 0`), "ERR") {
		t.Error("a change does not hold at once")
	}
}

// What scripts were denied is in the result, the first of it, and not what they only asked about.
func TestScriptsDenialsAreTold(t *testing.T) {
	m := New(luavm.New())
	mustApply(t, m, at(1), 0, "ACL SETUSER alice ~a* +get +eval +publish &c")
	denied := func(user string, lines ...string) string {
		req := resp.Request{User: user}
		for _, line := range lines {
			words, _ := resp.SplitWords(line)
			req.Cmds = append(req.Cmds, resp.Cmd{Args: words})
		}
		results, _ := m.Apply(at(1), []resp.Request{req})
		if viewed := m.View(at(1), req); len(lines) == 1 && strings.HasPrefix(lines[0], "EVAL_RO") && len(viewed.Denied) != len(results[0].Denied) {
			t.Errorf("a read: %v", viewed.Denied)
		}
		return fmt.Sprint(results[0].Denied)
	}
	for _, c := range []struct {
		user  string
		lines []string
		want  string
	}{
		{"alice", []string{`EVAL "return redis.call('get','a')" 0`}, "[]"},
		{"alice", []string{`EVAL "return redis.call('get','b')" 0`}, "[{key b}]"},
		{"alice", []string{`EVAL_RO "return redis.call('get','b')" 0`}, "[{key b}]"},
		{"alice", []string{`EVAL "redis.pcall('get','b') redis.pcall('del','a') return redis.pcall('publish','d','x')" 0`,
			`EVAL "return redis.call('config','get','x')" 0`, `EVAL "return redis.call('get','bb')" 0`},
			"[{key b} {command del} {channel d} {key bb}]"},
		{"alice", []string{`EVAL "return redis.acl_check_cmd('get','b')" 0`}, "[]"},
		{"bob", []string{`EVAL "return redis.pcall('get','a')" 0`}, "[{command get}]"},
		{"", []string{`EVAL "return redis.pcall('get','b')" 0`}, "[]"},
		{"alice", []string{`EVAL "for i = 1, 100 do redis.pcall('get','b') end" 0`},
			"[" + strings.TrimSpace(strings.Repeat("{key b} ", resp.DenialsMax)) + "]"},
		{"alice", []string{`EVAL "return redis.pcall('get',string.rep('b',10000))" 0`},
			"[{key " + strings.Repeat("b", resp.DenialBytesMax) + "}]"},
	} {
		if got := denied(c.user, c.lines...); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.user, c.lines, got, c.want)
		}
	}
}

// Every change of users is told once, with a number that only rises.
func TestUsersAreTold(t *testing.T) {
	m := New(nil)
	var told []string
	rev := uint64(0)
	for _, line := range []string{"ACL SETUSER alice on", "ACL SETUSER alice nosuch", "ACL SETUSER bob", "ACL DELUSER alice nobody bob"} {
		_, msgs := apply(m, at(1), line)
		for _, msg := range msgs {
			if msg.Kind != resp.MessageUser || msg.Index != rev+1 {
				t.Errorf("%s: %+v", line, msg)
			}
			rev = msg.Index
			told = append(told, msg.Channel+" "+msg.Payload)
		}
	}
	want := "alice on resetchannels -@all,bob off resetchannels -@all,alice ,bob "
	if got := strings.Join(told, ","); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// ACL LOAD brings all users at once, or none.
func TestUsersAreLoaded(t *testing.T) {
	m := New(nil)
	mustApply(t, m, at(1), 0, "ACL SETUSER old on", "ACL SETUSER alice on")
	const text = "user alice off resetchannels -@all +get\nuser bob on resetchannels -@all\nuser default on nopass ~* &* +@all\n"
	load := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"acl", "load", text}}}}
	results, msgs := m.Apply(at(1), []resp.Request{load})
	if got := plain(results[0].Replies[0]); got != "OK" || m.state.Users.Text() != text {
		t.Errorf("%s, then %q", got, m.state.Users.Text())
	}
	if len(msgs) != 1 || msgs[0].Kind != resp.MessageUsers || msgs[0].Index != 3 || msgs[0].Payload != text {
		t.Errorf("told: %+v", msgs)
	}
	load.Cmds[0].Args[2] = "user carl on resetchannels -@all\nuser dora nosuch"
	results, msgs = m.Apply(at(1), []resp.Request{load})
	if got := plain(results[0].Replies[0]); !strings.HasPrefix(got, "ERR") || m.state.Users.Text() != text || len(msgs) > 0 {
		t.Errorf("%s, then %q, told %+v", got, m.state.Users.Text(), msgs)
	}
}
