package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
)

// mark is a mark of the nemesis at a second.
func mark(at int64, op, node string) history.Event {
	return history.Event{Time: at * second, Process: history.Nemesis, Type: history.Info, Op: op, Node: node}
}

// drawn is a run of 20 seconds: n1 is killed, and one read breaks a rule.
func drawn() Result {
	bad := history.Op{Process: 3, Name: "get", Key: "<k>", Node: "n2", Outcome: history.OK, Start: 10 * second, End: 12 * second, Line: 7}
	v := &model.Verdict{}
	v.Add("states differ", nil, "at index 7")
	v.Add("stale read", &bad, "it saw less")
	return Result{Workload: "fresh", Verdict: v, Reigns: []Reign{{"n1", "2", 0, 4 * second}}, History: &history.History{
		Ops:    []history.Op{write(2), bad, {Name: "setting", Outcome: history.OK, End: second}, {Name: "set", Node: "n1", Outcome: history.Info, Start: 5 * second, End: history.Forever}},
		Faults: []history.Window{{Kind: "kill", What: "kill leader [n1]", Start: 4 * second, End: 8 * second}, {Kind: "slow", What: "slow drip", Start: 4 * second, End: 6 * second}, {Kind: "kill", What: "kill all [n10]", Start: 14 * second, End: 20 * second}},
		Marks:  []history.Event{mark(0, history.Up, "n2"), mark(0, history.Up, "n1"), mark(4, history.Down, "n1"), mark(8, history.Up, "n1"), mark(15, history.Down, "n2")},
		End:    20 * second,
	}}
}

// The picture has a row for each kind of fault and for each node, shows which nodes were down and which led, and marks
// the answer that breaks a rule with the name of the rule.
func TestPicture(t *testing.T) {
	svg := Picture(drawn())
	for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("no XML: %v\n%s", err, svg)
		}
	}
	last := -1
	for _, want := range []string{
		">kill</text>", "<title>kill leader [n1] 4.000..8.000 s</title>",
		">slow</text>", "<title>kill all [n10] 14.000..20.000 s</title>",
		">n1</text>", fmt.Sprintf("fill='%s'><title>n1: down 4.000..8.000 s</title>", downFill), "<title>n1 leads, term 2 0.000..4.000 s</title>", "stroke='" + colour("kill") + "'><title>kill leader [n1] 4",
		">n2</text>", "<title>n2: down 15.000..20.000 s</title>",
		">1ms</text>", ">10s</text>", "fill='" + okFill + "'", "fill='" + unknownFill + "'",
		">0s</text>", ">20s</text>",
		"<title>2 stale read: line 7: process 3 get &lt;k&gt;", ">2 stale read</text>",
	} {
		i := strings.Index(svg[last+1:], want)
		if i < 0 {
			t.Fatalf("no %s after %d\n%s", want, last, svg)
		}
		last += 1 + i
	}
	for what, want := range map[string]int{"kill leader": 2, "kill all": 1, "slow drip": 1, "down": 2, "stale read": 3, "states differ": 0} {
		if got := strings.Count(svg, what); got != want {
			t.Errorf("%q is there %d times, not %d\n%s", what, got, want, svg)
		}
	}
	if svg := Picture(Result{History: &history.History{}, Verdict: &model.Verdict{}}); !strings.Contains(svg, "</svg>") || strings.Contains(svg, "NaN") {
		t.Errorf("of nothing: %s", svg)
	}
}

// A node's row shows the marks of its history: also that it ran without serving, and which nodes it did not reach.
func TestSpells(t *testing.T) {
	link := func(at int64, op, key string, value ...string) history.Event {
		m := mark(at, op, "n1")
		m.Key, m.Value = key, value
		return m
	}
	h := &history.History{End: 20 * second, Marks: []history.Event{
		mark(0, history.Up, "n1"), mark(0, "serves", "n1"), mark(1, "leaves", "n1"), mark(2, history.Down, "n1"), mark(3, "leaves", "n2"),
		mark(4, history.Up, "n1"), mark(5, "serves", "n1"),
		link(6, "link", "n2", "slow"), link(7, "link", "n3", "cut"), link(8, "link", "n2", "cut"), link(9, "link", "n2", "whole"),
		mark(14, "rests", "n1"),
	}}
	var got []string
	for _, s := range spells(h, "n1") {
		got = append(got, fmt.Sprintf("%s %d..%d", s.what, s.start/second, s.end/second))
	}
	want := "not serving 1..5, down 2..4, cut or slow to n2 6..9, cut or slow to n3 7..20"
	if strings.Join(got, ", ") != want {
		t.Errorf("spells %s, want %s", strings.Join(got, ", "), want)
	}
}

