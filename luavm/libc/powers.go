package libc

import (
	"math"
	"math/big"
	"math/bits"
)

// exp, log and what follows from them, for math and the operator ^. Go's math.Exp
// differs in its last bit from one amd64 processor to the next, as some have a fused
// multiply-add and some have not; replicas must not. Here everything is computed to
// about 96 bits (wide) and rounded once. So the results equal those of exact
// arithmetic, but for about one in 10^9 that lies too near the middle of two numbers.
//
// The method is the usual one (Tang 1989, 1990): a table takes the argument near 0,
// and the first terms of the series do the rest.

const rootCount = 128

var (
	// roots holds 2^(i/128).
	roots = makeRoots()
	// rootStep is ln(2)/128 in three parts. The first two have 32 bits, so that
	// their products with the number of steps, below 2^18, are exact.
	rootStep = makeRootStep()
	// logs holds ln(i/128) from lowestLog on.
	logs = makeLogs()

	ln2    = wideOf(bigLog(3))
	perTen = wide{1, 0}.over(wideOf(tenLog())) // 1 / ln(10)

	half, third, fifth               = fraction(2), fraction(3), fraction(5)
	sixth, twentyFourth, hundred20th = fraction(6), fraction(24), fraction(120)
)

func fraction(n float64) wide { return wide{1, 0}.over(wide{n, 0}) }

const tableBits = 192

// wideOf rounds a number of the tables, which are worked out in integers.
func wideOf(f *big.Float) wide {
	hi, _ := f.Float64()
	lo, _ := new(big.Float).Sub(f, big.NewFloat(hi)).Float64()
	return wide{hi, lo}
}

func makeRoots() (t [rootCount]wide) {
	root := big.NewFloat(2).SetPrec(tableBits)
	for n := 1; n < rootCount; n *= 2 {
		root.Sqrt(root)
	}
	power := big.NewFloat(1).SetPrec(tableBits)
	for i := range t {
		t[i] = wideOf(power)
		power.Mul(power, root)
	}
	return t
}

// bigLog returns ln((n+1)/(n-1)), by the series 2 * (1/n + 1/3n^3 + 1/5n^5 + ...).
func bigLog(n int64) *big.Float {
	term := new(big.Int).Lsh(big.NewInt(2), tableBits)
	total, square := new(big.Int), big.NewInt(n*n)
	term.Quo(term, big.NewInt(n))
	for k := int64(1); term.Sign() > 0; k += 2 {
		total.Add(total, new(big.Int).Quo(term, big.NewInt(k)))
		term.Quo(term, square)
	}
	f := new(big.Float).SetInt(total)
	return f.SetMantExp(f, -tableBits)
}

// tenLog returns ln(10) = 3 ln(2) + ln(5/4).
func tenLog() *big.Float {
	ln8 := new(big.Float).Mul(big.NewFloat(3), bigLog(3))
	return ln8.Add(ln8, bigLog(9))
}

func makeRootStep() (parts [3]float64) {
	rest := bigLog(3)
	rest.SetMantExp(rest, -7)
	for i := range parts {
		parts[i], _ = rest.Float64()
		if i < 2 {
			parts[i] = math.Float64frombits(math.Float64bits(parts[i]) &^ (1<<21 - 1))
		}
		rest.Sub(rest, big.NewFloat(parts[i]))
	}
	return parts
}

const lowestLog, highestLog = 90, 182 // from below sqrt(1/2) to above sqrt(2), in 1/128

func makeLogs() (t [highestLog - lowestLog + 1]wide) {
	above := new(big.Float).SetPrec(tableBits)
	for i := 128; i < highestLog; i++ {
		above.Add(above, bigLog(int64(2*i+1)))
		t[i+1-lowestLog] = wideOf(above)
	}
	below := new(big.Float).SetPrec(tableBits)
	for i := 128; i > lowestLog; i-- {
		below.Sub(below, bigLog(int64(2*i-1)))
		t[i-1-lowestLog] = wideOf(below)
	}
	return t
}

