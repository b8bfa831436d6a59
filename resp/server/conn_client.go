package server

import (
	"slices"
	"strings"

	"lockd/resp"
)

func clientRows() []row {
	return []row{resp.WithHelp("5.0.0", always, row{
		Spec: resp.Spec{Name: "client", Arity: -2, Group: "connection", Since: "2.4.0",
			Summary: "A container for client connection commands"},
		Run: action{onSentinel: true},
		Subs: append([]row{
			{Spec: resp.Spec{Name: "client|id", Arity: 2, Flags: ofClient, Group: "connection", Since: "5.0.0",
				Summary: "Returns the client ID for the current connection"}, Run: action{run: clientID}},
			{Spec: resp.Spec{Name: "client|info", Arity: 2, Flags: ofClient, Group: "connection", Since: "6.2.0",
				Summary: "Returns information about the current client connection."}, Run: action{run: clientInfo}},
			{Spec: resp.Spec{Name: "client|list", Arity: -2, Flags: administrative, Group: "connection", Since: "2.4.0",
				Summary: "Get the list of client connections",
				Syntax:  "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]"},
				Run: action{run: clientList}},
			{Spec: resp.Spec{Name: "client|getname", Arity: 2, Flags: ofClient, Group: "connection", Since: "2.6.9",
				Summary: "Get the current connection name"}, Run: action{run: clientGetName}},
			{Spec: resp.Spec{Name: "client|setname", Arity: 3, Flags: ofClient, Group: "connection", Since: "2.6.9",
				Summary: "Set the current connection name", Syntax: "connection-name"},
				Run: action{run: clientSetName}},
			{Spec: resp.Spec{Name: "client|setinfo", Arity: 4, Flags: ofClient, Group: "connection", Since: "7.2.0",
				Summary: "Sets information specific to the client or connection.",
				Syntax:  "<LIB-NAME libname | LIB-VER libver>"},
				Run: action{run: clientSetInfo}},
			{Spec: resp.Spec{Name: "client|kill", Arity: -3, Flags: administrative, Group: "connection", Since: "2.4.0",
				Summary: "Kill the connection of a client",
				Syntax: "<ip:port | [ID client-id] [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] " +
					"[USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>]>"},
				Run: action{run: clientKill, asksBackend: true}},
			{Spec: resp.Spec{Name: "client|reply", Arity: 3, Flags: ofClient, Group: "connection", Since: "3.2.0",
				Summary: "Instruct the server whether to reply to commands", Syntax: "<ON | OFF | SKIP>"},
				Run: action{run: clientReply}},
			{Spec: resp.Spec{Name: "client|no-evict", Arity: 3, Flags: administrative,
				Group: "connection", Since: "7.0.0",
				Summary: "Set client eviction mode for the current connection", Syntax: "<ON | OFF>"},
				Run: action{run: clientNoEvict}},
			{Spec: resp.Spec{Name: "client|no-touch", Arity: 3, Flags: ofClient, Group: "connection", Since: "7.2.0",
				Summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
				Syntax:  "<ON | OFF>"},
				Run: action{run: clientNoTouch}},
			{Spec: resp.Spec{Name: "client|unblock", Arity: -3, Flags: administrative,
				Group: "connection", Since: "5.0.0",
				Summary: "Unblock a client blocked in a blocking command from a different connection",
				Syntax:  "client-id [TIMEOUT | ERROR]"},
				Run: action{run: clientUnblock, asksBackend: true}},
		}, slices.Concat(trackingRows(), pauseRows())...),
	})}
}

func clientID(s *session, _ resp.Args) resp.Reply { return resp.Int(s.id) }

func clientInfo(s *session, _ resp.Args) resp.Reply {
	return resp.Verbatim(string(s.describe(nil, s.srv.clock())))
}

func clientGetName(s *session, _ resp.Args) resp.Reply {
	if name, _, _ := s.names.get(); name != "" {
		return resp.Bulk(name)
	}
	return resp.Nil()
}

func clientSetName(s *session, args resp.Args) resp.Reply {
	if !printable(args[2]) {
		return resp.Err(errClientName)
	}
	s.names.set(&s.names.name, args[2])
	return resp.OK()
}

func clientSetInfo(s *session, args resp.Args) resp.Reply {
	field, value := args[2], args[3]
	isName := resp.Is(field, "LIB-NAME")
	if !isName && !resp.Is(field, "LIB-VER") {
		return resp.Err("ERR Unrecognized option '" + cut(field) + "'")
	}
	if !printable(value) {
		return resp.Err("ERR " + cut(field) + " cannot contain spaces, newlines or special characters.")
	}
	if isName {
		s.names.set(&s.names.libName, value)
	} else {
		s.names.set(&s.names.libVer, value)
	}
	return resp.OK()
}

func clientReply(s *session, args resp.Args) resp.Reply {
	switch {
	case resp.Is(args[2], "ON"):
		s.replyOff, s.skipping = false, false
		return resp.OK()
	case resp.Is(args[2], "OFF"):
		s.replyOff = true
		return resp.Reply{}
	case resp.Is(args[2], "SKIP"):
		s.skipNext = !s.replyOff
		return resp.Reply{}
	}
	return resp.Err(resp.ErrSyntax)
}

