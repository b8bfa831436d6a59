package server

import (
	"time"

	"lockd/resp"
	"lockd/resp/server/stats"
)

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

// account records the statistics of a command that ran by itself.
func (s *session) account(start time.Time, c *command, args resp.Args, r resp.Reply) {
	s.countIfError(r)
	res := resp.Result{Replies: []resp.Reply{r}, TookNs: int64(max(0, s.srv.clock().Sub(start)))}
	s.accountRun(start, []*command{c}, args, res)
}

func (s *session) countIfError(r resp.Reply) {
	if r.IsErr() {
		s.srv.stats.CountError(r)
	}
}

// accountRun divides the time of a run evenly among its commands: it took effect as one, so nothing finer is known.
// first are the arguments of the first. SLOWLOG goes by execution time; the other statistics include waits.
func (s *session) accountRun(start time.Time, cmds []*command, first resp.Args, res resp.Result) {
	took := max(0, s.srv.clock().Sub(start).Microseconds())
	s.srv.stats.Commands.Add(int64(len(cmds)))
	share := took / int64(len(cmds))
	for i, c := range cmds {
		c.stats.Count(share, replyAt(res, i).IsErr())
	}
	set, ran := s.srv.hub.settings, res.TookNs/1000
	if slow := set.SlowlogMicros.Load(); slow >= 0 && ran >= slow && cmds[0].spec.Flags&resp.SkipSlowlog == 0 {
		s.logSlow(start, ran, max(0, took-ran), cmds, first)
	}
	if limit := set.LatencyMillis.Load(); limit > 0 && took >= limit*1000 {
		s.srv.latency.Add(cmds[0].spec.Flags&resp.Fast != 0, start, took/1000)
	}
}

func (s *session) logSlow(start time.Time, micros, waited int64, cmds []*command, first resp.Args) {
	name, _, _ := s.names.get()
	s.srv.slowlog.Add(stats.Slow{
		Start: start, Micros: micros, Waited: waited, Addr: s.addr, Name: name, More: len(cmds) - 1,
		Args: stats.SlowArgs(first, func(i int) bool { return cmds[0].hides(first, i) }),
	}, s.srv.hub.settings.SlowlogMax.Load())
}
