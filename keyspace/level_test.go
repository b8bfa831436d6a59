package keyspace

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"lockd/luavm"
	"lockd/resp"
	"lockd/resp/acl"
)

// withNextLevel lets the machines of a test have one level more, which has the command NEW, and a subcommand more. It
// returns the commands of that level.
func withNextLevel(t *testing.T) *commandSet {
	row := func(name string, level int) resp.Row[parser] {
		return resp.Row[parser]{
			Spec: resp.Spec{Name: name, Arity: 2, Flags: resp.Write, Keys: resp.FirstKey, Group: "string", Level: level}, Run: parseIncr(1),
		}
	}
	object := row("object", 0)
	object.Subs = []resp.Row[parser]{row("object|old", 0), row("object|new", Level+1)}
	set := *table.Row(table.Lookup("set"))
	setUser := *table.Row(table.Lookup("acl"))
	eval := *table.Row(table.Lookup("eval"))
	config := *table.Row(table.Lookup("config"))
	rows := resp.NewTable([]resp.Row[parser]{row("new", Level+1), object, set, setUser, eval, config})
	at := func(level int) *commandSet {
		l := &commandSet{table: rows.At(level), elsewhere: elsewhere}
		l.known = acl.NewCommands(l.table.Specs(), elsewhere.Specs())
		return l
	}
	was := commandSets
	t.Cleanup(func() { commandSets = was })
	commandSets = append(slices.Clone(was[:Level]), at(Level), at(Level+1))
	return commandsAt(Level + 1)
}

// A command of the next level is none before, for scripts and rules too, and the same words mean
// what they meant to the release before. Who has the right to a category has it once there is the command.
func TestLanguageOfALevel(t *testing.T) {
	next := withNextLevel(t)
	m := New(luavm.New())
	mustApply(t, m, at(1), 0, "ACL SETUSER alice ~* +@string +@scripting")
	alice := func(line string) string {
		words, _ := resp.SplitWords(line)
		results, _ := m.Apply(at(1), []resp.Request{{Cmds: []resp.Cmd{{Args: words}}, User: "alice"}})
		return plain(results[0].Replies[0])
	}
	spec, _ := next.table.Find(resp.Args{"new", "k"})
	for _, level := range []struct {
		sets func()
		want map[string]string
	}{
		{func() {}, map[string]string{
			`EVAL "return redis.call('new','k')" 0`:          "Unknown Redis command called from script",
			`EVAL "return redis.call('new')" 0`:              "Unknown Redis command called from script",
			`EVAL "return redis.call('object','new','k')" 0`: "Unknown Redis command called from script",
			`EVAL "return redis.acl_check_cmd('new','k')" 0`: "Invalid command passed",
			`EVAL "return redis.call('object','old')" 0`:     "1",
			"ACL SETUSER bob +new":                           "Unknown command or category name in ACL",
			"ACL SETUSER bob +object|new":                    "Unknown command or category name in ACL",
		}},
		{func() { m.SetLevel(Level + 1) }, map[string]string{
			`EVAL "return redis.call('new','k')" 0`:          "1",
			`EVAL "return redis.call('new')" 0`:              "Wrong number of args",
			`EVAL "return redis.acl_check_cmd('new','k')" 0`: "1",
			"ACL SETUSER bob +new":                           "OK",
			"ACL SETUSER bob +object|new":                    "OK",
		}},
	} {
		level.sets()
		for line, want := range level.want {
			if got := alice(line); !strings.Contains(got, want) {
				t.Errorf("level %d: %s: %s, want %s", m.state.Level, line, got, want)
			}
		}
		call := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"new", "x"}, Spec: &spec.Spec}}}
		results, _ := m.Apply(at(1), []resp.Request{call})
		if known := !results[0].Replies[0].IsErr(); known != (m.state.Level > Level) {
			t.Errorf("level %d: %v", m.state.Level, results[0].Replies)
		}
		var b, again bytes.Buffer
		if err := m.Snapshot()(&b); err != nil {
			t.Fatal(err)
		}
		copied := New(luavm.New())
		copied.SetLevel(m.state.Level)
		if err := copied.Restore(bytes.NewReader(b.Bytes())); err != nil {
			t.Fatalf("level %d: %v", m.state.Level, err)
		}
		if err := copied.Snapshot()(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) || copied.state.Level != m.state.Level {
			t.Errorf("level %d: the image differs, level %d, %v", m.state.Level, copied.state.Level, err)
		}
	}
}