// Names of rules do not overlap, and none leaves the picture.
func TestPictureOfManyProblems(t *testing.T) {
	r := drawn()
	r.Verdict = &model.Verdict{}
	for i := range int64(10) {
		r.History.Ops = append(r.History.Ops, history.Op{Name: "get", Node: "n1", Outcome: history.OK, Start: second, End: (10 + i/5*10) * second, Line: int(100 + i)})
		r.Verdict.Add("went back", &r.History.Ops[len(r.History.Ops)-1], "so it was seen")
	}
	svg := Picture(r)
	if lines, names := strings.Count(svg, "<circle cx"), strings.Count(svg, " went back</text>"); lines != 3+10+10 || names != 2 || !strings.Contains(svg, "text-anchor='end'>6 went back<") {
		t.Errorf("%d dots, %d names\n%s", lines, names, svg)
	}
}

// The logs of nodes tell which node led, until the node says otherwise, its process ends, or the history does.
func TestReigns(t *testing.T) {
	dir := t.TempDir()
	began := time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC)
	line := func(at int, what string) string {
		return fmt.Sprintf("time=%s level=INFO msg=%q term=%d why=\"so it is\"\n", began.Add(time.Duration(at)*time.Second).Format("2006-01-02T15:04:05.000Z07:00"), what, at+10)
	}
	for name, text := range map[string]string{
		// Before the history; then killed as its mark says; then until another one leads.
		"n1.log": "---- start 1 ----\n" + line(-9, "this node leads") + line(-5, "this node follows n2") + line(2, "this node leads") + "panic\n" +
			"---- start 2 ----\n" + line(6, "there is no leader") + line(7, "this node leads") + line(9, "this node follows n2"),
		// From before the history; then until its last words, as no mark tells its end; and over the end.
		"n2.log": line(-3, "this node leads") + line(1, "this node does not lead any more") + line(9, "this node leads") + line(12, "the disk hangs") +
			"---- start 2 ----\n" + line(15, "this node leads") + "time=soon level=INFO\n" + line(30, "this node does not lead any more"),
		"n3.log": line(40, "this node leads"),
		"other":  line(1, "this node leads"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &history.History{End: 20 * second, Marks: []history.Event{mark(1, history.Down, "n1"), mark(3, history.Down, "n2"), mark(4, history.Down, "n1"), mark(5, history.Down, "n1")}}
	want := []Reign{{"n2", "7", 0, 1 * second}, {"n1", "12", 2 * second, 4 * second}, {"n1", "17", 7 * second, 9 * second}, {"n2", "19", 9 * second, 12 * second}, {"n2", "25", 15 * second, 20 * second}}
	if got := Reigns(dir, began, h); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("reigns %v, want %v", got, want)
	}
	if got := Reigns(filepath.Join(dir, "missing"), began, h); got != nil {
		t.Errorf("without logs: %v", got)
	}
}

