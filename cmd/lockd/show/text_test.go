package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"lockd/resp"
)

// No name affects a terminal, and different names never look alike by their escapes.
func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"order:42":           "order:42",
		"订单:42":              "订单:42",
		"a\x1b[2Jb\n\r\t":    `a\x1b[2Jb\n\r\t`,
		"\u009b31m":          `\u009b31m`,
		"abc\u202egnp":       `abc\u202egnp`,
		"\xff\x00":           `\xff\x00`,
		`back\slash`:         `back\\slash`,
		"\ufffd":             "\ufffd",
		"a\u200bb\U000e0001": `a\u200bb\U000e0001`,
		"":                   "",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b[2J", 5)
	f.Add("订单\xff", 3)
	f.Fuzz(func(t *testing.T, s string, width int) {
		width = min(max(width, 0), 200)
		escaped := Escape(s)
		for _, r := range escaped {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q: %q is not printable", s, r)
			}
		}
		for _, cut := range []string{Cut(escaped, width), CutMiddle(escaped, width)} {
			if Width(cut) > width || !utf8.ValidString(cut) {
				t.Fatalf("%q cut to %d: %q, of width %d", escaped, width, cut, Width(cut))
			}
		}
		for _, line := range Wrap(escaped, "> ", "  ", width) {
			if Width(line) > max(width, 2+wrapMin) {
				t.Fatalf("%q wrapped to %d: %q, of width %d", escaped, width, line, Width(line))
			}
		}
		if !json.Valid([]byte(JSON(resp.Array(resp.Bulk(s))))) {
			t.Fatalf("%q: %s", s, JSON(resp.Bulk(s)))
		}
	})
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in           string
		width        int
		cut, inThere string
	}{
		{"order:42", 8, "order:42", "order:42"},
		{"order:1234567", 10, "order:12..", "orde..4567"},
		{"order:1234567", 2, "or", "or"},
		{"order", 0, "", ""},
		{"订单订单订单", 7, "订单..", "订..单"},
		{"订单订单订单", 8, "订单订..", "订..订单"},
	} {
		if got := Cut(tt.in, tt.width); got != tt.cut {
			t.Errorf("%s in %d: %q, want %q", tt.in, tt.width, got, tt.cut)
		}
		if got := CutMiddle(tt.in, tt.width); got != tt.inThere {
			t.Errorf("%s in %d, in the middle: %q, want %q", tt.in, tt.width, got, tt.inThere)
		}
	}
}

func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Hour: "0ms", 0: "0ms", 999 * time.Millisecond: "999ms", time.Second: "1.0s", 4260 * time.Millisecond: "4.2s",
		9999 * time.Millisecond: "9.9s", 10 * time.Second: "10s", 65 * time.Second: "1m05s", time.Hour: "1h00m",
		2*time.Hour + 7*time.Minute + 59*time.Second: "2h07m", day: "1d00h", 12*day + 3*time.Hour: "12d03h", 99*day + 23*time.Hour: "99d23h", 420 * day: "420d",
		1<<63 - 1: "106751d",
	} {
		if got := Age(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

// Columns become narrower where they may, and go where they are empty.
func TestTable(t *testing.T) {
	table := Table{
		Columns: []Column{{Title: "KEY", Min: 6, Middle: true}, {Title: "NONE"}, {Title: "N", Right: true}, {Title: "NOTE", Min: 4}},
		Rows:    [][]string{{"order:1234567", "", "7", "bills of the month"}, {"x", "", "1234", ""}},
	}
	for width, want := range map[int]string{
		80: "KEY               N  NOTE\norder:1234567     7  bills of the month\nx              1234",
		30: "KEY             N  NOTE\norder..4567     7  bills of ..\nx            1234",
		20: "KEY        N  NOTE\nor..67     7  bill..\nx       1234",
		10: "KEY     ..\nor..67  ..\nx       ..",
	} {
		if got := strings.Join(table.Lines(width), "\n"); got != want {
			t.Errorf("in %d:\n%s\nwant:\n%s", width, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"one two three", 80, "> one two three"},
		{"one two three", 9, "> one two|  three"},
		{"abcdefghijklmnopqrstuvwxyz", 12, "> abcdefghij|  klmnopqrst|  uvwxyz"},
		{"a abcdefghijklm", 12, "> a|  abcdefghij|  klm"},
		{"", 12, ""},
	} {
		if got := strings.Join(Wrap(tt.in, "> ", "  ", tt.width), "|"); got != tt.want {
			t.Errorf("%s in %d: %s, want %s", tt.in, tt.width, got, tt.want)
		}
	}
}

// Whatever a server says can be shown, and written as JSON.
func TestValue(t *testing.T) {
	finding := func(template, says string, count int64) resp.Reply {
		return resp.Map(resp.Bulk("template"), resp.Bulk(template), resp.Bulk("count"), resp.Int(count), resp.Bulk("says"), resp.Bulk(says))
	}
	long := strings.Repeat("DEL by a client that did not take it. ", 3)
	for _, tt := range []struct {
		name, want, json string
		reply            resp.Reply
	}{
		{"text", `nothing \x1b is wrong`, `"nothing \u001b is wrong"`, resp.Bulk("nothing \x1b is wrong")},
		{"nil", "-", "null", resp.Nil()},
		{"nothing", "", "[]", resp.Array()},
		{"texts", "one\ntwo", "[\n  \"one\",\n  \"two\"\n]", resp.Bulks("one", "two")},
		{"short maps", "TEMPLATE  COUNT  SAYS\norder:*       3  polls\njob:*        17  no lease",
			"[\n  {\n    \"template\": \"order:*\",\n    \"count\": 3,\n    \"says\": \"polls\"\n  },\n" +
				"  {\n    \"template\": \"job:*\",\n    \"count\": 17,\n    \"says\": \"no lease\"\n  }\n]",
			resp.Array(finding("order:*", "polls", 3), finding("job:*", "no lease", 17))},
		{"long maps", "template: order:*\ncount: 3\nsays: DEL by a client that did not take it. DEL by a client that did not take\n" +
			"  it. DEL by a client that did not take it.\n\ntemplate: x\ncount: 1\nsays: y", "",
			resp.Array(finding("order:*", long, 3), finding("x", "y", 1))},
		{"nested", "since-ms: 1m05s\nof:\n  a\n  b\nmore: none\nrate: 1.5\nyes: true\nnothing: -",
			"{\n  \"since-ms\": 65000,\n  \"of\": [\n    \"a\",\n    \"b\"\n  ],\n  \"more\": [],\n  \"rate\": 1.5,\n  \"yes\": true,\n  \"nothing\": null\n}",
			resp.Map(resp.Bulk("since-ms"), resp.Int(65000), resp.Bulk("of"), resp.Bulks("a", "b"), resp.Bulk("more"), resp.Array(),
				resp.Bulk("rate"), resp.Double(1.5), resp.Bulk("yes"), resp.Bool(true), resp.Bulk("nothing"), resp.Nil())},
	} {
		if got := strings.Join(Value(tt.reply, 80), "\n"); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
		got := JSON(tt.reply)
		if tt.json != "" && got != tt.json+"\n" {
			t.Errorf("%s as JSON:\n%s\nwant:\n%s", tt.name, got, tt.json)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON: %s", tt.name, got)
		}
	}
	var back string
	if err := json.Unmarshal([]byte(JSON(resp.Bulk("\"\\\x1b\u202e\U000e0001订\u009b"))), &back); err != nil || back != "\"\\\x1b\u202e\U000e0001订\u009b" {
		t.Errorf("%q, %v", back, err)
	}
}
