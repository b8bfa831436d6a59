// Package notation writes replies as redis-cli does, with one addition: the notation shows what a reply is, so it
// stands for both protocols. A map is numbered 1#, a set 1~, a push 1>, a map of RESP3 alone 1%, and the items of a
// list of pairs are joined by =>. The transcripts of tests are written in it.
package notation

import (
	"fmt"
	"strconv"
	"strings"

	"lockd/resp"
)

// Lines writes a reply, a line for each of its items.
func Lines(r resp.Reply) []string {
	switch r.Kind {
	case resp.KindNone:
		return []string{"(none)"}
	case resp.KindStatus:
		if r.Str == "" || strings.Trim(r.Str, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") != "" {
			return []string{"(status) " + strconv.Quote(r.Str)}
		}
		return []string{r.Str}
	case resp.KindError:
		if q := strconv.Quote(r.Str); strings.Contains(q, `\x`) || strings.Contains(q, `\n`) {
			return []string{"(error) " + q}
		}
		return []string{"(error) " + r.Str}
	case resp.KindInt:
		return []string{fmt.Sprintf("(integer) %d", r.Int)}
	case resp.KindBulk:
		return []string{quote(r.Str)}
	case resp.KindNil:
		return []string{"(nil)"}
	case resp.KindNilArray:
		return []string{"(nil array)"}
	case resp.KindDouble:
		return []string{"(double) " + resp.FormatDouble(r.Float())}
	case resp.KindBool:
		return []string{fmt.Sprintf("(%t)", r.Int != 0)}
	case resp.KindBigNumber:
		return []string{"(big number) " + r.Str}
	case resp.KindVerbatim:
		return []string{"(verbatim) " + quote(r.Str)}
	case resp.KindMap, resp.KindPairs, resp.KindPairMap:
		return pairs(r)
	}
	return elems(r)
}

// quote writes a string as redis-cli does: bytes, not characters.
func quote(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b.WriteString("\\" + string(rune(c)))
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

func elems(r resp.Reply) (lines []string) {
	mark := map[resp.Kind]string{resp.KindArray: ")", resp.KindSet: "~", resp.KindPush: ">"}[r.Kind]
	if len(r.Elems) == 0 {
		return []string{map[resp.Kind]string{
			resp.KindArray: "(empty array)", resp.KindSet: "(empty set)", resp.KindPush: "(empty push)",
		}[r.Kind]}
	}
	for i, e := range r.Elems {
		lines = append(lines, Indent(fmt.Sprintf("%d%s ", i+1, mark), Lines(e))...)
	}
	return lines
}

func pairs(r resp.Reply) (lines []string) {
	mark := map[resp.Kind]string{resp.KindMap: "#", resp.KindPairs: ")", resp.KindPairMap: "%"}[r.Kind]
	if len(r.Elems) == 0 {
		return []string{map[resp.Kind]string{
			resp.KindMap: "(empty map)", resp.KindPairs: "(empty pairs)", resp.KindPairMap: "(empty map of pairs)",
		}[r.Kind]}
	}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		key := strings.Join(Lines(r.Elems[i]), " ")
		lines = append(lines, Indent(fmt.Sprintf("%d%s %s => ", i/2+1, mark, key), Lines(r.Elems[i+1]))...)
	}
	return lines
}

// Indent puts a mark before the first line and as many spaces before the others.
func Indent(mark string, lines []string) []string {
	out := []string{mark + lines[0]}
	for _, l := range lines[1:] {
		out = append(out, strings.Repeat(" ", len(mark))+l)
	}
	return out
}
