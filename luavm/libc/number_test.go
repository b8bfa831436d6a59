package libc

import (
	"math"
	"testing"
)

// Numbers are written as C's "%.14g" writes them.
func TestFormatNumber(t *testing.T) {
	negZero := math.Copysign(0, -1)
	tests := []struct {
		f    float64
		want string
	}{
		{0, "0"}, {negZero, "-0"}, {3, "3"}, {-3.5, "-3.5"}, {0.1, "0.1"}, {1.0 / 3, "0.33333333333333"},
		{99999999999999, "99999999999999"}, {1e14, "1e+14"}, {1e15, "1e+15"}, {123456789012345, "1.2345678901234e+14"},
		{99999999999999.5, "1e+14"}, {1700000000000000, "1.7e+15"}, {1 << 53, "9.007199254741e+15"},
		{1e-5, "1e-05"}, {0.0001, "0.0001"}, {1e100, "1e+100"}, {5e-324, "4.9406564584125e-324"},
		{math.MaxFloat64, "1.7976931348623e+308"}, {100000, "100000"}, {123456789.123, "123456789.123"},
		{math.Inf(1), "inf"}, {math.Inf(-1), "-inf"}, {math.Copysign(math.NaN(), 1), "nan"}, {math.Copysign(math.NaN(), -1), "-nan"},
	}
	for _, tt := range tests {
		if got := FormatNumber(tt.f); got != tt.want {
			t.Errorf("formatNumber(%v) = %s, want %s", tt.f, got, tt.want)
		}
	}
}

// Strings become numbers exactly where C's strtod reads all of them.
func TestParseNumber(t *testing.T) {
	inf := math.Inf(1)
	good := map[string]float64{
		"10": 10, "010": 10, " 10 ": 10, "10\r": 10, "5\v": 5, "\t5\n": 5, "+5": 5, "-5": -5, ".5": 0.5, "5.": 5,
		"1e3": 1000, "1.5E-3": 0.0015, "0x10": 16, "-0x10": -16, "0X1p4": 16, "0x.8": 0.5, "inf": inf, "-INFINITY": -inf,
		"1e999": inf, "1e-999": 0, "9223372036854775808": 1 << 63, "10\x00junk": 10,
	}
	for s, want := range good {
		if got, ok := ParseNumber(s); !ok || got != want {
			t.Errorf("parseNumber(%q) = %v, %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", " ", "abc", "1_000", "0b11", "0o17", "0x", "1e", "e5", "--5", "+-5", "5 5", "1p4", "nan(", ".", "0x1p"} {
		if got, ok := ParseNumber(s); ok {
			t.Errorf("parseNumber(%q) = %v, want a refusal", s, got)
		}
	}
	if f, ok := ParseNumber("-nan"); !ok || !math.IsNaN(f) || !math.Signbit(f) {
		t.Errorf("parseNumber(-nan) = %v, %v", f, ok)
	}
}
