package value

import (
	"math"
	"math/big"
	"strings"
)

// LongDouble is a number of INCRBYFLOAT and HINCRBYFLOAT. Redis computes with C's long double, on amd64 a float with a
// mantissa of 64 bits, in which 0.1 + 0.2 is 0.3. A big.Float of that precision rounds in the same way on every
// processor.
type LongDouble struct{ f *big.Float }

// The bounds of the 80-bit long double, and of the text from which Redis reads one.
const (
	longDoubleBits    = 64
	longDoubleExpMax  = 16384
	longDoubleExpMin  = -16444
	longDoubleTextMax = 5 * 1024
	longDoubleDigits  = 17 // after the point
)

// ParseLongDouble reads a number as C's strtold does: decimal, hexadecimal or infinite; no spaces, no NaN, nothing out
// of range.
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

// LongDoubleWork returns the work of reading or writing a number of this text: of its digits, and of an exponent, which
// takes as long as thousands of digits.
func LongDoubleWork(s string) int64 {
	s = s[:min(len(s), longDoubleTextMax)]
	work := 4 * NumeralWork * int64(len(s))
	if strings.ContainsAny(s, "eEpP") {
		work += 4 * NumeralWork * longDoubleTextMax
	}
	return work
}

// Plus returns the sum; false if it is not finite.
func (a LongDouble) Plus(b LongDouble) (LongDouble, bool) {
	if a.f.IsInf() || b.f.IsInf() {
		return LongDouble{}, false
	}
	sum := new(big.Float).SetPrec(longDoubleBits).Add(a.f, b.f)
	return LongDouble{sum}, sum.Sign() == 0 || sum.MantExp(nil) <= longDoubleExpMax
}

// String writes the number as Redis does: 17 digits after the point without zeros at the end, never an exponent.
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

// CeilThousand returns a thousand times the number, rounded up: the milliseconds of a number of seconds. It returns
// false if 64 bits do not hold them.
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
