package libc

import (
	"math"
	"math/bits"
)

// Fmod is C's fmod: x - y*n, n being x/y without its fraction. Go's math.Mod takes a step for each power of two
// between x and y, up to 2,000; this takes 32 at most.
func Fmod(x, y float64) float64 {
	if y == 0 || math.IsInf(x, 0) || math.IsNaN(x) || math.IsNaN(y) {
		return math.NaN()
	}
	if math.Abs(x) < math.Abs(y) {
		return x
	}
	a, shift := wholeMantissa(x)
	b, low := wholeMantissa(y)
	for shift -= low; shift > 0; { // a * 2^shift modulo b, where b < 2^53
		n := min(shift, 64)
		a %= b
		if n == 64 {
			a = bits.Rem64(a, 0, b)
		} else {
			a = bits.Rem64(a>>(64-n), a<<n, b)
		}
		shift -= n
	}
	return math.Copysign(math.Ldexp(float64(a%b), low), x)
}

// wholeMantissa returns |f| as m * 2^exp with m an integer of at least 2^52, so that the greater of two numbers has
// no smaller exp. f is finite and not 0.
func wholeMantissa(f float64) (m uint64, exp int) {
	frac, exp := math.Frexp(math.Abs(f))
	return uint64(frac * (1 << 53)), exp - 53
}
