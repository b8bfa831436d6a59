package resp

// Glob matches Redis's patterns: * ? [abc] [^a-z] and \x for a literal x. It is stringmatchlen of Redis without the
// recursion: on a mismatch only the last star is extended, which suffices because every other element matches exactly
// one byte. The work is at most the product of both lengths. steps is counted down and bounds it further: if the
// steps run out, Glob returns false and leaves steps below zero.
func Glob(pattern, s string, steps *int) bool {
	p, i := 0, 0
	star, from := -1, 0
	for i < len(s) {
		if *steps--; *steps < 0 {
			return false
		}
		if p < len(pattern) && pattern[p] == '*' {
			if p+1 == len(pattern) {
				return true
			}
			star, from = p, i
			p++
			continue
		}
		if p < len(pattern) {
			if next, ok := globOne(pattern, p, s[i], steps); ok {
				p = next
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne matches the element of the pattern at p, not a star, with one byte and
// returns where the next element begins.
func globOne(pattern string, p int, c byte, steps *int) (next int, ok bool) {
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return globClass(pattern, p+1, c, steps)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// globClass matches [...]; p is behind the bracket. A class that is not closed
// ends with the pattern, as in Redis.
func globClass(pattern string, p int, c byte, steps *int) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	found := false
	for p < len(pattern) && pattern[p] != ']' {
		*steps--
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			found = found || pattern[p] == c
			p++
		case p+2 < len(pattern) && pattern[p+1] == '-':
			lo, hi := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			found = found || lo <= c && c <= hi
			p += 3
		default:
			found = found || pattern[p] == c
			p++
		}
	}
	return min(p+1, len(pattern)), found != not
}
