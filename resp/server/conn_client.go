package server

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
				Summary: "Get the list of client connections of this node",
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
		return askOthers(s, resp.Inquiry{Args: resp.Args{askUnblock, args[2], why}, Client: id}, 0)
	}
	return s.srv.clients.unblock(s.ctx, id, why)
}

// askOthers returns n of this node plus the sum of the other nodes' answers to a question about their clients. What
// they did counts, even if some did not answer.
func askOthers(s *session, q resp.Inquiry, n int64) resp.Reply {
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
	s.charge(len(clients) * workPerClient)
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
		r := killEverywhere(s, &killFilter{addr: args[2]})
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
	return killEverywhere(s, &filter)
}

// killEverywhere closes the clients that match: those of every node if the filter names clients, by id, address or
// user, else those of this node, which CLIENT LIST shows.
func killEverywhere(s *session, f *killFilter) resp.Reply {
	n, me := s.srv.clients.kill(f, s.client)
	s.closing = s.closing || me // it gets its answer first
	if f.id == 0 && f.addr == "" && f.user == "" || f.id != 0 && s.srv.clients.get(f.id) != nil {
		return resp.Int(int64(n))
	}
	return askOthers(s, resp.Inquiry{Args: append(resp.Args{askKill}, f.words()...), Client: f.id}, int64(n))
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

func pauseRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "client|pause", Arity: -3, Flags: administrative, Group: "connection", Since: "2.9.50",
			Summary: "Stop processing commands from clients for some time", Syntax: "timeout [WRITE | ALL]"},
			Run: action{run: clientPause}},
		{Spec: resp.Spec{Name: "client|unpause", Arity: 2, Flags: administrative, Group: "connection", Since: "6.2.0",
			Summary: "Resume processing of clients that were paused"}, Run: action{run: clientUnpause}},
	}
}

func clientPause(s *session, args resp.Args) resp.Reply {
	if len(args) > 4 {
		return wrongSubcommand("client", args[1])
	}
	all := len(args) == 3 || resp.Is(args[3], "ALL")
	if !all && !resp.Is(args[3], "WRITE") {
		return resp.Err("ERR CLIENT PAUSE mode must be WRITE or ALL")
	}
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return resp.Err("ERR timeout is not an integer or out of range")
	case ms < 0:
		return resp.Err("ERR timeout is negative")
	}
	now := s.srv.clock()
	s.srv.pause.begin(all, now.Add(time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond), now)
	return resp.OK()
}

func clientUnpause(s *session, _ resp.Args) resp.Reply {
	s.srv.pause.end()
	return resp.OK()
}

// pause delays the commands of this node's clients, all or only writes (CLIENT PAUSE). Other nodes are not affected.
type pause struct {
	active atomic.Bool // read first, without the lock

	mu      sync.Mutex
	all     bool
	until   time.Time
	changed chan struct{} // closed when the pause changes
}

// begin begins a pause, or makes the present one stricter or longer, never milder.
func (p *pause) begin(all bool, until, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.After(now) {
		p.all, p.until = false, until
	}
	p.all = p.all || all
	if until.After(p.until) {
		p.until = until
	}
	p.notify()
	p.active.Store(true)
}

// end ends the pause.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	p.active.Store(false)
	p.notify()
}

// notify makes waiting commands check the pause again. mu is held.
func (p *pause) notify() {
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// left returns how long a command must wait, 0 for not at all, and a channel that is closed when the pause changes.
func (p *pause) left(writes bool, now time.Time) (left time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left = p.until.Sub(now)
	if left <= 0 {
		p.active.Store(false)
		return 0, nil
	}
	if !p.all && !writes {
		return 0, nil
	}
	return left, p.changed
}
