package server

import "lockd/resp"

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
