package resp

import (
	"strings"
	"testing"
)

// Patterns mean what they mean in Redis (stringmatchlen of util.c).
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true},
		{"a*c", "abcd", false}, {"h?llo", "hello", true}, {"h?llo", "hllo", false}, {"h[ae]llo", "hallo", true},
		{"h[^e]llo", "hello", false}, {"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {`a\`, `a\`, true}, {"[abc", "c", true}, {"[]a", "]a", false},
		{`[\]]`, "]", true}, {"a**b", "ab", true}, {"*a*b*", "xxaxxbxx", true}, {"\xff*", "\xff\x00", true},
		{"[a-]", "-", false}, {"[a-]", "`", true}, {"__key*__:*", "__keyspace@0__:lock", true},
	} {
		steps := 1 << 20
		if got := Glob(c.pattern, c.s, &steps); got != c.want {
			t.Errorf("Glob(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// A hostile pattern ends after its steps.
func TestGlobIsBounded(t *testing.T) {
	steps := 1000
	if Glob(strings.Repeat("a*", 500)+"b", strings.Repeat("a", 100000), &steps) || steps >= 0 {
		t.Fatal("the match should have run out of steps")
	}
}