// tableExp returns e^x as 2^exp * root * (1 + rest), where |rest| < 1/256. |x| is at most 1,000.
func tableExp(x wide) (exp int, root, rest wide) {
	n := math.Floor(float64(x.hi*(rootCount/math.Ln2)) + 0.5)
	r := sum(x.hi, -float64(n*rootStep[0])).plus(sum(-float64(n*rootStep[1]), x.lo-float64(n*rootStep[2])))
	i := int(n)
	return i >> 7, roots[i&(rootCount-1)], smallExp(r)
}

// smallExp returns e^r - 1 by its series; from r^6 on, a float64 is exact enough.
func smallExp(r wide) wide {
	h := r.hi
	tail := 1.0 / 3628800
	tail = 1.0/362880 + float64(h*tail)
	tail = 1.0/40320 + float64(h*tail)
	tail = 1.0/5040 + float64(h*tail)
	tail = 1.0/720 + float64(h*tail)
	p := hundred20th.plus(wide{float64(h * tail), 0})
	p = twentyFourth.plus(r.times(p))
	p = sixth.plus(r.times(p))
	p = half.plus(r.times(p))
	p = wide{1, 0}.plus(r.times(p))
	return r.times(p)
}

// wideExp returns e^x as m * 2^exp, m from 0.99 to 2.
func wideExp(x wide) (m wide, exp int) {
	exp, root, rest := tableExp(x)
	return root.plus(root.times(rest)), exp
}

// wideExpLess1 returns e^x - 1, with all its digits for small x too. |x| is at most 100.
func wideExpLess1(x float64) wide {
	exp, root, rest := tableExp(wide{x, 0})
	if exp == 0 && root.hi == 1 {
		return rest
	}
	m, scale := root.plus(root.times(rest)), math.Ldexp(1, exp)
	return wide{m.hi * scale, m.lo * scale}.minus(wide{1, 0})
}

// wideLog returns ln(x) for 0 < x < infinity.
func wideLog(x float64) wide {
	m, exp := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		exp--
	}
	near := math.Floor(float64(m*128) + 0.5)
	c := near / 128
	s := wide{m - c, 0}.over(sum(m, c)) // ln(m/c) = 2 (s + s^3/3 + s^5/5 + ...)
	z := s.times(s)
	h := z.hi
	tail := 1.0/11 + float64(h*(1.0/13))
	tail = 1.0/9 + float64(h*tail)
	tail = 1.0/7 + float64(h*tail)
	p := fifth.plus(wide{float64(h * tail), 0})
	p = third.plus(z.times(p))
	p = wide{1, 0}.plus(z.times(p))
	p = s.times(p)
	return ln2.times(wide{float64(exp), 0}).plus(logs[int(near)-lowestLog]).plus(wide{2 * p.hi, 2 * p.lo})
}

// Beyond these, e^x is infinite, or less than half of the smallest number.
const highestExp, lowestExp = 710, -746

// Exp returns e^x.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > highestExp:
		return math.Inf(1)
	case x < lowestExp:
		return 0
	}
	m, exp := wideExp(wide{x, 0})
	return m.scaled(exp)
}

// Log returns the natural logarithm.
func Log(x float64) float64 {
	if l, special := specialLog(x); special {
		return l
	}
	return wideLog(x).hi
}

// Log10 returns the decimal logarithm.
func Log10(x float64) float64 {
	if l, special := specialLog(x); special {
		return l
	}
	return wideLog(x).times(perTen).hi
}

func specialLog(x float64) (l float64, special bool) {
	switch {
	case math.IsNaN(x) || x < 0:
		return math.NaN(), true
	case x == 0:
		return math.Inf(-1), true
	}
	return x, math.IsInf(x, 1)
}

