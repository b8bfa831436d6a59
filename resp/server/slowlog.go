package server

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/resp"
)

// slowlog keeps the last slow commands of this node. A pipelined run is one
// request, so it is one entry: its first command, and how many came with it.
type slowlog struct {
	mu      sync.Mutex
	nextID  int64
	entries []slowEntry // oldest first
}

type slowEntry struct {
	id, unix, micros int64
	args             []string
	addr, name       string
}

func (l *slowlog) add(s *session, start time.Time, micros int64, cmds []*command, first resp.Args) {
	keep := int(min(s.srv.hub.settings.slowlogLen.Load(), slowlogLenMax))
	name, _, _ := s.identity.get()
	e := slowEntry{unix: start.Unix(), micros: micros, addr: s.addr, name: name, args: slowArgs(cmds[0], first)}
	if len(cmds) > 1 {
		e.args = append(e.args, "... ("+strconv.Itoa(len(cmds)-1)+" more commands in the same run)")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.nextID
	l.nextID++
	l.entries = append(l.entries, e)
	l.trim(keep)
}

func (l *slowlog) trim(keep int) {
	if extra := len(l.entries) - max(keep, 0); extra > 0 {
		l.entries = append(l.entries[:0], l.entries[extra:]...)
		clear(l.entries[len(l.entries) : len(l.entries)+extra])
	}
}

// slowArgs cuts the arguments as Redis does, and copies them.
func slowArgs(c *command, args resp.Args) []string {
	var kept []string
	for i, a := range args {
		if i == slowlogArgsMax-1 && len(args) > slowlogArgsMax {
			return append(kept, "... ("+strconv.Itoa(len(args)-i)+" more arguments)")
		}
		switch {
		case c.hides(args, i):
			a = "(redacted)"
		case len(a) > slowlogArgBytesMax:
			a = a[:slowlogArgBytesMax] + "... (" + strconv.Itoa(len(a)-slowlogArgBytesMax) + " more bytes)"
		}
		kept = append(kept, strings.Clone(a))
	}
	return kept
}

// newest returns up to n entries, newest first; all if n is negative.
func (l *slowlog) newest(n int) []resp.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > len(l.entries) {
		n = len(l.entries)
	}
	list := make([]resp.Reply, n)
	for i := range list {
		e := l.entries[len(l.entries)-1-i]
		list[i] = resp.Array(resp.Int(e.id), resp.Int(e.unix), resp.Int(e.micros), resp.Bulks(e.args...),
			resp.Bulk(e.addr), resp.Bulk(e.name))
	}
	return list
}

func slowlogRows() []row {
	const flags = resp.Admin | resp.Loading | resp.Stale
	return []row{{
		Spec: resp.Spec{Name: "slowlog", Arity: -2, Group: "server", Since: "2.2.12", Summary: "A container for slow log commands"},
		Subs: []row{
			{Spec: resp.Spec{Name: "slowlog|get", Arity: -2, Flags: flags, Group: "server", Since: "2.2.12",
				Summary: "Get the slow log's entries", Syntax: "[count]"}, Run: action{run: slowlogGet}},
			{Spec: resp.Spec{Name: "slowlog|len", Arity: 2, Flags: flags, Group: "server", Since: "2.2.12",
				Summary: "Get the slow log's length"}, Run: action{run: slowlogLen}},
			{Spec: resp.Spec{Name: "slowlog|reset", Arity: 2, Flags: flags, Group: "server", Since: "2.2.12",
				Summary: "Clear all entries from the slow log"}, Run: action{run: slowlogReset}},
			helpRow("slowlog", "server", "6.2.0", slowlogHelp),
		},
	}}
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
	return resp.Array(s.srv.slowlog.newest(int(min(n, slowlogLenMax)))...)
}

func slowlogLen(s *session, _ resp.Args) resp.Reply {
	s.srv.slowlog.mu.Lock()
	defer s.srv.slowlog.mu.Unlock()
	return resp.Int(int64(len(s.srv.slowlog.entries)))
}

func slowlogReset(s *session, _ resp.Args) resp.Reply {
	s.srv.slowlog.mu.Lock()
	defer s.srv.slowlog.mu.Unlock()
	s.srv.slowlog.entries = nil
	return resp.OK()
}
