package value

import (
	"math"
	"math/big"
	"strings"
)

// LongDouble is a number of INCRBYFLOAT and HINCRBYFLOAT. Redis counts in C's
// long double, on the common processor a float of 64 bits of mantissa: 0.1 + 0.2
// is 0.3 there. big.Float of that precision rounds in the same way, and on every
// processor alike.
type LongDouble struct{ f *big.Float }

// The bounds of the 80-bit long double, and of the text Redis reads one from.
const (
	longDoubleBits    = 64
	longDoubleExpMax  = 16384
	longDoubleExpMin  = -16444
	longDoubleTextMax = 5 * 1024
	longDoubleDigits  = 17 // after the point
)

// ParseLongDouble reads what C's strtold takes: decimal, hexadecimal or infinite,
// no space before or after; no NaN, nothing out of range.
func ParseLongDouble(s string) (LongDouble, bool) {
	if s == "" || len(s) >= longDoubleTextMax {
		return LongDouble{}, false
	}
	f := new(big.Float).SetPrec(longDoubleBits)
	unsigned := strings.ToLower(strings.TrimLeft(s[:1], "+-") + s[1:])
	switch {
	case unsigned == "inf" || unsigned == "infinity":
		return LongDouble{f.SetInf(s[0] == '-')}, true
	case unsigned == "" || strings.Contains(s, "_"):
		return LongDouble{}, false
	}
	base := 10
	if strings.HasPrefix(unsigned, "0x") {
		base = 0
	} else if strings.Trim(unsigned, "0123456789.e+-") != "" {
		return LongDouble{}, false // p exponents are of the hexadecimal form
	}
	if _, _, err := f.Parse(s, base); err != nil {
		return LongDouble{}, false
	}
	mantissa, _, _ := strings.Cut(unsigned, "e")
	lost := f.Sign() == 0 && strings.ContainsAny(mantissa, "123456789")
	outside := f.Sign() != 0 && (f.IsInf() || f.MantExp(nil) > longDoubleExpMax || f.MantExp(nil) < longDoubleExpMin)
	return LongDouble{f}, !lost && !outside
}

// LongDoubleWork is the work of reading or writing a number of this text: that of its
// digits, and of an exponent, which takes as long as thousands of them.
func LongDoubleWork(s string) int64 {
	s = s[:min(len(s), longDoubleTextMax)]
	work := 4 * NumeralWork * int64(len(s))
	if strings.ContainsAny(s, "eEpP") {
		work += 4 * NumeralWork * longDoubleTextMax
	}
	return work
}

// Plus adds; false where the sum is no finite number.
func (a LongDouble) Plus(b LongDouble) (LongDouble, bool) {
	if a.f.IsInf() || b.f.IsInf() {
		return LongDouble{}, false
	}
	sum := new(big.Float).SetPrec(longDoubleBits).Add(a.f, b.f)
	return LongDouble{sum}, sum.Sign() == 0 || sum.MantExp(nil) <= longDoubleExpMax
}

// String writes the number as Redis does for people: 17 digits after the point,
// the zeros at the end left out, never an exponent.
func (a LongDouble) String() string {
	s := a.f.Text('f', longDoubleDigits)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" || s == "" {
		return "0"
	}
	return s
}

// IsInf reports whether the number is infinite.
func (a LongDouble) IsInf() bool { return a.f.IsInf() }

// CeilThousand is a thousand times the number, rounded up to a whole one: the milliseconds of so many
// seconds. It is false where that is more than 64 bits hold.
func (a LongDouble) CeilThousand() (int64, bool) {
	exact := new(big.Float).SetPrec(longDoubleBits).Mul(a.f, big.NewFloat(1000))
	n, accuracy := exact.Int64() // towards zero
	switch {
	case accuracy == big.Below && n == math.MaxInt64:
		return 0, false
	case accuracy == big.Below:
		n++
	}
	return n, true
}
