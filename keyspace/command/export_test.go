package command

import (
	"slices"
	"testing"

	"lockd/resp"
	"lockd/resp/acl"
)

// WithNextLevel lets the machines of a test have one level more, which has the command NEW, and a subcommand more. It
// returns the row of NEW.
func WithNextLevel(t *testing.T) *resp.Spec {
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
	return commandsAt(Level + 1).table.Lookup("new")
}
