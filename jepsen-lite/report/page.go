package report

import (
	"fmt"
	"html"
	"math"
	"os"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// The timeline's size, in pixels, and what it shows.
const (
	chartWidth   = 1100
	chartHeight  = 220
	chartLow     = 1e5 // ns, the bottom of the logarithmic axis
	chartHigh    = 1e10
	chartDotsMax = 6000 // per workload; more are thinned out
)

// Page writes a page with the table, the problems, and per workload a timeline:
// every answer's latency, over the faults.
func Page(path, again string, results []Result) error {
	var b strings.Builder
	b.WriteString("<!doctype html><meta charset=utf-8><title>jepsen-lite</title><style>" +
		"body{font:14px system-ui;margin:2em;max-width:1150px}pre{background:#f4f4f4;padding:1em;overflow:auto}" +
		"svg{border:1px solid #ccc;background:#fff}text{font:11px system-ui}</style><h1>jepsen-lite</h1>\n")
	var table strings.Builder
	Table(&table, results)
	fmt.Fprintf(&b, "<pre>%s</pre><p>Again: <code>%s</code></p>\n", html.EscapeString(table.String()), html.EscapeString(again))
	b.WriteString("<p>Each dot is an operation: when it was asked for, and how long the answer took. " +
		"<b style='color:#2a7'>done</b>, <b style='color:#888'>certainly not done</b>, <b style='color:#d50'>unknown</b>. Shaded: a fault.</p>\n")
	for _, r := range results {
		fmt.Fprintf(&b, "<h2>%s: %s</h2>\n", r.Workload, html.EscapeString(Word(r.Verdict)))
		chart(&b, r.History)
		for _, n := range r.Verdict.Notes {
			fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(n))
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func chart(b *strings.Builder, h *history.History) {
	x := func(t int64) float64 { return float64(t) / float64(max(h.End, 1)) * chartWidth }
	y := func(d int64) float64 {
		l := math.Log10(min(max(float64(d), chartLow), chartHigh))
		return chartHeight - (l-math.Log10(chartLow))/(math.Log10(chartHigh)-math.Log10(chartLow))*chartHeight
	}
	fmt.Fprintf(b, "<svg width=%d height=%d viewBox='0 0 %d %d'>\n", chartWidth, chartHeight+20, chartWidth, chartHeight+20)
	for _, w := range h.Faults {
		fmt.Fprintf(b, "<rect x=%.1f y=0 width=%.1f height=%d fill='%s' opacity=.25><title>%s %s</title></rect>\n",
			x(w.Start), max(x(w.End)-x(w.Start), 1), chartHeight, colour(w.Kind), html.EscapeString(w.Kind), html.EscapeString(w.What))
	}
	for d := int64(chartLow); d <= chartHigh; d *= 10 {
		fmt.Fprintf(b, "<line x1=0 x2=%d y1=%.1f y2=%.1f stroke='#ddd'/><text x=2 y=%.1f>%s</text>\n", chartWidth, y(d), y(d), y(d)-2, time.Duration(d))
	}
	every := len(h.Ops)/chartDotsMax + 1
	for i, o := range h.Ops {
		if o.Outcome == history.OK && i%every != 0 {
			continue
		}
		end, fill := o.End, map[history.Type]string{history.OK: "#2a7", history.Fail: "#888"}[o.Outcome]
		if o.Outcome == history.Info {
			end, fill = o.Start+int64(4*time.Second), "#d50"
		}
		fmt.Fprintf(b, "<circle cx=%.1f cy=%.1f r=1.5 fill='%s'/>\n", x(o.Start), y(end-o.Start), fill)
	}
	fmt.Fprintf(b, "<text x=2 y=%d>0 s</text><text x=%d y=%d text-anchor=end>%.1f s</text></svg>\n", chartHeight+14, chartWidth-2, chartHeight+14, float64(h.End)/1e9)
}

// colour gives each kind of fault its own.
func colour(kind string) string {
	sum := 0
	for _, c := range kind {
		sum = sum*31 + int(c)
	}
	return fmt.Sprintf("hsl(%d 70%% 50%%)", sum%360)
}
