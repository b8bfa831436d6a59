package arg

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
		if got := NewGlob(c.pattern).Matches(c.s); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

// A pattern full of stars costs a product, not a power.
func TestGlobIsNotExponential(t *testing.T) {
	g := NewGlob(strings.Repeat("a*", 50) + "b")
	if g.Matches(strings.Repeat("a", 1000)) || g.Exceeded() {
		t.Errorf("%d steps", g.steps)
	}
	if g := NewGlob(strings.Repeat("*?", 50_000)); !g.Matches(strings.Repeat("a", 50_000)) {
		t.Error("as many characters as question marks")
	}
}

// No pattern and no string make the matcher fail or exceed its bound by much.
func FuzzGlob(f *testing.F) {
	f.Add("h[^a-c]*\\?", "hello")
	f.Add("[", "[")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		g := NewGlob(pattern)
		g.Matches(s)
		if most := int64(len(pattern)+2) * int64(len(s)+2) * 2; int64(g.steps) > most {
			t.Fatalf("%d steps for %d x %d bytes", g.steps, len(pattern), len(s))
		}
	})
}