// contrast returns the contrast of two colours, each #rgb or #rrggbb, as WCAG has it.
func contrast(t *testing.T, a, b string) float64 {
	light := func(colour string) (sum float64) {
		digits := strings.TrimPrefix(colour, "#")
		if len(digits) == 3 {
			digits = strings.Repeat(digits[:1], 2) + strings.Repeat(digits[1:2], 2) + strings.Repeat(digits[2:], 2)
		}
		all, err := strconv.ParseUint(digits, 16, 24)
		if err != nil || len(digits) != 6 {
			t.Fatalf("%s is no colour", colour)
		}
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			part := float64(all>>(16-8*i)&255) / 255
			if part <= 0.04045 {
				sum += weight * part / 12.92
			} else {
				sum += weight * math.Pow((part+0.055)/1.055, 2.4)
			}
		}
		return sum
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Words have enough contrast to be read, and parts of the picture to be told from their ground.
func TestContrast(t *testing.T) {
	for _, words := range [][2]string{{okInk, okGround}, {failedInk, failedGround}, {undecidedInk, undecidedGround}, {badFill, "#fff"}} {
		if c := contrast(t, words[0], words[1]); c < 4.5 {
			t.Errorf("%s on %s has a contrast of %.1f", words[0], words[1], c)
		}
	}
	parts := [][2]string{{okFill, "#fff"}, {failFill, "#fff"}, {unknownFill, "#fff"}, {downFill, upFill}, {awayFill, upFill}, {leadFill, upFill}, {cutFill, upFill}}
	for hue := range 360 {
		parts = append(parts, [2]string{rgb(hue, 0.65, kindLight/100.0), "#fff"})
	}
	for _, part := range parts {
		if c := contrast(t, part[0], part[1]); c < 3 {
			t.Errorf("%s on %s has a contrast of %.1f", part[0], part[1], c)
		}
	}
	if got := colour("kill"); !strings.HasSuffix(got, fmt.Sprintf(" 65%% %d%%)", kindLight)) {
		t.Errorf("a kind has the colour %s", got)
	}
}

// rgb returns a colour that is given by its hue in degrees, its saturation and its lightness.
func rgb(hue int, saturation, light float64) string {
	part := func(n float64) int {
		k := math.Mod(n+float64(hue)/30, 12)
		return int(math.Round(255 * (light - saturation*min(light, 1-light)*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", part(0), part(8), part(4))
}

// The table leads to each workload and its first problem, the picture to each problem, and each is there once. Rules that
// were hardly at stake come first, and are marked.
func TestPageLeadsToProblems(t *testing.T) {
	rule := func(id string) *model.Rule { return &model.Rule{ID: id, Says: "It says " + id + "."} }
	bad, vain := drawn(), drawn()
	vain.Workload, vain.Verdict = "line", &model.Verdict{
		Undecided: []string{"in-turn was at stake 0 times"}, NotJudged: []string{"place-kept"},
		Stakes: []model.Stake{{Rule: rule("in-turn"), Times: 0, Least: 3}, {Rule: rule("one-holder"), Times: 90, Least: 4}},
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := Page(path, "", []Result{bad, vain, NotRun("set", "n1 died")}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for text, times := range map[string]int{
		"<h1>jepsen-lite: <span class=failed>FAILED</span>":                                                  1,
		"<tr><td><a href='#fresh'>fresh</a><td class=n>3<td class=n>0<td class=n>1<td class=n>3<td class=n>": 1,
		"<span class=failed><a href='#fresh-1'>FAILED: states differ</a></span></tr>":                        1,
		"<td>in-turn 0 of 3<td><span class=undecided>UNDECIDED</span></tr>":                                  1,
		"<a href='#set'>set</a><td class=n>-":                                                                1,
		"<h2 id='fresh'>":                                                                                    1, "<h2 id='line'>": 1, "<h2 id='set'>": 1,
		"<li id='fresh-1'>": 1, "<li id='fresh-2'>": 1, "<a href='#fresh-2'>": 2, // a line, and its name
		"at index 7": 1, "it saw less": 1,
		"<b class=undecided>undecided</b> in-turn was": 1, "<b>not judged</b> place-kept": 1,
		"<details open>": 1, "<span class=undecided>0</span><td class=n>3<td>in-turn<td>It says in-turn.": 1,
		"<span class=ok>90</span><td class=n>4<td>one-holder": 1,
	} {
		if n := strings.Count(page, text); n != times {
			t.Errorf("%q is there %d times, not %d, in\n%s", text, n, times, page)
		}
	}
	if strings.Index(page, ">in-turn<") > strings.Index(page, ">one-holder<") {
		t.Error("the rule that was not at stake does not come first")
	}
}

// The page needs no other file, and escapes the texts that it shows.
func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	if err := Page(path, "go run ./jepsen-lite --args=<x>", []Result{drawn()}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{"--args=&lt;x&gt;", "fresh: <span class=failed>FAILED: states differ</span></h2>", "</svg>", "states differ</b> at index 7</li>", "stale read</b> line 7: process 3 get &lt;k&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	for _, not := range []string{"<script", "<link", "<img", "@import", "url(", "src=", "https:", "<x>", "<k>"} {
		if strings.Contains(page, not) {
			t.Errorf("%s in\n%s", not, page)
		}
	}
}
