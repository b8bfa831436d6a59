package resp

import (
	"slices"
	"strings"
	"testing"
)

func testTable() *Table[string] {
	return NewTable(
		[]Row[string]{
			{Spec: Spec{Name: "get", Arity: 2, Flags: ReadOnly | Fast, Keys: FirstKey}, Run: "get"},
			{Spec: Spec{Name: "del", Arity: -2, Flags: Write, Keys: AllKeys}, Run: "del"},
		},
		[]Row[string]{
			{Spec: Spec{Name: "client", Arity: -2}, Subs: []Row[string]{
				{Spec: Spec{Name: "client|setname", Arity: 3}, Run: "client|setname"},
				{Spec: Spec{Name: "client|kill", Arity: -3}, Run: "client|kill"},
			}},
			{Spec: Spec{Name: "command", Arity: -1}, Run: "command", Subs: []Row[string]{
				{Spec: Spec{Name: "command|count", Arity: 2}, Run: "command|count"},
			}},
		})
}

// A request finds its row in any case, a subcommand's row through its container;
// what does not fit gets the very bytes that Redis 7.0.15 answered.
func TestFind(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	const unknown = "ERR unknown command '"
	const with = "', with args beginning with: "
	for _, c := range []struct {
		args Args
		want string // the row, or the error
	}{
		{Args{"get", "k"}, "get"},
		{Args{"GET", "k"}, "get"},
		{Args{"dEl", "k", "k"}, "del"},
		{Args{"client", "setname", "n"}, "client|setname"},
		{Args{"CLIENT", "SetName", "n"}, "client|setname"},
		{Args{"client", "KILL", "a", "b"}, "client|kill"},
		{Args{"command"}, "command"},
		{Args{"command", "count"}, "command|count"},

		{Args{"get"}, "ERR wrong number of arguments for 'get' command"},
		{Args{"GET", "a", "b"}, "ERR wrong number of arguments for 'get' command"},
		{Args{"del"}, "ERR wrong number of arguments for 'del' command"},
		{Args{"client"}, "ERR wrong number of arguments for 'client' command"},
		{Args{"client", "setname"}, "ERR wrong number of arguments for 'client|setname' command"},
		{Args{"CLIENT", "SETNAME", "a", "b"}, "ERR wrong number of arguments for 'client|setname' command"},

		{Args{"client", "nosuch"}, "ERR unknown subcommand 'nosuch'. Try CLIENT HELP."},
		{Args{"CLIENT", "NoSuch", "x"}, "ERR unknown subcommand 'NoSuch'. Try CLIENT HELP."},
		{Args{"client", x(200)}, "ERR unknown subcommand '" + x(128) + "'. Try CLIENT HELP."},
		{Args{"client", "a\x00b"}, "ERR unknown subcommand 'a'. Try CLIENT HELP."},
		{Args{"client", "\u017fetname", "n"}, "ERR unknown subcommand '\u017fetname'. Try CLIENT HELP."},

		{Args{"foo"}, unknown + "foo" + with},
		{Args{"foo", "bar"}, unknown + "foo" + with + "'bar' "},
		{Args{"FoO", "a b", "c'd"}, unknown + "FoO" + with + "'a b' 'c'd' "},
		{Args{"foo", ""}, unknown + "foo" + with + "'' "},
		{Args{"", "a"}, unknown + with + "'a' "},
		{Args{"foo", x(200)}, unknown + "foo" + with + "'" + x(128) + "' "},
		{Args{x(200)}, unknown + x(128) + with},
		{Args{x(200), "y"}, unknown + x(128) + with + "'y' "},
		{Args{"foo", "a\x00b", "c"}, unknown + "foo" + with + "'a' 'c' "},
		{Args{"fo\x00o", "a"}, unknown + "fo" + with + "'a' "},
		{Args{"get\x00", "k"}, unknown + "get" + with + "'k' "},
		{Args{"foo", x(125), "y"}, unknown + "foo" + with + "'" + x(125) + "' "},
		{Args{"foo", x(124), "yyy"}, unknown + "foo" + with + "'" + x(124) + "' 'y' "},
		{append(Args{"foo"}, slices.Repeat(Args{"abcdefghij"}, 20)...), unknown + "foo" + with + strings.Repeat("'abcdefghij' ", 10)},
		{Args{"client|setname", "n"}, unknown + "client|setname" + with + "'n' "},
	} {
		row, fail := testTable().Find(c.args)
		got := fail.Str
		if row != nil {
			got = row.Name
		}
		if got != c.want || (row != nil && row.Run != c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.args, got, c.want)
		}
	}
}

