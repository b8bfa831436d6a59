package keyspace

import (
	"strings"
	"testing"
)

// Patterns match as Redis's do; each line was asked of redis-server 7.0.15.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"*", "abc", true}, {"", "", true}, {"", "a", false},
		{"a*", "abc", true}, {"*c", "abc", true}, {"*b", "abc", false}, {"a**c", "abc", true},
		{"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXcYb", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"?", "", false},
		{"[abc]", "b", true}, {"[^abc]", "b", false}, {"[^abc]", "d", true},
		{"[a-c]", "b", true}, {"[c-a]", "b", true}, {"[a-c", "b", true}, {"x[a-", "xa", true}, {"x[a-", "x-", true},
		{"[]", "a", false}, {"[]", "]", false}, {"[^]", "a", true}, {"[", "a", false}, {"[", "[", false},
		{`[\]]`, "]", true}, {`[\-a]`, "-", true}, {`[a\-z]`, "b", false},
		{`\*`, "*", true}, {`\*`, "a", false}, {`a\`, `a\`, true}, {`a\`, "a", false},
		{"*[a]*?", "xxax", true}, {"a*", "A", false}, {"h[\xff]", "h\xff", true}, {"h?", "hé", false},
		{"*a*a*b", "aaaab", true}, {"[a-c]*[x-z]", "a--z", true},
	} {
		if got := newGlob(c.pattern).match(c.s); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

// A pattern full of stars costs a product, not a power.
func TestGlobIsNotExponential(t *testing.T) {
	g := newGlob(strings.Repeat("a*", 50) + "b")
	if g.match(strings.Repeat("a", 1000)) || g.exceeded() {
		t.Errorf("%d steps", g.steps)
	}
	if g := newGlob(strings.Repeat("*?", 50_000)); !g.match(strings.Repeat("a", 50_000)) {
		t.Error("as many characters as question marks")
	}
}

// What exceeds the bound of one command is an error, not an answer.
func TestGlobIsBounded(t *testing.T) {
	m := New(nil)
	do(m, 1, "SET "+strings.Repeat("a", 100_000)+" v")
	pattern := "*" + strings.Repeat("a", 30_000) + "b"
	if got := do(m, 1, "KEYS "+pattern); got != errGlob {
		t.Error(got)
	}
	if got := do(m, 1, "SCAN 0 MATCH "+pattern); got != errGlob {
		t.Error(got)
	}
}
