package keyspace

import (
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/command"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// fakeScripts runs a script without Lua. Each line of it is a command to call; a
// line "return x" ends it with x, "limit" ends it at its limit, "fail" with an
// error. KEYS[1] and ARGV[1] stand for themselves.
type fakeScripts struct{}

func (fakeScripts) Compile(s resp.Script) error {
	if strings.Contains(s.Source, "(") {
		return resp.Error("ERR Error compiling script")
	}
	return nil
}

func (fakeScripts) Run(s resp.Script, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
	last := resp.Nil()
	for _, line := range strings.Split(s.Source, "\n") {
		words := split(line)
		for i, w := range words {
			switch {
			case w == "KEYS[1]" && len(keys) > 0:
				words[i] = keys[0]
			case w == "ARGV[1]" && len(argv) > 0:
				words[i] = argv[0]
			}
		}
		switch {
		case len(words) == 0:
		case words[0] == "return":
			return resp.Bulk(strings.Join(words[1:], " ")), lim, false
		case words[0] == "limit":
			return resp.Err("ERR script limit"), lim, true
		case words[0] == "fail":
			return resp.Err("ERR script failed"), lim, false
		default:
			if last, lim.Steps = call(words, lim.Steps); lim.Steps < 0 {
				lim.Steps = 0
				return resp.Err("ERR script limit"), lim, true
			}
		}
	}
	return last, lim, false
}

// Load reads the lines "function NAME FLAG ..." of a library; what comes before the
// first is its own code, what follows each is the function. A line "limit" or "fail"
// of its own code ends it. Each line takes a step.
func (fakeScripts) Load(lib resp.Script, lim resp.ScriptLimits) (list []resp.Function, left resp.ScriptLimits, err error) {
	if strings.Contains(lib.Source, "(") {
		return nil, lim, resp.Error("ERR Error compiling function")
	}
	for _, line := range strings.Split(lib.Source, "\n") {
		words := split(line)
		if lim.Steps--; len(words) == 0 {
			continue
		}
		switch {
		case lim.Steps < 0, words[0] == "limit" && len(list) == 0:
			return nil, lim, resp.Error("ERR script limit")
		case words[0] == "fail" && len(list) == 0:
			return nil, lim, resp.Error("ERR Error registering functions")
		case words[0] == "function" && len(words) > 1:
			f := resp.Function{Name: words[1]}
			for _, word := range words[2:] {
				if f.Flags |= resp.FunctionFlag(word); word == "described" {
					f.Description, f.Described = "what it does", true
				}
			}
			list = append(list, f)
		}
	}
	return list, lim, nil
}

func (f fakeScripts) Call(lib resp.Script, name string, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
	var lines []string
	inside := false
	for _, line := range strings.Split(lib.Source, "\n") {
		if words := split(line); len(words) > 1 && words[0] == "function" {
			inside = words[1] == name
		} else if inside {
			lines = append(lines, line)
		}
	}
	return f.Run(resp.Script{Source: strings.Join(lines, "\n")}, keys, argv, lim, call)
}

// split reads a command line: words, or text in single quotes.
func split(line string) []string {
	words := []string{}
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		word := ""
		if rest[0] == '\'' {
			word, rest, _ = strings.Cut(rest[1:], "'")
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		words = append(words, word)
	}
	return words
}

func request(db int, lines ...string) resp.Request {
	var req resp.Request
	for _, line := range lines {
		req.Cmds = append(req.Cmds, resp.Cmd{DB: db, Args: split(line)})
	}
	return req
}

// mustApply applies one entry of one request and fails on an error reply.
func mustApply(t testing.TB, m *Machine, at resp.Stamp, db int, lines ...string) []resp.Message {
	t.Helper()
	results, msgs := m.Apply(at, []resp.Request{request(db, lines...)})
	for i, r := range results[0].Replies {
		if r.IsErr() {
			t.Fatalf("%s: %s", lines[i], r.Str)
		}
	}
	return msgs
}

// apply applies one command.
func apply(m *Machine, at resp.Stamp, line string) (resp.Reply, []resp.Message) {
	results, msgs := m.Apply(at, []resp.Request{request(0, line)})
	return results[0].Replies[0], msgs
}

// published leaves out what an entry says to those who track keys, to those who wait for
// them, and to those who hold locks.
func published(msgs []resp.Message) []resp.Message {
	return slices.DeleteFunc(slices.Clone(msgs), func(m resp.Message) bool {
		return m.Kind == resp.MessageChanges || m.Kind == resp.MessageBlock || m.Form != nil
	})
}

// newsIn lists what an entry says of locks, as channel and payload.
func newsIn(msgs []resp.Message) (list []string) {
	for _, m := range msgs {
		if m.Kind == resp.MessageLock {
			list = append(list, m.Form.Channel(m.Event)+" "+m.Form.Payload(m.Event))
		}
	}
	return list
}

// changedKeys lists what an entry says to those who track keys: names, "all" for a flush,
// names with an x before them for expired keys, with a w for those that one who
// waited has changed.
func changedKeys(msgs []resp.Message) (list []string) {
	for _, m := range msgs {
		for _, c := range m.Changes {
			list = append(list, map[resp.ChangeKind]string{resp.ChangeKey: "", resp.ChangeExpired: "x ", resp.ChangeServed: "w ", resp.ChangeAll: "all"}[c.Kind]+c.Key)
		}
	}
	return list
}

func view(m *Machine, at resp.Stamp, db int, line string) resp.Reply {
	return m.View(at, request(db, line)).Replies[0]
}

// plain writes a reply in words.
func plain(r resp.Reply) string {
	switch r.Kind {
	case resp.KindInt, resp.KindBool:
		return decimal(r.Int)
	case resp.KindDouble:
		return resp.FormatDouble(r.Float())
	case resp.KindNil, resp.KindNilArray:
		return "(nil)"
	case resp.KindArray, resp.KindMap, resp.KindSet, resp.KindPairs, resp.KindPairMap:
		var words []string
		for _, e := range r.Elems {
			words = append(words, plain(e))
		}
		return strings.Join(words, " ")
	}
	return r.Str
}

// asking is the request for a blocking command in words.
func asking(session, number uint64, spentMs int64, words []string) resp.Request {
	return resp.BlockAsking(resp.BlockID{Session: session, Number: number}, spentMs, resp.Cmd{Args: words})
}

// cancelling is the request to cancel one.
func cancelling(session, number uint64) resp.Request {
	return resp.BlockTending(nil, []resp.BlockID{{Session: session, Number: number}})
}

// keeping is the request to keep sessions.
func keeping(sessions ...uint64) resp.Request { return resp.BlockTending(sessions, nil) }

// refusal is what a command is answered when a request has done so much work before.
type refusal struct {
	line string
	work int64
	want string
}

// mustRefuse wants commands to be answered so, and to change nothing.
func mustRefuse(t *testing.T, m *Machine, list []refusal) {
	t.Helper()
	before := m.state.Keys.Sequence
	for _, r := range list {
		m.state.Applying = true
		m.state.Meter.BeginRequest(m.state.UsedBytes())
		m.state.Meter.Spend(r.work)
		if got := plain(run(m, resp.Stamp{}, 0, split(r.line))); got != r.want {
			t.Errorf("%s: %.100s, want %s", r.line, got, r.want)
		}
	}
	if m.state.Keys.Sequence != before {
		t.Error("a refused command has changed something")
	}
}

// run executes a command outside of an entry.
func run(m *Machine, at resp.Stamp, db int, args resp.Args) resp.Reply {
	c := command.NewCtx(&m.state, at, db)
	return c.Execute(resp.Cmd{Args: args})
}

// keep stores a value that no command could make.
func keep(m *Machine, key string, v value.Aggregate) {
	m.state.Put(&lifecycle.Cause{}, 0, nil, store.NewEntry(key, nil, value.OfAggregate(v), store.Never, nil, store.NoLock))
}

// lookupSpec returns the row of a command, or of a container, by its name; nil: there is none.
func lookupSpec(name string) *resp.Spec {
	for _, spec := range command.Specs() {
		if strings.EqualFold(spec.Name, name) {
			return spec
		}
	}
	return nil
}
