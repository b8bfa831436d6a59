package resp

import (
	"strconv"
	"strings"
)

// Args is one command as its client sent it: the name, then the arguments, any bytes. It may alias a much larger
// buffer (a pipeline, a log entry); clone a string to keep it longer.
type Args []string

// Is reports whether s is the given keyword, of ASCII letters, without regard to
// case, as in Redis. The lengths must agree, so that the Kelvin sign is no k.
func Is(s, keyword string) bool {
	return len(s) == len(keyword) && strings.EqualFold(s, keyword)
}

// ParseInt reads an integer exactly as Redis's string2ll does: an optional minus
// sign, no plus sign, no spaces, no leading zeros, within 64 bits.
func ParseInt(s string) (int64, bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	digits := s
	if s[0] == '-' {
		digits = s[1:]
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && s != "0") {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
