package command_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace"
	"lockd/keyspace/command"
	"lockd/keyspace/settings"
	"lockd/luavm"
	"lockd/resp"
)

// in returns what a machine answers to a line, in an entry of its own; user may be "".
func in(m *keyspace.Machine, user, line string) string {
	words, _ := resp.SplitWords(line)
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, []resp.Request{{Cmds: []resp.Cmd{{Args: words}}, User: user}})
	return textOf(results[0].Replies[0])
}

func textOf(r resp.Reply) string {
	if len(r.Elems) > 0 {
		words := make([]string, len(r.Elems))
		for i, e := range r.Elems {
			words[i] = textOf(e)
		}
		return strings.Join(words, " ")
	}
	if r.Kind == resp.KindInt {
		return fmt.Sprint(r.Int)
	}
	return r.Str
}

// restored returns a machine of the same level that has opened the image of another, and the image.
func restored(t *testing.T, m *keyspace.Machine, level int) (*keyspace.Machine, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := m.Snapshot()(&b); err != nil {
		t.Fatal(err)
	}
	copied := keyspace.New(luavm.New())
	copied.SetLevel(level)
	if err := copied.Restore(bytes.NewReader(b.Bytes())); err != nil {
		t.Errorf("level %d: %v", level, err)
	}
	return copied, b.Bytes()
}

// A command of the next level is none before, for scripts and rules too, and the same words mean
// what they meant to the release before. Who has the right to a category has it once there is the command.
func TestLanguageOfALevel(t *testing.T) {
	row := command.WithNextLevel(t)
	m := keyspace.New(luavm.New())
	in(m, "", "ACL SETUSER alice ~* +@string +@scripting")
	for level, wants := range []map[string]string{
		command.Level: {
			`EVAL "return redis.call('new','k')" 0`:          "Unknown Redis command called from script",
			`EVAL "return redis.call('new')" 0`:              "Unknown Redis command called from script",
			`EVAL "return redis.call('object','new','k')" 0`: "Unknown Redis command called from script",
			`EVAL "return redis.acl_check_cmd('new','k')" 0`: "Invalid command passed",
			`EVAL "return redis.call('object','old')" 0`:     "1",
			"ACL SETUSER bob +new":                           "Unknown command or category name in ACL",
			"ACL SETUSER bob +object|new":                    "Unknown command or category name in ACL",
		},
		command.Level + 1: {
			`EVAL "return redis.call('new','k')" 0`:          "1",
			`EVAL "return redis.call('new')" 0`:              "Wrong number of args",
			`EVAL "return redis.acl_check_cmd('new','k')" 0`: "1",
			"ACL SETUSER bob +new":                           "OK",
			"ACL SETUSER bob +object|new":                    "OK",
		},
	} {
		if len(wants) == 0 {
			continue
		}
		m.SetLevel(level)
		for line, want := range wants {
			if got := in(m, "alice", line); !strings.Contains(got, want) {
				t.Errorf("level %d: %s: %s, want %s", level, line, got, want)
			}
		}
		call := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"new", "x"}, Spec: row}}}
		results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, []resp.Request{call})
		if known := !results[0].Replies[0].IsErr(); known != (level > command.Level) {
			t.Errorf("level %d: %v", level, results[0].Replies)
		}
		copied, image := restored(t, m, level)
		if _, again := restored(t, copied, level); !bytes.Equal(image, again) {
			t.Errorf("level %d: the image differs", level)
		}
	}
}

// A parameter of the next level is none before: nobody can set or see it, nor is it in an image, and the rules of before
// are those of a build that does not have it. An image of that level has it.
func TestParameterOfALevel(t *testing.T) {
	was, rules := settings.Parameters, keyspace.New(nil).Formats(command.Level)["settings"]
	settings.Parameters = append(slices.Clone(was),
		settings.Parameter{Name: "later", Value: "no", Check: settings.YesNo, Level: command.Level + 1})
	defer func() { settings.Parameters = was }()
	if settings.SumAt(command.Level) != rules || settings.SumAt(command.Level+1) == rules {
		t.Error("the rules")
	}
	command.WithNextLevel(t)
	m := keyspace.New(nil)
	_, empty := restored(t, keyspace.New(nil), command.Level)
	for line, want := range map[string]string{
		"CONFIG SET timeout 5 later yes": "ERR Unknown option or number of arguments for CONFIG SET - 'later'",
		"CONFIG GET timeout lat*r":       "timeout 0",
	} {
		if got := in(m, "", line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	if _, got := restored(t, m, command.Level); len(got) != len(empty) || bytes.Contains(got, []byte("later")) {
		t.Errorf("the image of before: %q, of an empty machine %q", got, empty)
	}
	m.SetLevel(command.Level + 1)
	if got := in(m, "", "CONFIG GET lat*r") + ", " + in(m, "", "CONFIG SET later yes"); got != "later no, OK" {
		t.Error(got)
	}
	copied, of := restored(t, m, command.Level+1)
	if got := in(copied, "", "CONFIG GET later"); got != "later yes" {
		t.Error(got)
	}
	old := keyspace.New(nil)
	if err := old.Restore(bytes.NewReader(of)); err == nil {
		t.Error("a setting of the next level is read at this one")
	}
	for line, want := range map[string]string{"CONFIG SET timeout 1 LATER 1": fmt.Sprint("later ", command.Level+1), "CONFIG SET timeout 1": " 0"} {
		args, _ := resp.SplitWords(line)
		spec, _ := m.Find(args)
		if name, level := spec.ArgLevel(args); fmt.Sprint(name, " ", level) != want {
			t.Errorf("%s: %q comes with level %d", line, name, level)
		}
	}
}
