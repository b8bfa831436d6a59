package libc

import "strings"

// CString returns s up to its first NUL byte, where C strings end.
func CString(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// Space has the bytes that C's isspace accepts.
const Space = " \t\n\v\f\r"

// IsAlpha reports whether b is a letter of ASCII.
func IsAlpha(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// IsAlnum reports whether b is a letter or a digit of ASCII.
func IsAlnum(b byte) bool { return IsAlpha(b) || IsDigit(b) }

// IsDigit reports whether b is a decimal digit.
func IsDigit(b byte) bool { return b >= '0' && b <= '9' }

// IsHexDigit reports whether b is a hexadecimal digit.
func IsHexDigit(b byte) bool { return IsDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }
