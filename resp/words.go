package resp

import "strings"

// SplitWords splits a line as Redis's sdssplitargs does: words between blanks,
// "..." with \n \r \t \b \a \\ \" and \xHH, '...' with \' only. It reports false
// where a quote is not closed, or is closed within a word.
func SplitWords(line string) (words []string, ok bool) {
	for {
		line = strings.TrimLeft(line, " \t\n\v\f\r\x00")
		if line == "" {
			return words, true
		}
		word, rest, ok := nextWord(line)
		if !ok {
			return nil, false
		}
		words = append(words, word)
		line = rest
	}
}

// nextWord takes the first word of line, which does not begin with a blank.
func nextWord(line string) (word, rest string, ok bool) {
	var b []byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\n', '\r', '\t', 0:
			return string(b), line[i:], true
		case '"', '\'':
			quoted, n := quotedWord(line[i+1:], c)
			end := i + 1 + n
			if n < 0 || end < len(line) && !isBlank(line[end]) {
				return "", "", false
			}
			return string(append(b, quoted...)), line[end:], true
		default:
			b = append(b, c)
		}
	}
	return string(b), "", true
}

// quotedWord reads up to the closing quote and returns how many bytes that took, the quote included; -1 if there is
// none.
func quotedWord(s string, quote byte) ([]byte, int) {
	var b []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b, i + 1
		case s[i] != '\\' || i+1 == len(s):
			b = append(b, s[i])
		case quote == '\'':
			if s[i+1] == '\'' {
				i++
			}
			b = append(b, s[i])
		case s[i+1] == 'x' && i+3 < len(s) && isHexDigit(s[i+2]) && isHexDigit(s[i+3]):
			b = append(b, hexDigit(s[i+2])<<4|hexDigit(s[i+3]))
			i += 3
		default:
			i++
			b = append(b, unescape(s[i]))
		}
	}
	return nil, -1
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isBlank(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r'
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
