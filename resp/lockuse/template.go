package lockuse

// templateBytesMax bounds a template.
const templateBytesMax = 128

// Template replaces UUIDs, long hexadecimal words and digits by "*", so that the names of similar locks become equal:
// order:42 and order:43 both become order:*.
func Template(key string) string {
	b := make([]byte, 0, min(len(key), templateBytesMax))
	for i := 0; i < len(key) && len(b) < templateBytesMax; {
		n := varying(key[i:], i > 0 && isWord(key[i-1]))
		switch {
		case n == 0:
			b = append(b, key[i])
			n = 1
		case len(b) == 0 || b[len(b)-1] != '*':
			b = append(b, '*')
		}
		i += n
	}
	return string(b)
}

// varying returns how many bytes at the beginning of text are a number or an id; inside: text begins inside a word.
func varying(text string, inside bool) int {
	if !inside {
		if n := uuidAt(text); n > 0 {
			return n
		}
		if n := hexAt(text); n > 0 {
			return n
		}
	}
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// uuidAt returns the length of a UUID at the beginning that is a whole word; 0 if there is none.
func uuidAt(text string) int {
	const form = "00000000-0000-0000-0000-000000000000"
	if len(text) < len(form) || len(text) > len(form) && isWord(text[len(form)]) {
		return 0
	}
	for i := range len(form) {
		if (form[i] == '-') != (text[i] == '-') || form[i] != '-' && !isHex(text[i]) {
			return 0
		}
	}
	return len(form)
}

// hexAt returns the length of a word of eight or more hexadecimal digits at the beginning, not all of them letters; 0
// if there is none.
func hexAt(text string) int {
	n, digits := 0, 0
	for n < len(text) && isHex(text[n]) {
		if isDigit(text[n]) {
			digits++
		}
		n++
	}
	if n < 8 || digits == 0 || n < len(text) && isWord(text[n]) {
		return 0
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
