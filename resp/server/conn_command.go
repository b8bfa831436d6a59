package server

import (
	"slices"

	"lockd/resp"
	"lockd/resp/server/describe"
)

const informative = resp.Loading | resp.Stale

func commandRows() []row {
	sub := func(name string, arity int, since, summary, syntax string, run func(*session, resp.Args) resp.Reply) row {
		return row{Spec: resp.Spec{Name: "command|" + name, Arity: arity, Flags: informative,
			Group: "server", Since: since,
			Summary: summary, Syntax: syntax}, Run: action{run: run}}
	}
	return []row{resp.WithHelp("5.0.0", always, row{
		Spec: resp.Spec{Name: "command", Arity: -1, Flags: informative, Group: "server", Since: "2.8.13",
			Summary: "Get array of Redis command details"},
		Run: action{run: commandAll, onSentinel: true},
		Subs: []row{
			sub("count", 2, "2.8.13", "Get total number of Redis commands", "", commandCount),
			sub("info", -2, "2.8.13", "Get array of specific Redis command details, or all when no argument is given.",
				"[command-name [command-name ...]]", commandInfo),
			sub("docs", -2, "7.0.0", "Get array of specific Redis command documentation",
				"[command-name [command-name ...]]", commandDocs),
			sub("getkeys", -4, "2.8.13", "Extract keys given a full Redis command", "command [arg [arg ...]]",
				commandGetKeys),
			sub("getkeysandflags", -4, "7.0.0", "Extract keys and access flags given a full Redis command",
				"command [arg [arg ...]]", commandGetKeysAndFlags),
			sub("list", -2, "7.0.0", "Get an array of Redis command names",
				"[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", commandList),
		},
	})}
}

func commandAll(s *session, _ resp.Args) resp.Reply {
	elems := make([]resp.Reply, 0, len(s.srv.index.specs))
	for _, spec := range s.srv.index.specs {
		elems = append(elems, describe.Info(spec))
	}
	return resp.Array(elems...)
}

func commandCount(s *session, _ resp.Args) resp.Reply {
	return resp.Int(int64(len(s.srv.index.specs)))
}

func commandInfo(s *session, args resp.Args) resp.Reply {
	if len(args) == 2 {
		return commandAll(s, args)
	}
	elems := make([]resp.Reply, 0, len(args)-2)
	for _, name := range args[2:] {
		if spec := s.srv.index.lookup(name); spec != nil {
			elems = append(elems, describe.Info(spec))
		} else {
			elems = append(elems, resp.Nil())
		}
	}
	return resp.Array(elems...)
}

func commandDocs(s *session, args resp.Args) resp.Reply {
	specs := s.srv.index.specs
	if len(args) > 2 {
		specs = nil
		for _, name := range args[2:] {
			if spec := s.srv.index.lookup(name); spec != nil {
				specs = append(specs, spec)
			}
		}
	}
	return describe.Docs(specs)
}

// keysOf finds the keys of the command in call.
func keysOf(x *index, call resp.Args) (*resp.Spec, []string, error) {
	spec := x.lookup(call[0])
	if spec == nil {
		return nil, nil, resp.Error("ERR Invalid command specified")
	}
	if spec.Leaf(call) == nil {
		return nil, nil, resp.Error("ERR Invalid command specified")
	}
	leaf, _ := spec.Check(call)
	if leaf == nil {
		return nil, nil, resp.Error("ERR Invalid number of arguments specified for command")
	}
	if leaf.Keys == resp.NoKeys {
		return nil, nil, resp.Error("ERR The command has no key arguments")
	}
	keys, ok := leaf.Keys.Of(call)
	switch {
	case ok && namesKeys(leaf, call):
		return leaf, keys, nil
	case leaf.Flags&resp.NoMandatoryKeys != 0:
		return leaf, nil, nil
	}
	return nil, nil, resp.Error("ERR Invalid arguments specified for command")
}

// namesKeys reports whether a call has keys: its count of keys, if there is one, is positive.
func namesKeys(spec *resp.Spec, call resp.Args) bool {
	if spec.Keys.NumAt == 0 {
		return true
	}
	n, ok := resp.ParseInt(call[spec.Keys.NumAt])
	return ok && n > 0
}

func commandGetKeys(s *session, args resp.Args) resp.Reply {
	_, keys, err := keysOf(s.srv.index, args[2:])
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Bulks(keys...)
}

func commandGetKeysAndFlags(s *session, args resp.Args) resp.Reply {
	spec, keys, err := keysOf(s.srv.index, args[2:])
	if err != nil {
		return resp.Fail(err)
	}
	elems := make([]resp.Reply, len(keys))
	for i, key := range keys {
		elems[i] = resp.Array(resp.Bulk(key), describe.KeyFlags(spec, args[2:], i))
	}
	return resp.Array(elems...)
}

func commandList(s *session, args resp.Args) resp.Reply {
	keep := func(*resp.Spec) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) != 5 || !resp.Is(args[2], "FILTERBY"):
		return resp.Err(resp.ErrSyntax)
	case resp.Is(args[3], "MODULE"):
		keep = func(*resp.Spec) bool { return false }
	case resp.Is(args[3], "ACLCAT"):
		want := "@" + lower(args[4])
		keep = func(spec *resp.Spec) bool { return slices.Contains(describe.Categories(spec), want) }
	case resp.Is(args[3], "PATTERN"):
		keep = func(spec *resp.Spec) bool { return globOne(args[4], spec.Name) }
	default:
		return resp.Err(resp.ErrSyntax)
	}
	var names []string
	for _, spec := range s.srv.index.specs {
		s.charge((1 + len(spec.Subs)) * workPerRow)
		for _, one := range append([]*resp.Spec{spec}, spec.Subs...) {
			if keep(one) {
				names = append(names, one.Name)
			}
		}
	}
	return resp.Bulks(names...)
}
