package server

import (
	"strings"
	"sync"
	"time"

	"lockd/resp"
)

// latencyLog keeps the spikes of this node: commands that took longer than the
// setting latency-monitor-threshold, under Redis's event names. As in Redis there
// is one sample a second at most, the worst.
type latencyLog struct {
	mu     sync.Mutex
	events [2]latencyEvent // command, fast-command
}

type latencyEvent struct {
	samples  []latencySample // oldest first
	maxMs    int64           // since the last reset
	allCount int64
	sumMs    int64
}

type latencySample struct{ unix, ms int64 }

var latencyNames = [2]string{"command", "fast-command"}

func (l *latencyLog) add(spec *resp.Spec, start time.Time, ms int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.events[0]
	if spec.Flags&resp.Fast != 0 {
		e = &l.events[1]
	}
	e.maxMs = max(e.maxMs, ms)
	e.allCount++
	e.sumMs += ms
	at := start.Unix()
	if n := len(e.samples); n > 0 && e.samples[n-1].unix == at {
		e.samples[n-1].ms = max(e.samples[n-1].ms, ms)
		return
	}
	e.samples = append(e.samples, latencySample{at, ms})
	if extra := len(e.samples) - latencySamplesMax; extra > 0 {
		e.samples = append(e.samples[:0], e.samples[extra:]...)
	}
}

func latencyRows() []row {
	sub := func(name string, arity int, since, summary, syntax string, run func(*session, resp.Args) resp.Reply) row {
		return row{Spec: resp.Spec{Name: "latency|" + name, Arity: arity, Flags: administrative, Group: "server", Since: since,
			Summary: summary, Syntax: syntax}, Run: action{run: run}}
	}
	return []row{{
		Spec: resp.Spec{Name: "latency", Arity: -2, Group: "server", Since: "2.8.13", Summary: "A container for latency diagnostics commands"},
		Subs: []row{
			sub("latest", 2, "2.8.13", "Return the latest latency samples for all events.", "", latencyLatest),
			sub("history", 3, "2.8.13", "Return timestamp-latency samples for the event.", "event", latencyHistory),
			sub("reset", -2, "2.8.13", "Reset latency data for one or more events.", "[event [event ...]]", latencyReset),
			sub("histogram", -2, "7.0.0", "Return the cumulative distribution of latencies of a subset of commands or all.", "[command [command ...]]", latencyHistogram),
			helpRow("latency", "server", "2.8.13", latencyHelp),
		},
	}}
}

func latencyLatest(s *session, _ resp.Args) resp.Reply {
	l := &s.srv.latency
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []resp.Reply{}
	for i := range l.events {
		e := &l.events[i]
		if n := len(e.samples); n > 0 {
			list = append(list, resp.Array(resp.Bulk(latencyNames[i]), resp.Int(e.samples[n-1].unix), resp.Int(e.samples[n-1].ms), resp.Int(e.maxMs)))
		}
	}
	return resp.Array(list...)
}

func latencyHistory(s *session, args resp.Args) resp.Reply {
	l := &s.srv.latency
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []resp.Reply{}
	for i := range l.events {
		if latencyNames[i] != lower(args[2]) {
			continue
		}
		for _, p := range l.events[i].samples {
			list = append(list, resp.Array(resp.Int(p.unix), resp.Int(p.ms)))
		}
	}
	return resp.Array(list...)
}

func latencyReset(s *session, args resp.Args) resp.Reply {
	l := &s.srv.latency
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(0)
	for i := range l.events {
		named := len(args) == 2
		for _, word := range args[2:] {
			named = named || lower(word) == latencyNames[i]
		}
		if named && len(l.events[i].samples) > 0 {
			l.events[i] = latencyEvent{}
			n++
		}
	}
	return resp.Int(n)
}

// latencyHistogram reports, for each command that has run, how many calls took
// at most so many microseconds. The name of a container stands for all of its
// subcommands.
func latencyHistogram(s *session, args resp.Args) resp.Reply {
	wanted := map[string]bool{}
	for _, name := range args[2:] {
		wanted[lower(name)] = true
	}
	elems := []resp.Reply{}
	for _, c := range s.srv.index.all {
		container, _, _ := strings.Cut(c.spec.Name, "|")
		if len(wanted) == 0 || wanted[c.spec.Name] || wanted[container] {
			if calls := c.stats.calls.Load(); calls > 0 {
				elems = append(elems, resp.Bulk(c.spec.Name), resp.Map(resp.Bulk("calls"), resp.Int(calls),
					resp.Bulk("histogram_usec"), resp.Map(c.stats.distribution()...)))
			}
		}
	}
	return resp.Map(elems...)
}

// bucketEnd is the end of a bucket as Redis's histogram has it: a power of two of
// microseconds, and a little more.
func bucketEnd(i int) int64 { return (129<<(i+3) - 1) / 1000 }

func (c *commandStats) distribution() []resp.Reply {
	var elems []resp.Reply
	sum := int64(0)
	for i := range c.buckets {
		if n := c.buckets[i].Load(); n > 0 {
			sum += n
			elems = append(elems, resp.Int(bucketEnd(i)), resp.Int(sum))
		}
	}
	return elems
}
