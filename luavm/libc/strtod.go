package libc

import (
	"strings"
)

// ScanNumber parses a number at the start of s as C's strtod does, and returns its length in bytes; 0 if there is
// none.
func ScanNumber(s string) (float64, int) {
	sign := 0
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign = 1
	}
	var size int
	switch rest := s[sign:]; {
	case foldPrefix(rest, "infinity"):
		size = len("infinity")
	case foldPrefix(rest, "inf"):
		size = len("inf")
	case foldPrefix(rest, "nan"):
		size = len("nan") + nanPayload(rest[len("nan"):])
	case foldPrefix(rest, "0x"):
		size = scanDigits(rest[2:], IsHexDigit, 'p')
		if size > 0 {
			size += len("0x")
		} else {
			size = 1 // the 0 before the x
		}
	default:
		size = scanDigits(rest, IsDigit, 'e')
	}
	if size == 0 {
		return 0, 0
	}
	f, _ := ParseNumber(s[:sign+size])
	return OneNaN(f), sign + size
}

// scanDigits returns the length of digits, with at most one point among them, and an exponent; 0 without digits.
func scanDigits(s string, digit func(byte) bool, exponent byte) int {
	i, digits, point := 0, 0, false
	for ; i < len(s); i++ {
		if digit(s[i]) {
			digits++
		} else if s[i] != '.' || point {
			break
		} else {
			point = true
		}
	}
	if digits == 0 {
		return 0
	}
	if i < len(s) && s[i]|0x20 == exponent {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		first := j
		for j < len(s) && IsDigit(s[j]) {
			j++
		}
		if j > first {
			return j
		}
	}
	return i
}

// nanPayload returns the length of "(letters)" after nan, which strtod skips.
func nanPayload(s string) int {
	if s == "" || s[0] != '(' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		if s[i] == ')' {
			return i + 1
		}
		if !IsAlnum(s[i]) && s[i] != '_' {
			break
		}
	}
	return 0
}

func foldPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
