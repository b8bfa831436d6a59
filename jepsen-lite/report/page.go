package report

import (
	"fmt"
	"html"
	"os"
	"strings"
)

// Page writes a page with the table, and for each workload its problems and a picture of its history. The page needs no
// script, no font and no network.
func Page(path, again string, results []Result) error {
	var b strings.Builder
	b.WriteString("<!doctype html><meta charset=utf-8><title>jepsen-lite</title><style>" +
		"body{font:14px system-ui;margin:2em;max-width:1150px}pre{background:#f4f4f4;padding:1em;overflow:auto}" +
		"svg{border:1px solid #ccc;max-width:100%;height:auto}li{margin:.3em 0;white-space:pre-wrap}" +
		"</style><h1>jepsen-lite</h1>\n")
	var table strings.Builder
	Table(&table, results)
	fmt.Fprintf(&b, "<pre>%s</pre><p>Again: <code>%s</code></p>\n",
		html.EscapeString(table.String()), html.EscapeString(again))
	b.WriteString(legend)
	for _, r := range results {
		fmt.Fprintf(&b, "<h2>%s: %s</h2>\n", r.Workload, html.EscapeString(Word(r.Verdict)))
		if r.Skipped != "" {
			fmt.Fprintf(&b, "<p>Not run: %s.</p>\n", html.EscapeString(r.Skipped))
			continue
		}
		b.WriteString(Picture(r))
		problems(&b, r)
		stakes(&b, r)
		for _, n := range r.Verdict.Notes {
			fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(n))
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// legend explains the pictures.
var legend = "<p>Upper rows: when faults of each kind were on. Rows of nodes: " +
	swatch(upFill, "it ran") + ", " + swatch(downFill, "it was down") + ", " +
	swatch(awayFill, "paused, or not serving yet") + ", " +
	swatch(leadFill, "it took itself for the leader") + ", " + swatch(cutFill, "its links were cut or slow") +
	". A frame: a fault that names the node. " +
	"Dots: operations, when they were asked for and how long the answer took, " +
	swatch(okFill, "done") + ", " + swatch(failFill, "certainly not done") + ", " + swatch(unknownFill, "unknown") +
	". Red lines: an answer that breaks a rule. Whatever is pointed at says what it is.</p>\n"

func swatch(fill, text string) string {
	return fmt.Sprintf("<b style='border-bottom:4px solid %s'>%s</b>", fill, text)
}

// stakes writes how often each rule was at stake.
func stakes(b *strings.Builder, r Result) {
	if len(r.Verdict.Stakes) == 0 {
		return
	}
	b.WriteString("<details><summary>How often each rule was at stake</summary><table>\n" +
		"<tr><th>times<th>at least<th>rule<th>what it says</tr>\n")
	for _, s := range r.Verdict.Stakes {
		fmt.Fprintf(b, "<tr><td>%d<td>%d<td>%s<td>%s</tr>\n",
			s.Times, s.Least, s.Rule.ID, html.EscapeString(s.Rule.Says))
	}
	b.WriteString("</table></details>\n")
}

// problems writes the list to which the numbers in the picture refer.
func problems(b *strings.Builder, r Result) {
	b.WriteString("<ol>\n")
	for _, p := range r.Verdict.Problems {
		fmt.Fprintf(b, "<li><b style='color:%s'>%s</b>: %s</li>\n",
			badFill, html.EscapeString(p.Kind), html.EscapeString(p.Text))
	}
	b.WriteString("</ol>\n")
}
