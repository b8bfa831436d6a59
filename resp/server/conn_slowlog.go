package server

import "lockd/resp"

func slowlogRows() []row {
	const flags = resp.Admin | resp.Loading | resp.Stale
	return []row{resp.WithHelp("6.2.0", always, row{
		Spec: resp.Spec{Name: "slowlog", Arity: -2, Group: "server", Since: "2.2.12",
			Summary: "A container for slow log commands"},
		Subs: []row{
			{Spec: resp.Spec{Name: "slowlog|get", Arity: -2, Flags: flags, Group: "server", Since: "2.2.12",
				Summary: "Get the slow log's entries", Syntax: "[count]"}, Run: action{run: slowlogGet}},
			{Spec: resp.Spec{Name: "slowlog|len", Arity: 2, Flags: flags, Group: "server", Since: "2.2.12",
				Summary: "Get the slow log's length"}, Run: action{run: slowlogLen}},
			{Spec: resp.Spec{Name: "slowlog|reset", Arity: 2, Flags: flags, Group: "server", Since: "2.2.12",
				Summary: "Clear all entries from the slow log"}, Run: action{run: slowlogReset}},
		},
	})}
}

func slowlogGet(s *session, args resp.Args) resp.Reply {
	n := int64(10)
	if len(args) > 3 {
		return wrongSubcommand("slowlog", args[1])
	}
	if len(args) == 3 {
		var ok bool
		if n, ok = resp.ParseInt(args[2]); !ok || n < -1 {
			return resp.Err("ERR count should be greater than or equal to -1")
		}
	}
	return resp.Array(s.srv.slowlog.Newest(n)...)
}

func slowlogLen(s *session, _ resp.Args) resp.Reply { return resp.Int(s.srv.slowlog.Len()) }

func slowlogReset(s *session, _ resp.Args) resp.Reply {
	s.srv.slowlog.Reset()
	return resp.OK()
}