// Line breaks in an unknown name cannot forge a reply.
func TestUnknownCommandBytes(t *testing.T) {
	got := string(UnknownCommand(Args{"foo\r\nbar", "q\r\nw"}).AppendTo(nil, 2))
	if want := "-ERR unknown command 'foo  bar', with args beginning with: 'q  w' \r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = string(UnknownSubcommand("config", "foo\r\nx").AppendTo(nil, 2))
	if want := "-ERR unknown subcommand 'foo  x'. Try CONFIG HELP.\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Lookup and Specs show the top rows, with their subcommands, in order.
func TestTableSpecs(t *testing.T) {
	table := testTable()
	var names []string
	for _, s := range table.Specs() {
		names = append(names, s.Name)
		for _, sub := range s.Subs {
			names = append(names, sub.Name)
		}
		if table.Lookup(strings.ToUpper(s.Name)) != s {
			t.Errorf("Lookup does not find %s", s.Name)
		}
	}
	if got, want := strings.Join(names, " "), "get del client client|setname client|kill command command|count"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, name := range []string{"", "nosuch", "client|kill", strings.Repeat("g", 1000)} {
		if s := table.Lookup(name); s != nil {
			t.Errorf("Lookup(%.10q) finds %s", name, s.Name)
		}
	}
}

// Two rows of one name, and a subcommand named after another command, are refused.
func TestNewTableRefuses(t *testing.T) {
	for name, rows := range map[string][]Row[int]{
		"twice":      {{Spec: Spec{Name: "a"}}, {Spec: Spec{Name: "a"}}},
		"misnamed":   {{Spec: Spec{Name: "a"}, Subs: []Row[int]{{Spec: Spec{Name: "b|c"}}}}},
		"overlength": {{Spec: Spec{Name: strings.Repeat("a", nameMax+1)}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			NewTable(rows)
		}()
	}
}

// Keys are found among the arguments as Redis's COMMAND GETKEYS finds them.
func TestKeysOf(t *testing.T) {
	for _, c := range []struct {
		keys Keys
		args string
		want string
		ok   bool
	}{
		{NoKeys, "PING", "", true},
		{FirstKey, "GET a", "a", true},
		{FirstKey, "SET a b", "a", true},
		{AllKeys, "DEL a b c", "a b c", true},
		{TwoKeys, "RENAME a b", "a b", true},
		{TwoKeys, "COPY a b REPLACE", "a b", true},
		{PairKeys, "MSET a 1 b 2", "a b", true},
		{PairKeys, "MSET a 1 b", "a b", true},
		{FirstKey, "GET", "", true},
		{EvalKeys, "EVAL src 0", "", true},
		{EvalKeys, "EVAL src 2 a b c", "a b", true},
		{EvalKeys, "EVAL src 2 a", "", false},
		{EvalKeys, "EVAL src -1 a", "", false},
		{EvalKeys, "EVAL src x a", "", false},
		{EvalKeys, "EVAL src 9223372036854775807 a", "", false},
		{EvalKeys, "EVAL src", "", false},
		{Keys{First: 1, Last: 1, Step: 1, NumAt: 2}, "ZUNIONSTORE dst 2 a b WEIGHTS 1 2", "dst a b", true},
		{Keys{First: 1, Last: 1, Step: 1, NumAt: 2}, "ZUNIONSTORE dst 3 a b", "", false},
		{Keys{Half: "STREAMS"}, "XREAD COUNT 1 streams a STREAMS 1 2", "a STREAMS", true},
		{Keys{Half: "STREAMS"}, "XREAD STREAMS a b 1", "a", true},
		{Keys{Half: "STREAMS"}, "XREAD a b c", "", false},
		{Keys{NumAt: 1, Step: 2}, "MSETEX 2 a 1 b 2 EX 10", "a b", true},
		{Keys{NumAt: 1, Step: 2}, "MSETEX 2 a 1 b", "", false},
	} {
		got, ok := c.keys.Of(strings.Fields(c.args))
		if strings.Join(got, " ") != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v", c.args, got, ok)
		}
	}
}

// Flags are named as COMMAND INFO names them; our own have no name there.
func TestFlagNames(t *testing.T) {
	got := strings.Join((Fast | Write | DenyOOM | CountsReceivers).Names(), " ")
	if got != "write denyoom fast" {
		t.Errorf("got %q", got)
	}
	if names := Flags(1<<63 - 1).Names(); len(names) != len(flagNames) {
		t.Errorf("%d names for %d flags", len(names), len(flagNames))
	}
}

// A command that writes waits by its name, one that reads by an option that stands
// where options do; WAIT does not wait for data.
func TestBlocks(t *testing.T) {
	pop := &Spec{Flags: Write | Blocking}
	read := &Spec{Flags: ReadOnly | Blocking, Keys: Keys{Half: "STREAMS"}, Waits: "BLOCK"}
	wait := &Spec{Flags: NoScript | Blocking}
	for _, c := range []struct {
		spec *Spec
		args string
		want bool
	}{
		{pop, "BLPOP k 0", true},
		{&Spec{Flags: Write}, "LPOP k", false},
		{&Spec{Flags: ReadOnly}, "GET BLOCK", false},
		{read, "XREAD STREAMS a 0", false},
		{read, "XREAD COUNT 1 block 0 STREAMS a 0", true},
		{read, "XREAD COUNT 1 streams BLOCK 0", false},
		{wait, "WAIT 1 0", false},
	} {
		if got := c.spec.Blocks(strings.Fields(c.args)); got != c.want {
			t.Errorf("%s: %v", c.args, got)
		}
	}
}

// HELP shows the syntax and summary of the rows of a container.
func TestWithHelp(t *testing.T) {
	text := func(r Reply) string {
		var b strings.Builder
		for _, e := range r.Elems {
			b.WriteString(e.Str + "\n")
		}
		return b.String()
	}
	row := WithHelp("5.0.0", text, Row[string]{
		Spec: Spec{Name: "config", Arity: -2, Flags: Admin, Group: "server"},
		Subs: []Row[string]{
			{Spec: Spec{Name: "config|get", Syntax: "parameter [parameter ...]", Summary: "Get values"}},
			{Spec: Spec{Name: "config|reset", Summary: "Forget all"}},
		},
	})
	help := row.Subs[len(row.Subs)-1]
	if want := `CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
GET parameter [parameter ...]
    Get values
RESET
    Forget all
HELP
    Print this help.
`; len(row.Subs) != 3 || help.Run != want {
		t.Errorf("%d subcommands, the last answers\n%s", len(row.Subs), help.Run)
	}
	if s := help.Spec; s.Name != "config|help" || s.Arity != 2 || s.Flags != Admin|Loading|Stale || s.Since != "5.0.0" ||
		s.Group != "server" {
		t.Errorf("%+v", s)
	}
	row = WithHelp("5.0.0", text, Row[string]{Spec: Spec{Name: "command", Arity: -1, Summary: "List all"}})
	if !strings.Contains(row.Subs[0].Run, "\n(no subcommand)\n    List all\nHELP\n") {
		t.Errorf("a container that is a command too answers\n%s", row.Subs[0].Run)
	}
}

// A table as of a level has no row of a later one, nor such a subcommand, and leaves the whole table as it is.
func TestTableAt(t *testing.T) {
	sub := func(name string, level int) Row[int] {
		return Row[int]{Spec: Spec{Name: name, Arity: 2, Level: level}, Run: level}
	}
	box := Row[int]{Spec: Spec{Name: "box", Arity: -2}, Subs: []Row[int]{sub("box|old", 0), sub("box|new", 2)}}
	whole := NewTable([]Row[int]{sub("old", 1), sub("new", 2), box, {Spec: Spec{Name: "plain", Arity: 1}}})
	for _, c := range []struct {
		level int
		call  string
		want  string
	}{
		{1, "old x", ""}, {1, "plain", ""}, {1, "box old", ""},
		{1, "new x", "unknown command 'new'"}, {1, "new", "unknown command 'new'"}, {1, "box new", "unknown subcommand"},
		{2, "new x", ""}, {2, "box new", ""}, {2, "new", "wrong number of arguments"}, {3, "new x", ""},
	} {
		row, fail := whole.At(c.level).Find(strings.Fields(c.call))
		if (row != nil) != (c.want == "") || !strings.Contains(fail.Str, c.want) {
			t.Errorf("level %d: %s: %v, %v", c.level, c.call, row, fail)
		}
		if row != nil && whole.Row(&row.Spec) != row {
			t.Errorf("level %d: %s: the row is not that of its spec", c.level, c.call)
		}
	}
	if row, _ := whole.Find(Args{"box", "new"}); row == nil || row.Run != 2 || len(whole.At(1).Specs()) != 3 {
		t.Errorf("%v, %v", row, whole.At(1).Specs())
	}
}
