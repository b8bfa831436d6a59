package resp

import (
	"math"
	"testing"
)

// Integers are read as Redis 7.0.15 reads the argument of INCRBY (asked of it).
func TestParseInt(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1, "-1": -1, "10": 10, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if got, ok := ParseInt(s); !ok || got != want {
			t.Errorf("ParseInt(%q) = %d, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", "-", "+1", "01", "-01", "-0", "00", " 1", "1 ", "1\x00", "\x00", "1.0", "1e3", "0x10", "1_0", "--1", "٣", "inf",
		"9223372036854775808", "-9223372036854775809", "99999999999999999999", "-99999999999999999999", "184467440737095516150",
	} {
		if got, ok := ParseInt(s); ok {
			t.Errorf("ParseInt(%q) = %d, want it refused", s, got)
		}
	}
}

// Keywords are matched in any case, and only letters of ASCII have one.
func TestIs(t *testing.T) {
	for _, c := range []struct {
		s, keyword string
		want       bool
	}{
		{"NX", "NX", true}, {"nX", "NX", true}, {"", "NX", false}, {"NXX", "NX", false}, {"N", "NX", false},
		{"\u212aEEPTTL", "KEEPTTL", false}, {"ſET", "SET", false},
	} {
		if got := Is(c.s, c.keyword); got != c.want {
			t.Errorf("Is(%q, %q) = %v", c.s, c.keyword, got)
		}
	}
}
