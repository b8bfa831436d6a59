package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// The picture's sizes, in pixels.
const (
	labelWidth = 96
	plotWidth  = 1004
	flagsHigh  = 16 // names of broken rules
	rowHigh    = 16
	rowGap     = 4
	cutHigh    = 4
	dotsHigh   = 220
	axisHigh   = 18
	labelMin   = 60 // between two times on the axis
	letterWide = 7.0
)

// The picture's colours. Each has a contrast of 3 to its ground: white, or upFill.
const (
	upFill      = "#cfe8d5"
	downFill    = "#555"
	awayFill    = "#a86400"
	leadFill    = "#2456b3"
	cutFill     = "#b0399d"
	okFill      = "#157a4e"
	failFill    = "#888"
	unknownFill = "#d50"
	badFill     = "#c00"
)

// Range of the latencies in the picture, in ns, on a logarithmic axis.
const (
	latencyMin = 1e5
	latencyMax = 1e10
	dotsMax    = 6000 // done operations; more are thinned out
)

// Picture draws the history of a workload as one SVG: the faults, a row for each kind; the nodes, when they ran, could
// be reached and led; the latencies of the answers; and through all rows the answers that break a rule.
func Picture(r Result) string {
	p := &picture{h: r.History, y: flagsHigh}
	p.faults()
	p.nodes(r.Reigns)
	p.dots()
	p.axis()
	p.broken(r)
	height := p.y + axisHigh
	return fmt.Sprintf(
		"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='system-ui, "+
			"sans-serif' font-size='11'>\n"+
			"<rect width='100%%' height='100%%' fill='#fff'/>\n%s</svg>\n",
		labelWidth+plotWidth,
		height,
		labelWidth+plotWidth,
		height,
		p.b.String(),
	)
}

// picture is a picture in progress, from the top to the bottom.
type picture struct {
	b strings.Builder
	h *history.History
	y int // top of the next row
}

func (p *picture) x(t int64) float64 {
	return labelWidth + float64(min(max(t, 0), p.h.End))/float64(max(p.h.End, 1))*plotWidth
}

