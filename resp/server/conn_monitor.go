package server

import (
	"strconv"
	"time"

	"lockd/resp"
)

// monitorRows is MONITOR: it sends a client each command that the sessions of this node run, as a line of its own
// after the replies.
func monitorRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "monitor", Arity: 1, Flags: administrative, Group: "server", Since: "1.0.0",
			Summary: "Listen for all requests received by the server in real time"},
			Run: action{run: monitor, hubLocked: true}},
	}
}

// monitor runs under the hub's lock. A client that monitors already gets no answer, as in Redis.
func monitor(s *session, _ resp.Args) resp.Reply {
	h := s.srv.hub
	switch {
	case s.executing:
		return resp.Err("ERR MONITOR isn't allowed for DENY BLOCKING client")
	case s.monitors.Load():
		return resp.Reply{}
	case len(h.monitors) >= monitorsMax:
		return resp.Err("ERR too many clients are monitoring")
	}
	s.startPushing()
	s.monitors.Store(true)
	h.monitors[s.client] = struct{}{}
	h.monitored.Store(true)
	return resp.OK()
}

// unmonitor ends monitoring. The hub's lock is held.
func (h *Hub) unmonitor(s *client) {
	s.monitors.Store(false)
	delete(h.monitors, s)
	h.monitored.Store(len(h.monitors) > 0)
}

// shown is a command that ran, as monitors see it.
type shown struct {
	of   *command
	db   int
	args resp.Args
}

// visible reports whether monitors see a command: not those of administrators; a script once, by its own command.
func (c *command) visible() bool {
	f := c.spec.Flags
	return f&resp.Admin == 0 && (f&resp.SkipMonitor == 0 || c.spec.Group == "scripting")
}

// show sends executed commands to all monitors. The session itself gets the lines after its replies.
func (s *session) show(list ...shown) {
	h := s.srv.hub
	if !h.monitored.Load() {
		return
	}
	now := s.srv.clock()
	var lines []byte
	for i := range list {
		if list[i].of.visible() {
			lines = s.appendShown(lines, now, &list[i])
		}
	}
	if len(lines) == 0 {
		return
	}
	h.broker.Lock()
	defer h.broker.Unlock()
	for m := range h.monitors {
		switch {
		case m == s.client && s.closing: // QUIT: nothing follows its answer
		case m == s.client:
			s.pending = append(s.pending, lines...)
		default:
			m.sub.Send(lines)
		}
	}
}

// appendShown writes one line: the time, the database, the client, the arguments.
func (s *session) appendShown(b []byte, now time.Time, c *shown) []byte {
	b = append(b, '+')
	b = strconv.AppendInt(b, now.Unix(), 10)
	micros := strconv.Itoa(1e6 + now.Nanosecond()/1000)
	b = append(append(append(b, '.'), micros[1:]...), " ["...)
	b = strconv.AppendInt(b, int64(c.db), 10)
	b = append(append(append(b, ' '), s.addr...), ']')
	for i, a := range c.args {
		b = append(b, ' ')
		switch {
		case c.of.hides(c.args, i):
			b = append(b, `"(redacted)"`...)
		case len(a) > monitorArgBytesMax:
			b = appendQuoted(b, a[:monitorArgBytesMax])
			b = append(append(append(b, "... ("...), strconv.Itoa(len(a)-monitorArgBytesMax)...), " more bytes)"...)
		default:
			b = appendQuoted(b, a)
		}
	}
	return append(b, "\r\n"...)
}

var quotedBytes = map[byte]byte{'\\': '\\', '"': '"', '\n': 'n', '\r': 'r', '\t': 't', '\a': 'a', '\b': 'b'}

// appendQuoted writes an argument as Redis shows it.
func appendQuoted(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		c := text[i]
		switch short, ok := quotedBytes[c]; {
		case ok:
			b = append(b, '\\', short)
		case c >= ' ' && c <= '~':
			b = append(b, c)
		default:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	return append(b, '"')
}
