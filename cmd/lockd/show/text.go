// Package show formats a server's answers about locks, for people as tables that fit a width, and for programs as
// JSON. Text that clients have chosen reaches a terminal only as printable characters.
package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// Escape is a text with all that is not printable, control characters of a terminal or of writing from
// right to left above all, as in a Go string: \n, \x1b, \u202e; a backslash is doubled.
func Escape(s string) string {
	if strings.IndexFunc(s, escaped) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\\':
			b.WriteString(`\\`)
		case unicode.IsPrint(r):
			b.WriteString(s[:size])
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// escaped reports whether a rune must be looked at: one that stands for a wrong byte, too.
func escaped(r rune) bool { return r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r) }

// Width returns the number of terminal columns of an escaped text.
func Width(s string) int { return displaywidth.String(s) }

// cutMark replaces omitted text.
const cutMark = ".."

// Cut returns the beginning of an escaped text that fits a width.
func Cut(s string, width int) string {
	if width <= len(cutMark) {
		return displaywidth.TruncateString(s, max(0, width), "")
	}
	return displaywidth.TruncateString(s, width, cutMark)
}

// CutMiddle returns the beginning and the end of an escaped text, as much as fits a width: names that are alike at
// one end often differ at the other.
func CutMiddle(s string, width int) string {
	if Width(s) <= width || width <= len(cutMark)+1 {
		return Cut(s, width)
	}
	first := displaywidth.TruncateString(s, (width-len(cutMark)+1)/2, "")
	return first + cutMark + tail(s, width-len(cutMark)-Width(first))
}

// tail returns the longest end that fits, in whole grapheme clusters.
func tail(s string, width int) string {
	for g, left := displaywidth.StringGraphemes(s), Width(s); left > width && g.Next(); {
		left -= g.Width()
		s = s[len(g.Value()):]
	}
	return s
}

// Pad is an escaped text with spaces behind it, or before it, up to a width.
func Pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(0, width-Width(s)))
	if right {
		return space + s
	}
	return s + space
}

// Age is a length of time for people, in six characters at most for less than 27 years: 12ms, 4.2s,
// 1m05s, 2h07m, 12d03h, 420d.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(0, d); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%ds", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 100*day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}