// label begins a row.
func (p *picture) label(y int, text string) {
	fmt.Fprintf(&p.b, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", labelWidth-6, y, html.EscapeString(text))
}

// bar draws a time in a row. Its description is shown under the pointer.
func (p *picture) bar(start, end int64, y, high int, style, what string) {
	x := p.x(start)
	fmt.Fprintf(&p.b, "<rect x='%.1f' y='%d' width='%.1f' height='%d' %s><title>%s</title></rect>\n",
		x, y, max(p.x(end)-x, 1), high, style, html.EscapeString(what+" "+times(start, end)))
}

func times(start, end int64) string {
	return fmt.Sprintf("%.3f..%.3f s", float64(start)/1e9, float64(end)/1e9)
}

func filled(fill string) string { return "fill='" + fill + "'" }

// faults draws a row for each kind, in the order of their first fault.
func (p *picture) faults() {
	rows := map[string]int{}
	for _, w := range p.h.Faults {
		if _, ok := rows[w.Kind]; !ok {
			rows[w.Kind] = p.y
			p.label(p.y+rowHigh-4, w.Kind)
			p.y += rowHigh + rowGap
		}
		p.bar(w.Start, w.End, rows[w.Kind], rowHigh, filled(colour(w.Kind)), w.What)
	}
	p.y += 2 * rowGap
}

// nodes draws a row for each node.
func (p *picture) nodes(reigns []Reign) {
	for _, node := range named(p.h.Marks) {
		p.label(p.y+rowHigh-4, node)
		p.bar(0, p.h.End, p.y, rowHigh, filled(upFill), node)
		for _, s := range spells(p.h, node) {
			p.bar(s.start, s.end, p.y+s.top, s.high, filled(s.fill), node+": "+s.what)
		}
		for _, reign := range reigns {
			if reign.Node == node {
				p.bar(reign.Start, reign.End, p.y+5, rowHigh-10, filled(leadFill), node+" leads, term "+reign.Term)
			}
		}
		name := regexp.MustCompile(`\b` + regexp.QuoteMeta(node) + `\b`)
		for _, w := range p.h.Faults {
			if name.MatchString(w.What) {
				p.bar(w.Start, w.End, p.y, rowHigh, "fill='#fff' fill-opacity='0' stroke='"+colour(w.Kind)+"'", w.What)
			}
		}
		p.y += rowHigh + rowGap
	}
	p.y += 2 * rowGap
}

// named returns the nodes that marks name.
func named(marks []history.Event) (nodes []string) {
	for _, m := range marks {
		if m.Node != "" && !slices.Contains(nodes, m.Node) {
			nodes = append(nodes, m.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// spell is a time in which a node was not well.
type spell struct {
	start, end int64
	what, fill string
	top, high  int // within the row
}

// spells returns the spells of a node, by their starts.
func spells(h *history.History, node string) (all []spell) {
	open := map[string]int{} // what -> index of the one that has not ended
	for _, m := range h.Marks {
		s, begins, ok := told(m)
		if m.Node != node || !ok {
			continue
		}
		i, was := open[s.what]
		switch {
		case begins && !was:
			open[s.what] = len(all)
			s.start, s.end = m.Time, h.End
			all = append(all, s)
		case !begins && was:
			all[i].end = m.Time
			delete(open, s.what)
		}
	}
	return all
}

// told returns what a mark begins or ends. Not every history has all of these marks.
func told(m history.Event) (s spell, begins, ok bool) {
	switch m.Op {
	case history.Down, history.Up:
		return spell{what: "down", fill: downFill, high: rowHigh}, m.Op == history.Down, true
	case history.Leaves, history.Serves:
		return spell{what: "not serving", fill: awayFill, high: rowHigh}, m.Op == history.Leaves, true
	case history.Link:
		return cutTo(m.Key), !slices.Equal(m.Value, []string{history.LinkWhole}), true
	}
	return s, false, false
}

func cutTo(other string) spell {
	return spell{what: "cut or slow to " + other, fill: cutFill, top: rowHigh - cutHigh, high: cutHigh}
}

// latency returns the height at which an operation of a duration is drawn.
func (p *picture) latency(took int64) float64 {
	low, high := math.Log10(latencyMin), math.Log10(latencyMax)
	l := math.Log10(min(max(float64(took), latencyMin), latencyMax))
	return float64(p.y) - (l-low)/(high-low)*dotsHigh
}

// dots draws the operations at nodes.
func (p *picture) dots() {
	p.y += dotsHigh
	for d := int64(latencyMin); d <= latencyMax; d *= 10 {
		y := p.latency(d)
		fmt.Fprintf(&p.b, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>\n",
			labelWidth, labelWidth+plotWidth, y, y)
		p.label(int(y)+4, time.Duration(d).String())
	}
	every := len(p.h.Ops)/dotsMax + 1
	for i, o := range p.h.Ops {
		if o.Node == "" || o.Outcome == history.OK && i%every != 0 {
			continue
		}
		fmt.Fprintf(&p.b, "<circle cx='%.1f' cy='%.1f' r='1.5' fill='%s'/>\n",
			p.x(o.Start), p.latency(took(&o)), fillOf(o.Outcome))
	}
}

// unknownShown is where operations are drawn that were not answered.
const unknownShown = int64(4 * time.Second)

// took returns the duration of an operation.
func took(o *history.Op) int64 {
	if o.End == history.Forever {
		return unknownShown
	}
	return o.End - o.Start
}

func fillOf(t history.Type) string {
	switch t {
	case history.OK:
		return okFill
	case history.Fail:
		return failFill
	}
	return unknownFill
}

// axis draws the time.
func (p *picture) axis() {
	step := stepOf(p.h.End)
	for t := int64(0); t <= p.h.End; t += step {
		fmt.Fprintf(&p.b, "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#bbb' stroke-opacity='.5'/><text "+
			"x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
			p.x(t), p.x(t), flagsHigh, p.y, p.x(t), p.y+14, time.Duration(t))
	}
}

// stepOf is a round time between two labels.
func stepOf(end int64) int64 {
	for unit := int64(time.Millisecond); ; unit *= 10 {
		for _, n := range []int64{1, 2, 5} {
			if end/(n*unit) < plotWidth/labelMin {
				return n * unit
			}
		}
	}
}

// broken draws a line through each answer that breaks a rule, a ring around its dot, and the name of the rule where
// there is room for it.
func (p *picture) broken(r Result) {
	type flag struct {
		op     *history.Op
		number int
		kind   string
	}
	var flags []flag
	for i, problem := range r.Verdict.Problems {
		if o := p.h.At(problem.Line); problem.Line > 0 && o != nil {
			flags = append(flags, flag{o, i + 1, problem.Kind})
		}
	}
	slices.SortStableFunc(flags, func(a, b flag) int { return cmp.Compare(shown(a.op), shown(b.op)) })
	free := 0.0 // from here on there is room
	for _, f := range flags {
		what := fmt.Sprintf("%d %s: %s", f.number, f.kind, f.op)
		x := p.x(shown(f.op))
		p.bar(f.op.Start, shown(f.op), flagsHigh, p.y-flagsHigh, "fill='"+badFill+"' fill-opacity='.06'", what)
		lead := fmt.Sprintf("<a href='#%s-%d'>", r.Workload, f.number)
		fmt.Fprintf(&p.b, "%s<g stroke='%s' fill='none'><line x1='%.1f' x2='%.1f' y1='%d' y2='%d'/><circle cx='%.1f' "+
			"cy='%.1f' r='4'/><title>%s</title></g></a>\n",
			lead, badFill, x, x, flagsHigh, p.y, p.x(f.op.Start), p.latency(took(f.op)), html.EscapeString(what))
		if x < free {
			continue
		}
		anchor, text := "start", fmt.Sprintf("%d %s", f.number, f.kind)
		if free = x + letterWide*float64(len(text)); free > labelWidth+plotWidth {
			anchor = "end"
		}
		fmt.Fprintf(&p.b, "%s<text x='%.1f' y='%d' fill='%s' font-weight='bold' text-anchor='%s'>%s</text></a>\n",
			lead, x, flagsHigh-4, badFill, anchor, html.EscapeString(text))
	}
}

// shown is the time at which an operation is marked.
func shown(o *history.Op) int64 {
	if o.End == history.Forever {
		return o.Start
	}
	return o.End
}

// kindLight is the lightness of these colours, in percent: yellow has the least contrast.
const kindLight = 35

// colour gives each kind of fault a colour.
func colour(kind string) string {
	sum := 0
	for _, c := range kind {
		sum = sum*31 + int(c)
	}
	return fmt.Sprintf("hsl(%d 65%% %d%%)", sum%360, kindLight)
}
