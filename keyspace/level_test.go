package keyspace

import (
	"bytes"
	"strings"
	"testing"

	"lockd/luavm"
	"lockd/resp"
	"lockd/resp/acl"
)

// nextLanguages are those of this level, and of one that has the command NEW, and a subcommand more.
func nextLanguages() (now, next *commandSet) {
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
	return at(Level), at(Level + 1)
}

// A command of the next level is none before, for scripts and rules too, and the same words mean
// what they meant to the release before. Who has the right to a category has it once there is the command.
func TestLanguageOfALevel(t *testing.T) {
	now, next := nextLanguages()
	m := New(luavm.New())
	m.useCommands(Level, now)
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
		{func() { m.useCommands(Level+1, next) }, map[string]string{
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
				t.Errorf("level %d: %s: %s, want %s", m.level, line, got, want)
			}
		}
		call := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"new", "x"}, Spec: &spec.Spec}}}
		results, _ := m.Apply(at(1), []resp.Request{call})
		if known := !results[0].Replies[0].IsErr(); known != (m.level > Level) {
			t.Errorf("level %d: %v", m.level, results[0].Replies)
		}
		var b, again bytes.Buffer
		if err := m.Snapshot()(&b); err != nil {
			t.Fatal(err)
		}
		copied := New(luavm.New())
		copied.useCommands(m.level, m.commandSet)
		if err := copied.Restore(bytes.NewReader(b.Bytes())); err != nil {
			t.Fatalf("level %d: %v", m.level, err)
		}
		if err := copied.Snapshot()(&again); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) || copied.level != m.level {
			t.Errorf("level %d: the image differs, level %d, %v", m.level, copied.level, err)
		}
	}
}
