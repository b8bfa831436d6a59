package report

import (
	"fmt"
	"html"
	"os"
	"strings"
	"time"
)

// Page writes a page: a table of the workloads, what concerns all of them, and for each workload its problems, its rules
// and a picture of its history. Each problem is there once, and the table and the picture lead to it. The page needs no
// script, no font and no network.
func Page(path, again string, results []Result) error {
	var b strings.Builder
	b.WriteString("<!doctype html><html lang=en><meta charset=utf-8>" +
		"<meta name=viewport content='width=device-width'><title>jepsen-lite: " + overall(results) + "</title><style>" +
		styles + "</style><h1>jepsen-lite: <span class=" + class(overall(results)) + ">" + overall(results) + "</span></h1>\n")
	overview(&b, results)
	fmt.Fprintf(&b, "<p>Again: <code>%s</code></p>\n", html.EscapeString(again))
	var all strings.Builder
	sums(&all, results)
	fmt.Fprintf(&b, "<pre>%s</pre>\n", html.EscapeString(all.String()))
	b.WriteString(legend)
	for _, r := range results {
		section(&b, r)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// The page's colours, of words on their ground.
const (
	okInk, okGround               = "#0b5d2a", "#e2f4e6"
	failedInk, failedGround       = "#9b0000", "#fde5e5"
	undecidedInk, undecidedGround = "#704700", "#fff1cc"
)

// styles keep the page as wide as a laptop's screen: long words break.
const styles = "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em auto;padding:0 1em;max-width:1150px;color:#111}" +
	"pre{background:#f4f4f4;padding:.8em;white-space:pre-wrap;overflow-wrap:anywhere}" +
	"code{background:#f4f4f4;overflow-wrap:anywhere}svg{border:1px solid #ccc;max-width:100%;height:auto}" +
	"table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:left;border-bottom:1px solid #ddd;" +
	"overflow-wrap:anywhere}td.n,th.n{text-align:right;overflow-wrap:normal}li{margin:.3em 0;white-space:pre-wrap;" +
	"overflow-wrap:anywhere}li:target{outline:2px solid " + failedInk + "}h2{margin-top:2em}" +
	".ok{color:" + okInk + ";background:" + okGround + "}" +
	".failed{color:" + failedInk + ";background:" + failedGround + "}" +
	".undecided{color:" + undecidedInk + ";background:" + undecidedGround + "}" +
	".ok,.failed,.undecided{padding:0 .3em}.failed a{color:inherit}"

// class is the style of a verdict in one word.
func class(word string) string {
	kind, _, _ := strings.Cut(word, ":")
	return strings.ToLower(kind)
}

// overall returns the worst word of all workloads.
func overall(results []Result) string {
	words := map[string]bool{}
	for _, r := range results {
		words[class(Word(r.Verdict))] = true
	}
	switch {
	case words["failed"]:
		return "FAILED"
	case words["undecided"] || len(results) == 0:
		return "UNDECIDED"
	}
	return "ok"
}

// overview writes the table, with a line for each workload.
func overview(b *strings.Builder, results []Result) {
	b.WriteString("<table><tr><th>workload<th class=n>ok<th class=n>failed<th class=n>unknown<th class=n>faults" +
		"<th class=n>longest silence<th>least at stake<th>verdict</tr>\n")
	for _, r := range results {
		cells := "<td class=n>-<td class=n>-<td class=n>-<td class=n>-<td class=n>-"
		if r.Skipped == "" {
			f := Count(r.History)
			cells = fmt.Sprintf("<td class=n>%d<td class=n>%d<td class=n>%d<td class=n>%d<td class=n>%s",
				f.OK, f.Fail, f.Info, f.Faults, f.Gap.Round(time.Millisecond))
		}
		word := Word(r.Verdict)
		verdict := html.EscapeString(word)
		if len(r.Verdict.Problems) > 0 {
			verdict = fmt.Sprintf("<a href='#%s-1'>%s</a>", r.Workload, verdict)
		}
		fmt.Fprintf(b, "<tr><td><a href='#%[1]s'>%[1]s</a>%[2]s<td>%[3]s<td><span class=%[4]s>%[5]s</span></tr>\n",
			r.Workload, cells, html.EscapeString(leastAtStake(r.Verdict)), class(word), verdict)
	}
	b.WriteString("</table>\n")
}

// legend explains the pictures.
var legend = "<p>Verdicts: <span class=ok>ok</span> no answer breaks a rule; <span class=failed>FAILED</span> one does; " +
	"<span class=undecided>UNDECIDED</span> a rule was hardly at stake, or not judged to the end.</p>\n" +
	"<p>Pictures. Upper rows: when faults of each kind were on. Rows of nodes: " +
	swatch(upFill, "it ran") + ", " + swatch(downFill, "it was down") + ", " +
	swatch(awayFill, "paused, or not serving yet") + ", " +
	swatch(leadFill, "it took itself for the leader") + ", " + swatch(cutFill, "its links were cut or slow") +
	". A frame: a fault that names the node. " +
	"Dots: operations, when they were asked for and how long the answer took, " +
	swatch(okFill, "done") + ", " + swatch(failFill, "certainly not done") + ", " + swatch(unknownFill, "unknown") +
	". " + swatch(badFill, "Red lines") + ": an answer that breaks a rule, with the number of the problem, to which it " +
	"leads. Whatever is pointed at says what it is.</p>\n"

func swatch(fill, text string) string {
	return fmt.Sprintf("<b style='border-bottom:4px solid %s'>%s</b>", fill, text)
}

// section writes what is told of one workload.
func section(b *strings.Builder, r Result) {
	word := Word(r.Verdict)
	fmt.Fprintf(b, "<h2 id='%s'>%s: <span class=%s>%s</span></h2>\n",
		r.Workload, r.Workload, class(word), html.EscapeString(word))
	if r.Skipped != "" {
		fmt.Fprintf(b, "<p>Not run: %s.</p>\n", html.EscapeString(r.Skipped))
		return
	}
	problems(b, r)
	paragraphs(b, "<b class=undecided>undecided</b> ", r.Verdict.Undecided)
	stakes(b, r)
	paragraphs(b, "<b>not judged</b> ", r.Verdict.NotJudged)
	b.WriteString(Picture(r))
	paragraphs(b, "", r.Verdict.Notes)
}

// paragraphs writes one paragraph for each text.
func paragraphs(b *strings.Builder, begin string, texts []string) {
	for _, text := range texts {
		fmt.Fprintf(b, "<p>%s%s</p>\n", begin, html.EscapeString(text))
	}
}

// problems writes the list to which the numbers in the picture refer.
func problems(b *strings.Builder, r Result) {
	if len(r.Verdict.Problems) == 0 {
		return
	}
	b.WriteString("<ol>\n")
	for i, p := range r.Verdict.Problems {
		fmt.Fprintf(b, "<li id='%s-%d'><b class=failed>%s</b> %s</li>\n",
			r.Workload, i+1, html.EscapeString(p.Kind), html.EscapeString(p.Text))
	}
	b.WriteString("</ol>\n")
}

// stakes writes how often each rule was at stake, those first that came nearest to their least number, or below it.
func stakes(b *strings.Builder, r Result) {
	if len(r.Verdict.Stakes) == 0 {
		return
	}
	open := ""
	if r.Verdict.Stakes[0].Times < r.Verdict.Stakes[0].Least {
		open = " open"
	}
	fmt.Fprintf(b, "<details%s><summary>How often each rule was at stake, the least first</summary><table>\n"+
		"<tr><th class=n>times<th class=n>at least<th>rule<th>what it says</tr>\n", open)
	for _, s := range r.Verdict.Stakes {
		style := "ok"
		if s.Times < s.Least {
			style = "undecided"
		}
		fmt.Fprintf(b, "<tr><td class=n><span class=%s>%d</span><td class=n>%d<td>%s<td>%s</tr>\n",
			style, s.Times, s.Least, s.Rule.ID, html.EscapeString(s.Rule.Says))
	}
	b.WriteString("</table></details>\n")
}
