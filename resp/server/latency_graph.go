package server

import (
	"fmt"
	"strconv"
	"strings"

	"lockd/resp"
)

// The picture of LATENCY GRAPH: a column for each sample, drawn in rows of three steps
// each, and under it, downwards, how long ago it was.
const (
	graphWidth = 80
	graphRows  = 4
)

// graphTips end a column, by how far it reaches into its last row.
const graphTips = "_o#"

func latencyGraph(s *session, args resp.Args) resp.Reply {
	l := &s.srv.latency
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.events {
		if e := &l.events[i]; resp.Is(args[2], strings.ToUpper(latencyNames[i])) && len(e.samples) > 0 {
			return resp.Verbatim(e.graph(latencyNames[i], s.srv.clock().Unix()))
		}
	}
	return resp.Err("ERR No samples available for event '" + args[2] + "'")
}

func (e *latencyEvent) graph(name string, now int64) string {
	low, high := e.samples[0].ms, e.samples[0].ms
	for _, p := range e.samples {
		low, high = min(low, p.ms), max(high, p.ms)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n", name, high, low, e.maxMs)
	b.WriteString(strings.Repeat("-", graphWidth) + "\n")
	for rest := e.samples; len(rest) > 0; {
		n := min(len(rest), graphWidth)
		drawColumns(&b, rest[:n], low, high, now)
		rest = rest[n:]
	}
	return b.String()
}

// drawColumns draws as many samples as fit the width.
func drawColumns(b *strings.Builder, samples []latencySample, low, high, now int64) {
	steps := int64(len(graphTips) * graphRows)
	tops := make([]int64, len(samples))
	ages := make([]string, len(samples))
	longest := 0
	for i, p := range samples {
		tops[i] = min((p.ms-low)*steps/max(high-low, 1), steps-1)
		ages[i] = shortAge(now - p.unix)
		longest = max(longest, len(ages[i]))
	}
	for row := graphRows - 1; row >= 0; row-- {
		drawLine(b, len(samples), func(i int) byte {
			switch reach := tops[i] - int64(row*len(graphTips)); {
			case reach < 0:
				return ' '
			case reach < int64(len(graphTips)):
				return graphTips[reach]
			}
			return '|'
		})
	}
	drawLine(b, len(samples), func(int) byte { return ' ' })
	for at := range longest {
		drawLine(b, len(samples), func(i int) byte {
			if at < len(ages[i]) {
				return ages[i][at]
			}
			return ' '
		})
	}
}

func drawLine(b *strings.Builder, columns int, at func(i int) byte) {
	for i := range columns {
		b.WriteByte(at(i))
	}
	b.WriteByte('\n')
}

// shortAge writes seconds in their largest unit.
func shortAge(seconds int64) string {
	units := []struct {
		seconds int64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}}
	for _, u := range units {
		if seconds >= u.seconds {
			return strconv.FormatInt(seconds/u.seconds, 10) + u.name
		}
	}
	return strconv.FormatInt(max(seconds, 0), 10) + "s"
}
