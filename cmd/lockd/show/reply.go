package show

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"lockd/resp"
)

// Value are the lines that show any reply: maps with the same names as a table if that fits the width,
// other maps as names and values, texts as they are.
func Value(r resp.Reply, width int) []string { return value(r, "", width) }

func value(r resp.Reply, indent string, width int) (lines []string) {
	switch r.Kind {
	case resp.KindArray, resp.KindSet, resp.KindPush:
		return items(r.Elems, indent, width)
	case resp.KindMap, resp.KindPairs, resp.KindPairMap:
		return pairs(r.Elems, indent, width)
	}
	for line := range strings.Lines(text("", r)) {
		lines = append(lines, Wrap(Escape(strings.TrimRight(line, "\r\n")), indent, indent, width)...)
	}
	return lines
}

// isNested reports whether a reply contains replies.
func isNested(r resp.Reply) bool { return len(r.Elems) > 0 }

func items(elems []resp.Reply, indent string, width int) (lines []string) {
	if t := tableOf(elems); t != nil {
		if rows := t.Lines(unbounded); widest(rows) <= width-len(indent) {
			return prefixed(rows, indent)
		}
	}
	for i, e := range elems {
		if i > 0 && isNested(e) {
			lines = append(lines, "")
		}
		lines = append(lines, value(e, indent, width)...)
	}
	return lines
}

func pairs(elems []resp.Reply, indent string, width int) (lines []string) {
	for i := 0; i+1 < len(elems); i += 2 {
		name, v := elems[i], elems[i+1]
		title := indent + Escape(text("", name)) + ":"
		switch {
		case isNested(v):
			lines = append(append(lines, Cut(title, width)), value(v, indent+"  ", width)...)
		default:
			lines = append(lines, Wrap(Escape(text(name.Str, v)), title+" ", indent+"  ", width)...)
		}
	}
	return lines
}

// unbounded is a width that every table fits.
const unbounded = 1 << 30

func widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, Width(line))
	}
	return width
}

func prefixed(lines []string, prefix string) []string {
	for i := range lines {
		lines[i] = prefix + lines[i]
	}
	return lines
}

// tableOf is a table of maps that all have the same names, and no others in them; nil if they have not.
func tableOf(elems []resp.Reply) *Table {
	if len(elems) == 0 || elems[0].Kind != resp.KindMap {
		return nil
	}
	t := &Table{}
	for n, e := range elems {
		if e.Kind != resp.KindMap || len(e.Elems) != len(elems[0].Elems) {
			return nil
		}
		var row []string
		for i := 0; i+1 < len(e.Elems); i += 2 {
			name, v := e.Elems[i].Str, e.Elems[i+1]
			if name != elems[0].Elems[i].Str || isNested(v) {
				return nil
			}
			if n == 0 {
				title := strings.ToUpper(Escape(strings.TrimSuffix(name, "-ms")))
				t.Columns = append(t.Columns, Column{Title: title, Right: v.Kind == resp.KindInt})
			}
			row = append(row, Escape(text(name, v)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// text is a reply that has no others in it, as the value of a name: one that ends with -ms is a time.
func text(name string, r resp.Reply) string {
	switch r.Kind {
	case resp.KindInt:
		if strings.HasSuffix(name, "-ms") && r.Int >= 0 {
			return Age(time.Duration(min(r.Int, int64(1<<63-1)/int64(time.Millisecond))) * time.Millisecond)
		}
		return strconv.FormatInt(r.Int, 10)
	case resp.KindBool:
		return strconv.FormatBool(r.Int != 0)
	case resp.KindDouble:
		return resp.FormatDouble(r.Float())
	case resp.KindNil, resp.KindNilArray, resp.KindNone:
		return "-"
	case resp.KindArray, resp.KindSet, resp.KindPush, resp.KindMap, resp.KindPairs, resp.KindPairMap:
		return "none"
	}
	return r.Str
}

// JSON is a reply as JSON, indented: maps as objects, in their order. Bytes that are no UTF-8 become
// U+FFFD, and what is not printable is escaped.
func JSON(r resp.Reply) string { return string(append(appendJSON(nil, r, "\n"), '\n')) }

// appendJSON appends a reply as JSON; newline begins each line.
func appendJSON(dst []byte, r resp.Reply, newline string) []byte {
	switch r.Kind {
	case resp.KindNil, resp.KindNilArray, resp.KindNone:
		return append(dst, "null"...)
	case resp.KindInt:
		return strconv.AppendInt(dst, r.Int, 10)
	case resp.KindBool:
		return strconv.AppendBool(dst, r.Int != 0)
	case resp.KindBigNumber:
		return append(dst, r.Str...)
	case resp.KindDouble:
		if f := r.Float(); f-f == 0 { // JSON has no infinity
			return append(dst, resp.FormatDouble(f)...)
		}
		return appendString(dst, resp.FormatDouble(r.Float()))
	case resp.KindArray, resp.KindSet, resp.KindPush:
		return appendNested(dst, r, newline, '[', ']', 1)
	case resp.KindMap, resp.KindPairs, resp.KindPairMap:
		return appendNested(dst, r, newline, '{', '}', 2)
	}
	return appendString(dst, r.Str)
}

// appendNested appends the items of a reply, or its pairs.
func appendNested(dst []byte, r resp.Reply, newline string, open, end byte, step int) []byte {
	dst = append(dst, open)
	inner := newline + "  "
	for i := 0; i+step <= len(r.Elems); i += step {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, inner...)
		if step == 2 {
			dst = append(appendString(dst, text("", r.Elems[i])), ": "...)
		}
		dst = appendJSON(dst, r.Elems[i+step-1], inner)
	}
	if len(r.Elems) >= step {
		dst = append(dst, newline...)
	}
	return append(dst, end)
}

func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	escape := func(u rune) {
		dst = append(dst, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case unicode.IsPrint(r):
			dst = append(dst, string(r)...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escape(high)
			escape(low)
		default:
			escape(r)
		}
	}
	return append(dst, '"')
}
