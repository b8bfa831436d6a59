package resp

import (
	"math"
	"strings"
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

// Floats are read as Redis 7.0.15 reads the argument of INCRBYFLOAT (asked of
// it), but for what only its 80-bit numbers hold.
func TestParseFloat(t *testing.T) {
	for s, want := range map[string]float64{
		"0": 0, "1.5": 1.5, "+1.5": 1.5, "-1.5": -1.5, "1e3": 1000, "1e+5": 1e5, "1E5": 1e5, ".5": 0.5, "5.": 5, "01": 1,
		"0x10": 16, "0x1p3": 8, "0x.8": 0.5, "0X1P-1": 0.5, "-0xA": -10, "5e-324": 5e-324, "1e-400": 0,
		"inf": math.Inf(1), "-inf": math.Inf(-1), "+INF": math.Inf(1), "Infinity": math.Inf(1),
		strings.Repeat("0", 5000) + "1": 1,
	} {
		if got, ok := ParseFloat(s); !ok || got != want {
			t.Errorf("ParseFloat(%.20q) = %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{
		"", " 1.5", "1.5 ", "\t1", "1\n", "1_0", "0x1_0p1", "1e", "e1", "x", "0x", "0x1p", "0x1p+", "1p3", "0b1", "0o7", "--1",
		"1\x00", "1\x002", "nan", "NaN", "-nan", "nan(1)", "infin", "1e5000", "1e400", "-1e400", "１", "1,5", strings.Repeat("0", 6000),
	} {
		if got, ok := ParseFloat(s); ok {
			t.Errorf("ParseFloat(%.20q) = %v, want it refused", s, got)
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
