package libc

import (
	"math"
	"strconv"
	"strings"
)

// FormatNumber writes f as Lua 5.1 does, by C's "%.14g": tostring(1e15) is
// "1e+15", not "1000000000000000".
func FormatNumber(f float64) string {
	// The greatest integer that fits 14 digits; most numbers of scripts are below.
	const plainMax = 1e14
	if f == math.Trunc(f) && math.Abs(f) < plainMax && (f != 0 || !math.Signbit(f)) {
		return strconv.FormatInt(int64(f), 10)
	}
	if s, ok := FormatSpecial(f); ok {
		return s
	}
	return strconv.FormatFloat(f, 'g', 14, 64)
}

// FormatSpecial writes infinities and NaNs as C's printf does, which shows the sign of NaN: 0/0 is "-nan" where the
// processor makes it negative.
func FormatSpecial(f float64) (string, bool) {
	var s string
	switch {
	case math.IsInf(f, 0):
		s = "inf"
	case math.IsNaN(f):
		s = "nan"
	default:
		return "", false
	}
	if math.Signbit(f) {
		s = "-" + s
	}
	return s, true
}

// ParseNumber parses a number as Lua 5.1 does in a string: C's strtod (decimal, hexadecimal, inf, nan) with space
// around it. It stops at a NUL byte, as C does.
func ParseNumber(s string) (float64, bool) {
	s = strings.Trim(CString(s), Space)
	negative := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	f, ok := parseUnsigned(s)
	if negative {
		f = math.Copysign(f, -1)
	}
	return f, ok
}

func parseUnsigned(s string) (float64, bool) {
	switch {
	case s == "" || s[0] == '+' || s[0] == '-':
		return 0, false
	case len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x':
		return parseHex(s)
	case strings.EqualFold(s, "inf"), strings.EqualFold(s, "infinity"):
		return math.Inf(1), true
	case isNaNWord(s):
		return math.Copysign(math.NaN(), 1), true
	}
	if !onlyBytes(s, "0123456789.eE+-") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || isOutOfRange(err)
}

// isNaNWord accepts nan and nan(letters), as strtod does.
func isNaNWord(s string) bool {
	if len(s) < 3 || !strings.EqualFold(s[:3], "nan") {
		return false
	}
	rest := s[3:]
	return rest == "" || len(rest) >= 2 && rest[0] == '(' && rest[len(rest)-1] == ')' &&
		onlyBytes(rest[1:len(rest)-1], "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
}

func parseHex(s string) (float64, bool) {
	if !onlyBytes(s[2:], "0123456789abcdefABCDEF.pP+-") {
		return 0, false
	}
	if !strings.ContainsAny(s, "pP") {
		s += "p0" // strconv insists on an exponent, C does not
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || isOutOfRange(err)
}

// isOutOfRange reports an overflow, for which strtod returns infinity, or an underflow, for which it returns zero.
func isOutOfRange(err error) bool {
	e, ok := err.(*strconv.NumError)
	return ok && e.Err == strconv.ErrRange
}

func onlyBytes(s, set string) bool {
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(set, s[i]) < 0 {
			return false
		}
	}
	return true
}

// ParseBase parses an integer as strtoul does, with space around it.
func ParseBase(s string, base int) (float64, bool) {
	s = strings.Trim(CString(s), Space)
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	if strings.ContainsAny(s, "_+-") {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && !isOutOfRange(err) {
		return 0, false
	}
	if negative && err == nil {
		n = -n
	}
	return float64(n), true
}

// IsTiny reports whether strconv takes long to parse f from s.
func IsTiny(f float64, s string) bool {
	return math.Abs(f) < 0x1p-1022 && (f != 0 || len(s) > len("0.000"))
}