// Below tiny, sinh and tanh of x are x, and cosh is 1. From large on, e^-x is negligible beside e^x.
const tiny, large = 0x1p-28, 40

// Sinh returns the hyperbolic sine.
func Sinh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < tiny || math.IsNaN(x):
		return x
	case a >= large:
		return math.Copysign(halfExp(a), x)
	}
	e := wideExpLess1(a)
	s := e.plus(e.over(e.plus(wide{1, 0})))
	return math.Copysign(s.hi/2, x)
}

// Cosh returns the hyperbolic cosine.
func Cosh(x float64) float64 {
	a := math.Abs(x)
	if a >= large || math.IsNaN(x) {
		return halfExp(a)
	}
	m, exp := wideExp(wide{a, 0})
	scale := math.Ldexp(1, exp)
	e := wide{m.hi * scale, m.lo * scale}
	return e.plus(wide{1, 0}.over(e)).hi / 2
}

// halfExp returns e^a / 2 for a > 0, which may be finite where e^a is not.
func halfExp(a float64) float64 {
	if math.IsNaN(a) || a > highestExp+1 {
		return a * math.Inf(1)
	}
	m, exp := wideExp(wide{a, 0})
	return m.scaled(exp - 1)
}

// Tanh returns the hyperbolic tangent.
func Tanh(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a < tiny || math.IsNaN(x):
		return x
	case a > 22:
		return math.Copysign(1, x)
	}
	e := wideExpLess1(2 * a)
	return math.Copysign(e.over(e.plus(wide{2, 0})).hi, x)
}

// Pow is C's pow, with its special cases (C99, F.9.4.4), and with the sign that glibc gives a NaN on x86: an odd
// power of -nan is nan.
func Pow(x, y float64) float64 {
	p := NaNLikeX86(pow(x, y), x, y)
	if math.IsNaN(x) && math.Signbit(x) && isOdd(y) {
		return -p
	}
	return p
}

// isOdd reports whether a number is an odd integer.
func isOdd(y float64) bool { return math.Floor(y) == y && math.Floor(y/2) != y/2 }

func pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case math.IsNaN(x) || math.IsNaN(y):
		return math.NaN()
	case math.IsInf(y, 0) && x == -1:
		return 1
	case math.IsInf(y, 0):
		return zeroOrInf((math.Abs(x) < 1) == (y > 0))
	}
	a := math.Abs(x)
	var p float64
	switch {
	case a == 0 || math.IsInf(a, 1):
		p = zeroOrInf((a == 0) == (y > 0))
	case x < 0 && math.Floor(y) != y:
		return math.NaN()
	case a == 1:
		p = 1
	default:
		p = plainPow(a, y)
	}
	if isOdd(y) {
		return math.Copysign(p, x)
	}
	return p
}

func zeroOrInf(zero bool) float64 {
	if zero {
		return 0
	}
	return math.Inf(1)
}

// plainPow returns e^(y ln(x)) for finite x > 0, not 1, and y.
func plainPow(x, y float64) float64 {
	l := wideLog(x)
	switch e := y * l.hi; {
	case e > highestExp:
		return math.Inf(1)
	case e < lowestExp:
		return 0
	}
	m, exp := wideExp(l.times(wide{y, 0}))
	if mayBeShort(x, y) {
		// A power of few bits may lie exactly in the middle of two numbers. The last bits, which are uncertain, must
		// not decide then: they are cut off.
		const cut = 0x1.8p-33
		m = quickSum(m.hi, (m.lo+cut)-cut)
	}
	return m.scaled(exp)
}

// mayBeShort reports whether x^y may have no more than 54 bits, so that none is to spare: x, without its factors of
// two, is small enough.
func mayBeShort(x, y float64) bool {
	m, _ := wholeMantissa(x)
	m >>= bits.TrailingZeros64(m)
	return m == 1 || y > 1 && y*float64(bits.Len64(m)-1) < 54
}