func clientNoEvict(s *session, args resp.Args) resp.Reply { return setFlag(&s.noEvict, args[2]) }
func clientNoTouch(s *session, args resp.Args) resp.Reply { return setFlag(&s.noTouch, args[2]) }

func setFlag(flag interface{ Store(bool) }, word string) resp.Reply {
	on := resp.Is(word, "ON")
	if !on && !resp.Is(word, "OFF") {
		return resp.Err(resp.ErrSyntax)
	}
	flag.Store(on)
	return resp.OK()
}

// clientUnblock answers once it is certain whether the client was unblocked.
func clientUnblock(s *session, args resp.Args) resp.Reply {
	if len(args) > 4 {
		return wrongSubcommand("client", args[1])
	}
	if len(args) == 4 && !resp.Is(args[3], "TIMEOUT") && !resp.Is(args[3], "ERROR") {
		return resp.Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	}
	id, ok := resp.ParseInt(args[2])
	if !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	why := "TIMEOUT"
	if len(args) == 4 {
		why = strings.ToUpper(args[3])
	}
	if s.srv.clients.get(id) == nil && id > 0 {
		return s.askOthers(resp.Inquiry{Args: resp.Args{askUnblock, args[2], why}, Client: id}, 0)
	}
	return s.srv.clients.unblock(s.ctx, id, why)
}

// askOthers returns n of this node plus the sum of the other nodes' answers to a question about their clients. What
// they did counts, even if some did not answer.
func (s *session) askOthers(q resp.Inquiry, n int64) resp.Reply {
	if s.srv.backend.Members() == 0 {
		return resp.Int(n)
	}
	answers, err := s.srv.backend.Ask(s.ctx, q)
	for _, a := range answers {
		n += a.Int
	}
	if err != nil && n == 0 {
		return resp.Fail(err)
	}
	return resp.Int(n)
}

// clientType returns Redis's class of a client; ok is false for an unknown word.
func clientType(word string) (class string, ok bool) {
	switch w := lower(word); w {
	case "normal", "master", "pubsub":
		return w, true
	case "slave", "replica":
		return "replica", true
	}
	return "", false
}

func clientList(s *session, args resp.Args) resp.Reply {
	keep := func(*client) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) == 4 && resp.Is(args[2], "TYPE"):
		class, ok := clientType(args[3])
		if !ok {
			return resp.Err("ERR Unknown client type '" + args[3] + "'")
		}
		keep = func(c *client) bool { return c.class() == class }
	case len(args) > 3 && resp.Is(args[2], "ID"):
		ids := map[int64]bool{}
		for _, word := range args[3:] {
			id, ok := resp.ParseInt(word)
			if !ok {
				return resp.Err("ERR Invalid client ID")
			}
			ids[id] = true
		}
		keep = func(c *client) bool { return ids[c.id] }
	default:
		return resp.Err(resp.ErrSyntax)
	}
	now, clients := s.srv.clock(), s.srv.clients.list()
	s.work += len(clients) * workPerClient
	var text []byte
	for _, c := range clients {
		if keep(c) && !c.out.Ends() { // a killed client may take a moment to end
			text = c.describe(text, now)
		}
	}
	return resp.Verbatim(string(text))
}

func clientKill(s *session, args resp.Args) resp.Reply {
	if len(args) == 3 {
		r := s.killEverywhere(&killFilter{addr: args[2]})
		switch {
		case r.IsErr():
			return r
		case r.Int == 0:
			return resp.Err("ERR No such client")
		}
		return resp.OK()
	}
	filter := killFilter{skipMe: true}
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return resp.Err(resp.ErrSyntax)
		}
		if err := filter.option(s, rest[0], rest[1]); err != nil {
			return resp.Fail(err)
		}
	}
	return s.killEverywhere(&filter)
}

// killEverywhere closes the clients that match: those of every node if the filter names clients, by id, address or
// user, else those of this node, which CLIENT LIST shows.
func (s *session) killEverywhere(f *killFilter) resp.Reply {
	n, me := s.srv.clients.kill(f, s.client)
	s.closing = s.closing || me // it gets its answer first
	if f.id == 0 && f.addr == "" && f.user == "" || f.id != 0 && s.srv.clients.get(f.id) != nil {
		return resp.Int(int64(n))
	}
	return s.askOthers(resp.Inquiry{Args: append(resp.Args{askKill}, f.words()...), Client: f.id}, int64(n))
}

func (f *killFilter) option(s *session, word, value string) error {
	switch lower(word) {
	case "id":
		n, ok := resp.ParseInt(value)
		if !ok || n < 1 {
			return resp.Error("ERR client-id should be greater than 0")
		}
		f.id = n
	case "type":
		class, ok := clientType(value)
		if !ok {
			return resp.Error("ERR Unknown client type '" + value + "'")
		}
		f.class = class
	case "addr":
		f.addr = value
	case "laddr":
		f.laddr = value
	case "user":
		if f.user = value; s.rights.All().Get(value) == nil {
			return resp.Error("ERR No such user '" + value + "'")
		}
	case "skipme":
		if !resp.Is(value, "YES") && !resp.Is(value, "NO") {
			return resp.Error(resp.ErrSyntax)
		}
		f.skipMe = resp.Is(value, "YES")
	default:
		return resp.Error(resp.ErrSyntax)
	}
	return nil
}
