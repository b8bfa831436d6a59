package acl

import (
	"strings"
	"testing"

	"lockd/resp"
)

// knownForTests has a command of each kind that a check distinguishes.
func knownForTests() *Commands {
	return NewCommands([]*resp.Spec{
		{Name: "get", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO access", Group: "string"},
		{Name: "set", Arity: -3, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW access update variable_flags", Group: "string"},
		{Name: "copy", Arity: -3, Flags: resp.Write, Keys: resp.TwoKeys, Access: "1 RO access; 2 OW update", Group: "generic"},
		{Name: "exists", Arity: -2, Flags: resp.ReadOnly, Keys: resp.AllKeys, Access: "RO", Group: "generic"},
		{Name: "zunionstore", Arity: -4, Flags: resp.Write, Keys: resp.Keys{First: 1, Last: 1, Step: 1, NumAt: 2}, Group: "sorted-set"},
		{Name: "publish", Arity: 3, Flags: resp.PubSub, Group: "pubsub"},
		{Name: "subscribe", Arity: -2, Flags: resp.PubSub, Group: "pubsub"},
		{Name: "psubscribe", Arity: -2, Flags: resp.PubSub, Group: "pubsub"},
		{Name: "sunsubscribe", Arity: -1, Flags: resp.PubSub, Keys: resp.AllKeys, Group: "pubsub"},
		{Name: "auth", Arity: -2, Flags: resp.NoAuth, Group: "connection"},
		{Name: "select", Arity: 2, Group: "connection"},
		{Name: "config", Arity: -2, Group: "server", Subs: []*resp.Spec{
			{Name: "config|get", Arity: -3, Flags: resp.Admin, Group: "server"},
			{Name: "config|set", Arity: -4, Flags: resp.Admin, Group: "server"},
		}},
		{Name: "lock", Arity: -5, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW access insert", Group: "lockd"},
		{Name: "locks", Arity: -2, Group: "lockd", Subs: []*resp.Spec{
			{Name: "locks|info", Arity: 3, Flags: resp.ReadOnly, Keys: resp.SubKey, Access: "RO access", Group: "lockd"},
			{Name: "locks|force", Arity: -5, Flags: resp.Write, Keys: resp.SubKey, Access: "RW delete", Group: "lockd"},
		}},
	})
}

func withRules(t testing.TB, known *Commands, rules string) *User {
	t.Helper()
	u, err := New(known, "u").With(known, strings.Fields(rules))
	if err != nil {
		t.Fatal(rules, err)
	}
	return u
}

// A call is allowed by the rules of one selector, or denied for the reason that Redis gives.
func TestCheck(t *testing.T) {
	known := knownForTests()
	for _, c := range []struct {
		rules, call string
		want        Reason
		object      string
	}{
		{"", "GET k", DeniedCommand, "get"},
		{"", "AUTH x", Allowed, ""}, // of those who have not said who they are
		{"+get", "GET k", DeniedKey, "k"},
		{"+get ~k", "GET k", Allowed, ""},
		{"+get ~k*", "GET other", DeniedKey, "other"},
		{"+get %R~k", "GET k", Allowed, ""},
		{"+get %W~k", "GET k", DeniedKey, "k"},
		{"+set %W~k", "SET k v", Allowed, ""},
		{"+set %W~k", "SET k v GET", DeniedKey, "k"},
		{"+set %RW~k", "SET k v GET", Allowed, ""},
		{"+set %W~get", "SET get get", Allowed, ""}, // a key and a value
		{"+copy %R~a %W~b", "COPY a b", Allowed, ""},
		{"+copy %R~a %W~b", "COPY b a", DeniedKey, "b"},
		{"+exists %W~k", "EXISTS k", Allowed, ""}, // it reads nothing
		{"+exists %W~k", "EXISTS k other", DeniedKey, "other"},
		{"+zunionstore %W~d %R~s*", "ZUNIONSTORE d 2 s1 s2", Allowed, ""},
		{"+zunionstore %W~d %R~s*", "ZUNIONSTORE s1 1 d", DeniedKey, "s1"},
		{"+@all -get ~*", "GET k", DeniedCommand, "get"},
		{"+@all -@string ~*", "SET k v", DeniedCommand, "set"},
		{"+@lock ~*", "LOCK k t PX 1", Allowed, ""},
		{"+@lock ~*", "LOCKS INFO k", Allowed, ""},
		{"+@lock ~*", "LOCKS FORCE k REASON x", DeniedCommand, "locks|force"},
		{"+@force ~*", "LOCKS FORCE k REASON x", Allowed, ""},
		{"+@force ~*", "LOCKS INFO k", DeniedCommand, "locks|info"},
		{"+@pubsub resetchannels", "SUBSCRIBE c", DeniedChannel, "c"},
		{"+@pubsub resetchannels", "SUNSUBSCRIBE c", Allowed, ""}, // everybody may leave
		{"+config|get", "CONFIG GET x", Allowed, ""},
		{"+config|get", "CONFIG SET x y", DeniedCommand, "config|set"},
		{"+config -config|set", "CONFIG SET x y", DeniedCommand, "config|set"},
		{"+select|0", "SELECT 0", Allowed, ""},
		{"+select|0", "SELECT 1", DeniedCommand, "select"},
		{"+publish &a*", "PUBLISH ab x", Allowed, ""},
		{"+publish &a*", "PUBLISH b x", DeniedChannel, "b"},
		{"+subscribe &a", "SUBSCRIBE a b", DeniedChannel, "b"},
		{"+psubscribe &a*", "PSUBSCRIBE a*", Allowed, ""},
		{"+psubscribe &a*", "PSUBSCRIBE ab*", DeniedChannel, "ab*"},
		{"+get ~a (+set ~b)", "SET b v", Allowed, ""},
		{"+get ~a (+set ~b)", "SET a v", DeniedKey, "a"},
		{"+exists ~a (+exists ~b)", "EXISTS a b", DeniedKey, "b"}, // the selectors do not add up
	} {
		u := withRules(t, known, c.rules)
		call := resp.Args(strings.Fields(c.call))
		if got, object, _ := u.Check(known.Called(call), call); got != c.want || object != c.object {
			t.Errorf("%q, %s: %d %q, want %d %q", c.rules, c.call, got, object, c.want, c.object)
		}
	}
}

// A user's text makes the same user of a new one.
func TestTextReadsBack(t *testing.T) {
	known := knownForTests()
	for _, rules := range []string{
		"", "on nopass allkeys allchannels allcommands", "on >a >b <a ~x %R~y %W~z &c", "reset -@all +@string -get +config|get +select|0",
		"+@all -@dangerous +config -config|set (+get ~a* %R~b &c) (allkeys +@write) skip-sanitize-payload", `~a"b ~(x)`,
	} {
		u := withRules(t, known, rules)
		again, err := Read(known, "u", u.Text())
		if err != nil || again.Text() != u.Text() {
			t.Errorf("%s: %q, %v, want %q", rules, again.Text(), err, u.Text())
			continue
		}
		for _, line := range []string{"GET x", "SET x v GET", "CONFIG GET x", "CONFIG SET x y", "SELECT 0", "PUBLISH c x"} {
			call := resp.Args(strings.Fields(line))
			cmd := known.Called(call)
			was, _, _ := u.Check(cmd, call)
			if is, _, _ := again.Check(cmd, call); is != was {
				t.Errorf("%s, %s: %d, want %d", rules, line, is, was)
			}
		}
	}
}

// A password lets in who gives it, and its text is nowhere.
func TestLets(t *testing.T) {
	known := knownForTests()
	u := withRules(t, known, "on >secret")
	if !u.Lets("secret") || u.Lets("Secret") || u.Lets("") || strings.Contains(u.Text(), "secret") {
		t.Error(u.Text())
	}
	if withRules(t, known, "off >secret").Lets("secret") || withRules(t, known, "on").Lets("") || !withRules(t, known, "on nopass").Lets("any") {
		t.Error("who is off, or has no password, comes in by none; nopass by any")
	}
	if d := NewDefault(known).WithPassword("p"); d.Lets("q") || !d.Lets("p") || d.Open() {
		t.Error("requirepass is the password of a default user without one")
	}
}

// Rules are bounded: in number, in patterns and in bytes.
func TestLimits(t *testing.T) {
	known := knownForTests()
	for _, rules := range [][]string{
		make([]string, rulesMax+1), strings.Fields(strings.Repeat("~", 1) + strings.Repeat("x", rulesBytesMax)),
	} {
		if _, err := New(known, "u").With(known, rules); err == nil {
			t.Error(len(rules), "rules are taken")
		}
	}
	var many []string
	for i := range patternsMax + 1 {
		many = append(many, "~"+strings.Repeat("a", i%40)+strings.Repeat("b", i/40))
	}
	if _, err := New(known, "u").With(known, many); err == nil || !strings.Contains(err.Error(), string(errPatterns)) {
		t.Error(err)
	}
}

// What a check of a user with patterns costs for the usual call.
func BenchmarkCheck(b *testing.B) {
	known := knownForTests()
	u := withRules(b, known, "+@lock ~jobs:* ~app:*")
	call := resp.Args{"LOCK", "app:order:123", "token", "PX", "30000"}
	cmd := known.Called(call)
	for b.Loop() {
		if why, _, _ := u.Check(cmd, call); why != Allowed {
			b.Fatal(why)
		}
	}
}

// A file of users is read whole or not at all; what is wrong with it is said in Redis's words.
func TestReadFile(t *testing.T) {
	known := knownForTests()
	text := "# users\r\nuser alice on >x ~a* +get\n\nuser bob off (+set ~b*) (%R~c +get)\n"
	users, err := ReadFile(known, "F", text)
	if err != nil {
		t.Fatal(err)
	}
	want := "user alice on #" + Hash("x") + " ~a* resetchannels -@all +get\n" +
		"user bob off resetchannels -@all (~b* resetchannels -@all +set) (%R~c resetchannels -@all +get)\n" +
		"user default on nopass ~* &* +@all\n"
	if got := users.Text(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if again, err := ReadFile(known, "F", want); err != nil || again.Text() != want || again.Bytes() != users.Bytes() {
		t.Errorf("read again: %v %v", again, err)
	}

	_, err = ReadFile(known, "F", "user default on\nusr bob\nuser a b c\nuser alice on +gett +ge\nuser alice on\n  # c\n"+
		"user x\ty on\nuser q \"on\nuser p (+get\nuser\n")
	const wrong = "ERR F:2 should start with user keyword followed by the username. F:3: Syntax error. " +
		"F:4: Error in applying operation '+gett': Unknown command or category name in ACL. " +
		"F:4: Error in applying operation '+ge': Unknown command or category name in ACL. " +
		"WARNING: Duplicate user 'alice' found on line 5. 'F:7: username 'x\ty' contains invalid characters. F:8: Syntax error. " +
		"F:9: Unmatched parenthesis in acl selector starting at '(+get'.. " +
		"F:10 should start with user keyword followed by the username. " +
		"WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
	if err == nil || err.Error() != wrong {
		t.Errorf("%v\nwant %s", err, wrong)
	}
}
