package value

import (
	"math"
	"testing"
)

// A score is read to the last bit, and nothing else is read.
func TestParseScore(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "-0": math.Copysign(0, -1), "+1": 1, ".5": .5, "5.": 5, "1e3": 1000, "1E-3": 0.001,
		"0x10": 16, "0X1P-1": .5, "0x.8": .5, "-0xa.8p1": -21,
		"inf": math.Inf(1), "-INFINITY": math.Inf(-1), "+Inf": math.Inf(1),
		"9007199254740993": 9007199254740992, "5e-324": 5e-324, "1e-320": 1e-320, "0e-999": 0, "0x0p-9999": 0,
		"1.7976931348623157e308": math.MaxFloat64,
	} {
		got, ok := ParseScore(text)
		if !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%q: %v %t, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", " 1", "1 ", "x", "nan", "-NaN", "+nan", "nan(1)", "1e400", "-1e400", "1e-400", "0x1p-2000", "0x1p9999",
		"1e", "1e+", "0x", "0x1p",
		"1_0", "0x1_0", "infinit", "++1", "+-1", "+", ".", "1,5", "1\x00", "1p3",
	} {
		if got, ok := ParseScore(text); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
