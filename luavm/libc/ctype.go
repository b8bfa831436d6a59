package libc

import "strings"

// CString is s up to its first NUL byte: C prints no further.
func CString(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// Space is what C's isspace accepts.
const Space = " \t\n\v\f\r"

// IsAlpha reports whether b is a letter of ASCII.
func IsAlpha(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// IsAlnum reports whether b is a letter or a digit of ASCII.
func IsAlnum(b byte) bool { return IsAlpha(b) || isDigit(b) }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isHexDigit(b byte) bool { return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }
