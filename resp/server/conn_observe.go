package server

import (
	"strconv"
	"sync/atomic"
	"time"

	"lockd/resp"
	"lockd/resp/server/settings"
	"lockd/resp/server/stats"
)

// monitorRows has MONITOR, which sends a client each command that the sessions of this node run, as a line of its own
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
	case s.exec != nil:
		return resp.Err("ERR MONITOR isn't allowed for DENY BLOCKING client")
	case s.monitors.Load():
		return resp.Reply{}
	case len(h.monitors.all) >= monitorsMax:
		return resp.Err("ERR too many clients are monitoring")
	}
	s.startPushing()
	h.monitors.add(s.client)
	return resp.OK()
}

// monitors are the clients that see each command. The broker's lock guards them, except some.
type monitors struct {
	all  map[*client]struct{}
	some atomic.Bool // there are any
}

func (m *monitors) add(c *client) {
	c.monitors.Store(true)
	m.all[c] = struct{}{}
	m.some.Store(true)
}

func (m *monitors) remove(c *client) {
	c.monitors.Store(false)
	delete(m.all, c)
	m.some.Store(len(m.all) > 0)
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
func show(s *session, list ...shown) {
	h := s.srv.hub
	if !h.monitors.some.Load() {
		return
	}
	now := s.srv.clock()
	var lines []byte
	for i := range list {
		if list[i].of.visible() {
			lines = appendShown(lines, now, s.addr, &list[i])
		}
	}
	if len(lines) == 0 {
		return
	}
	h.broker.Lock()
	defer h.broker.Unlock()
	for m := range h.monitors.all {
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
func appendShown(b []byte, now time.Time, addr string, c *shown) []byte {
	b = append(b, '+')
	b = strconv.AppendInt(b, now.Unix(), 10)
	micros := strconv.Itoa(1e6 + now.Nanosecond()/1000)
	b = append(append(append(b, '.'), micros[1:]...), " ["...)
	b = strconv.AppendInt(b, int64(c.db), 10)
	b = append(append(append(b, ' '), addr...), ']')
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
			{Spec: resp.Spec{Name: "slowlog|waits", Arity: -2, Flags: flags, Group: "lockd", Since: "1.0.0",
				Summary: "As GET; each entry ends with the microseconds for which the command waited besides",
				Syntax:  "[count]"}, Run: action{run: slowlogGet}},
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
	return resp.Array(s.srv.slowlog.Newest(n, resp.Is(args[1], "waits"))...)
}

func slowlogLen(s *session, _ resp.Args) resp.Reply { return resp.Int(s.srv.slowlog.Len()) }

func slowlogReset(s *session, _ resp.Args) resp.Reply {
	s.srv.slowlog.Reset()
	return resp.OK()
}

func latencyRows() []row {
	sub := func(name string, arity int, since, summary, syntax string, run func(*session, resp.Args) resp.Reply) row {
		return row{Spec: resp.Spec{Name: "latency|" + name, Arity: arity, Flags: administrative,
			Group: "server", Since: since,
			Summary: summary, Syntax: syntax}, Run: action{run: run}}
	}
	return []row{resp.WithHelp("2.8.13", always, row{
		Spec: resp.Spec{Name: "latency", Arity: -2, Group: "server", Since: "2.8.13",
			Summary: "A container for latency diagnostics commands"},
		Subs: []row{
			sub("latest", 2, "2.8.13", "Return the latest latency samples for all events.", "", latencyLatest),
			sub("history", 3, "2.8.13", "Return timestamp-latency samples for the event.", "event", latencyHistory),
			sub("reset", -2, "2.8.13", "Reset latency data for one or more events.",
				"[event [event ...]]", latencyReset),
			sub("histogram", -2, "7.0.0", "Return the cumulative distribution of latencies of a subset of commands "+
				"or all.",
				"[command [command ...]]", latencyHistogram),
		},
	})}
}

func latencyLatest(s *session, _ resp.Args) resp.Reply { return s.srv.latency.Latest() }

func latencyHistory(s *session, args resp.Args) resp.Reply { return s.srv.latency.History(args[2]) }

func latencyReset(s *session, args resp.Args) resp.Reply {
	return resp.Int(s.srv.latency.Reset(args[2:]))
}

func latencyHistogram(s *session, args resp.Args) resp.Reply {
	wanted := map[string]bool{}
	for _, name := range args[2:] {
		wanted[lower(name)] = true
	}
	return s.srv.index.figures.Histogram(wanted)
}

// accounts keeps the figures of the commands of all sessions: totals, SLOWLOG, LATENCY, and those of each command.
type accounts struct {
	stats   stats.Totals
	slowlog stats.Slowlog
	latency stats.Latency
	limits  *settings.Cluster
	clock   Clock
}

// account records the statistics of a command that ran by itself.
func (a *accounts) account(by *client, start time.Time, c *command, args resp.Args, r resp.Reply) {
	a.countIfError(r)
	res := resp.Result{Replies: []resp.Reply{r}, TookNs: int64(max(0, a.clock().Sub(start)))}
	a.accountRun(by, start, []*command{c}, args, res)
}

func (a *accounts) countIfError(r resp.Reply) {
	if r.IsErr() {
		a.stats.CountError(r)
	}
}

// accountRun divides the time of a run evenly among its commands: it took effect as one, so nothing finer is known.
// first are the arguments of the first. SLOWLOG goes by execution time; the other statistics include waits.
func (a *accounts) accountRun(by *client, start time.Time, cmds []*command, first resp.Args, res resp.Result) {
	took := max(0, a.clock().Sub(start).Microseconds())
	a.stats.Commands.Add(int64(len(cmds)))
	share := took / int64(len(cmds))
	for i, c := range cmds {
		c.stats.Count(share, replyAt(res, i).IsErr())
	}
	ran := res.TookNs / 1000
	if slow := a.limits.SlowlogMicros.Load(); slow >= 0 && ran >= slow && cmds[0].spec.Flags&resp.SkipSlowlog == 0 {
		a.logSlow(by, start, ran, max(0, took-ran), cmds, first)
	}
	if limit := a.limits.LatencyMillis.Load(); limit > 0 && took >= limit*1000 {
		a.latency.Add(cmds[0].spec.Flags&resp.Fast != 0, start, took/1000)
	}
}

func (a *accounts) logSlow(by *client, start time.Time, micros, waited int64, cmds []*command, first resp.Args) {
	name, _, _ := by.names.get()
	a.slowlog.Add(stats.Slow{
		Start: start, Micros: micros, Waited: waited, Addr: by.addr, Name: name, More: len(cmds) - 1,
		Args: stats.SlowArgs(first, func(i int) bool { return cmds[0].hides(first, i) }),
	}, a.limits.SlowlogMax.Load())
}
