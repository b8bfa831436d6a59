package value

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// Scores are C's double. Each sum and product is rounded by itself: Go may fuse a product and a sum on some processors,
// and replicas would differ. So a product is always converted, float64(a * b), before anything is added to it.

// Scored is a member with its score, which is never NaN.
type Scored struct {
	Score  float64
	Member string
}

// scoredLess reports whether a comes before b in a sorted set.
func scoredLess(a, b Scored) bool {
	if a.Score != b.Score {
		return a.Score < b.Score
	}
	return a.Member < b.Member
}

// CompareScored compares in the order of a sorted set, for slices.SortFunc.
func CompareScored(a, b Scored) int {
	if order := cmp.Compare(a.Score, b.Score); order != 0 {
		return order
	}
	return strings.Compare(a.Member, b.Member)
}

// ParseScore reads a score or a weight as Redis's string2d does: no spaces, no NaN, nothing that a double cannot hold.
func ParseScore(s string) (float64, bool) {
	f, outside, ok := parseDouble(s)
	return f, ok && !outside
}

// parseDouble reads a number as C's strtod does if that reads all of s, without spaces before the number, and without
// NaN. outside reports that the number is too large or too small for a double; f is then infinite, or 0.
func parseDouble(s string) (f float64, outside, ok bool) {
	digits := strings.ToLower(s)
	if s != "" && (s[0] == '+' || s[0] == '-') {
		digits = digits[1:]
	}
	mantissa, _, _ := strings.Cut(digits, "e")
	nonzero := "123456789"
	if strings.HasPrefix(digits, "0x") {
		mantissa, _, _ = strings.Cut(digits[2:], "p")
		nonzero = "123456789abcdef"
		if !strings.Contains(digits, "p") {
			s += "p0" // strtod needs no exponent here, strconv does
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case strings.Contains(s, "_") || math.IsNaN(f):
		return 0, false, false
	case err != nil && !math.IsInf(f, 0):
		return 0, false, false // not a number at all
	}
	return f, err != nil || f == 0 && strings.ContainsAny(mantissa, nonzero), true
}

// ScoreBound is an end of a range of scores. An open end excludes its own score.
type ScoreBound struct {
	score float64
	open  bool
}

// ParseScoreBound reads an end of a range as zslParseRange does, which accepts what C's strtod does: spaces before the
// number, nothing after "(", or nothing at all.
func ParseScoreBound(s string) (b ScoreBound, ok bool) {
	s, _, _ = strings.Cut(s, "\x00")
	s, b.open = strings.CutPrefix(s, "(")
	if s == "" {
		return b, true
	}
	b.score, _, ok = parseDouble(strings.TrimLeft(s, " \t\n\v\f\r"))
	return b, ok
}

// Begins reports whether the range that begins with b has begun at m.
func (b ScoreBound) Begins(m Scored) bool {
	return m.Score > b.score || !b.open && m.Score == b.score
}

// Ends reports whether the range that ends with b has ended at m.
func (b ScoreBound) Ends(m Scored) bool {
	return m.Score > b.score || b.open && m.Score == b.score
}

// LexBound is an end of a range of members.
type LexBound struct {
	beyond int // -1: before all members, 1: after all
	member string
	open   bool
}

// ParseLexBound reads an end of a range of members: -, +, or a member behind [ or (.
func ParseLexBound(s string) (b LexBound, ok bool) {
	if s == "" {
		return b, false
	}
	b.member, b.open = s[1:], s[0] == '('
	alone := len(s) == 1 || s[1] == 0 // as C sees it
	switch s[0] {
	case '(', '[':
		return b, true
	case '-':
		return LexBound{beyond: -1}, alone
	case '+':
		return LexBound{beyond: 1}, alone
	}
	return b, false
}

// Begins is ScoreBound.Begins for members.
func (b LexBound) Begins(m Scored) bool {
	if b.beyond != 0 {
		return b.beyond < 0
	}
	return m.Member > b.member || !b.open && m.Member == b.member
}

// Ends is ScoreBound.Ends for members.
func (b LexBound) Ends(m Scored) bool {
	if b.beyond != 0 {
		return b.beyond < 0
	}
	return m.Member > b.member || b.open && m.Member == b.member
}
