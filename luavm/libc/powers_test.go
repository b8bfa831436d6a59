package libc

import (
	"math"
	"math/big"
	"math/rand"
	"testing"
)

// The same functions in plain series of 400 bits, to compare with.

const bigBits = 400

func bigFloat(f float64) *big.Float { return new(big.Float).SetPrec(bigBits).SetFloat64(f) }

func bigAdd(a, b *big.Float) *big.Float { return bigFloat(0).Add(a, b) }

func bigSub(a, b *big.Float) *big.Float { return bigFloat(0).Sub(a, b) }

func bigMul(a, b *big.Float) *big.Float { return bigFloat(0).Mul(a, b) }

func bigQuo(a, b *big.Float) *big.Float { return bigFloat(0).Quo(a, b) }

func double(f *big.Float) float64 {
	d, _ := f.Float64()
	return d
}

// bigExp halves x, sums the series, and squares.
func bigExp(x *big.Float) *big.Float {
	halvings := max(x.MantExp(nil), 0) + 16
	r := bigFloat(0).SetMantExp(x, -halvings)
	term, total := bigFloat(1), bigFloat(1)
	for k := 1.0; k < 40; k++ {
		term = bigQuo(bigMul(term, r), bigFloat(k))
		total = bigAdd(total, term)
	}
	for range halvings {
		total = bigMul(total, total)
	}
	return total
}

var bigLn2 = smallLog(bigFloat(2))

// smallLog is ln(x) = 2 (s + s^3/3 + ...), s = (x-1)/(x+1).
func smallLog(x *big.Float) *big.Float {
	s := bigQuo(bigSub(x, bigFloat(1)), bigAdd(x, bigFloat(1)))
	total, power, square := bigFloat(0), s, bigMul(s, s)
	for k := 1.0; power.Sign() != 0 && k < 300; k += 2 {
		total = bigAdd(total, bigQuo(power, bigFloat(k)))
		power = bigMul(power, square)
	}
	return bigMul(total, bigFloat(2))
}

func bigLogOf(x float64) *big.Float {
	m, exp := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, exp = 2*m, exp-1
	}
	return bigAdd(smallLog(bigFloat(m)), bigMul(bigLn2, bigFloat(float64(exp))))
}

func bigPow(x, y float64) *big.Float { return bigExp(bigMul(bigLogOf(x), bigFloat(y))) }

// hyperbolic computes (e^x + sign e^-x) / 2.
func hyperbolic(x, sign float64) *big.Float {
	e := bigExp(bigFloat(x))
	return bigMul(bigAdd(e, bigQuo(bigFloat(sign), e)), bigFloat(0.5))
}

// The results are those of exact arithmetic, rounded once. Random arguments cover all sizes that have a result, and the
// neighbourhood of 0, infinite and subnormal results.
func TestPowersAreRounded(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	spread := func(low, high float64) float64 { return low + float64((high-low)*random.Float64()) }
	sign := func() float64 { return float64(1 - 2*random.Intn(2)) }
	anySize := func(low, high float64) float64 { return math.Exp2(spread(low, high)) }
	check := func(name string, got float64, want *big.Float, args ...float64) {
		t.Helper()
		if w := double(want); math.Float64bits(got) != math.Float64bits(w) {
			t.Fatalf("%s(%v) = %.17g, want %.17g", name, args, got, w)
		}
	}
	for range 500 {
		for _, x := range []float64{spread(-746, 711), spread(-746, -706), spread(-2, 2), sign() * anySize(-60, 9)} {
			check("exp", Exp(x), bigExp(bigFloat(x)), x)
			check("sinh", Sinh(x), hyperbolic(x, -1), x)
			check("cosh", Cosh(x), hyperbolic(x, 1), x)
		}
		for _, x := range []float64{spread(-3, 3), sign() * anySize(-50, 5)} {
			check("tanh", Tanh(x), bigQuo(hyperbolic(x, -1), hyperbolic(x, 1)), x)
		}
		for _, x := range []float64{anySize(-1074, 1024), spread(0.5, 2), 1 + sign()*anySize(-52, -3)} {
			l := bigLogOf(x)
			check("log", Log(x), l, x)
			check("log10", Log10(x), bigQuo(l, bigLogOf(10)), x)
			target := spread(-746, 711)
			for _, y := range []float64{sign() * anySize(-60, 4), math.Round(spread(-9, 9)), target / (math.Log(x) + 0x1p-60)} {
				if e := y * math.Log(x); y != 0 && math.Abs(e) < 800 {
					check("pow", Pow(x, y), bigPow(x, y), x, y)
				}
			}
		}
	}
}

// A whole number to a whole power is rounded as the exact integer is, also where that is
// in the middle between two numbers, and where it falls among the denormal ones.
func TestPowersInTheMiddle(t *testing.T) {
	middles := 0
	for odd := int64(1); odd < 1<<18; odd += 2 {
		exact := big.NewInt(odd)
		for n := int64(2); n < 40; n++ {
			exact.Mul(exact, big.NewInt(odd))
			length := exact.BitLen()
			if length > 54 {
				break
			}
			if length == 54 {
				middles++
			}
			if odd > 1<<9 && length < 54 {
				continue
			}
			for _, exp := range []int{0, 3, -1074 / int(n), -(1074 + length/2) / int(n), -1075 / int(n)} {
				x := math.Ldexp(float64(odd), exp)
				want := new(big.Float).SetInt(exact)
				want.SetMantExp(want, exp*int(n))
				for _, y := range []float64{float64(n), float64(n) / 2} {
					base := x
					if y != float64(n) {
						if base = x * x; odd >= 1<<26 || math.Sqrt(base) != x || base < 0x1p-1022 {
							continue
						}
					}
					if got := Pow(base, y); got != double(want) {
						t.Fatalf("%g^%g = %.17g, want %.17g", base, y, got, double(want))
					}
				}
			}
		}
	}
	if middles < 1000 {
		t.Errorf("only %d powers lay in the middle", middles)
	}
}

// A denormal number is rounded once, and by all that lies behind it.
func TestPowersScaled(t *testing.T) {
	for _, c := range []struct {
		w    wide
		exp  int
		want float64
	}{
		{wide{1, 0}, -1075, 0}, // the middle between 0 and 1, in units of 2^-1074
		{wide{1, 0x1p-70}, -1075, 0x1p-1074},
		{wide{1, -0x1p-70}, -1075, 0},
		{wide{1.5, 0}, -1074, 0x2p-1074},
		{wide{1.5, -0x1p-70}, -1074, 0x1p-1074},
		{wide{-1.5, 0x1p-70}, -1074, -0x1p-1074},
		{wide{1.25, 0}, -1073, 0x2p-1074},
		{wide{1.25, 0x1p-70}, -1073, 0x3p-1074},
		{wide{2 - 0x1p-52, 0}, -1023, 0x1p-1022},
		{wide{1, -0x1p-60}, -1022, 0x1p-1022},
		{wide{1, 0}, -1140, 0},
		{wide{1, 0}, 1024, math.Inf(1)},
	} {
		if got := c.w.scaled(c.exp); got != c.want {
			t.Errorf("%v * 2^%d = %g, want %g", c.w, c.exp, got, c.want)
		}
	}
}

func TestPowersSpecial(t *testing.T) {
	inf, nan, negZero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"exp(0)", Exp(0), 1},
		{"exp(-0)", Exp(negZero), 1},
		{"exp(inf)", Exp(inf), inf},
		{"exp(-inf)", Exp(-inf), 0},
		{"exp(nan)", Exp(nan), nan},
		{"exp(1)", Exp(1), math.E},
		{"exp(709.782712893384)", Exp(709.782712893384), 0x1.fffffffffff2ap+1023},
		{"exp(709.7827128933841)", Exp(709.7827128933841), inf},
		{"exp(-745.1332191019411)", Exp(-745.1332191019411), 0x1p-1074},
		{"exp(-745.1332191019412)", Exp(-745.1332191019412), 0},
		{"exp(1e300)", Exp(1e300), inf},
		{"exp(-1e300)", Exp(-1e300), 0},
		{"exp(-2^-54)", Exp(-0x1p-54), 1},
		{"exp(2^-1074)", Exp(0x1p-1074), 1},
		{"exp(-0.14)", Exp(-0.14), 0.86935823539880586},

		{"log(0)", Log(0), -inf},
		{"log(-0)", Log(negZero), -inf},
		{"log(-1)", Log(-1), nan},
		{"log(-inf)", Log(-inf), nan},
		{"log(inf)", Log(inf), inf},
		{"log(nan)", Log(nan), nan},
		{"log(1)", Log(1), 0},
		{"log10(1000)", Log10(1000), 3},
		{"log10(1e22)", Log10(1e22), 22},
		{"log10(1e-5)", Log10(1e-5), -5},
		{"log10(0)", Log10(0), -inf},
		{"log10(inf)", Log10(inf), inf},

		{"sinh(0)", Sinh(0), 0},
		{"sinh(-0)", Sinh(negZero), negZero},
		{"sinh(-2^-1074)", Sinh(-0x1p-1074), -0x1p-1074},
		{"sinh(inf)", Sinh(inf), inf},
		{"sinh(-inf)", Sinh(-inf), -inf},
		{"sinh(nan)", Sinh(nan), nan},
		{"sinh(710.4)", Sinh(710.4), 1.6663642832806496e308},
		{"sinh(-711)", Sinh(-711), -inf},
		{"cosh(0)", Cosh(0), 1},
		{"cosh(-0)", Cosh(negZero), 1},
		{"cosh(-inf)", Cosh(-inf), inf},
		{"cosh(nan)", Cosh(nan), nan},
		{"cosh(-711)", Cosh(-711), inf},
		{"cosh(1e308)", Cosh(1e308), inf},
		{"tanh(0)", Tanh(0), 0},
		{"tanh(-0)", Tanh(negZero), negZero},
		{"tanh(inf)", Tanh(inf), 1},
		{"tanh(-inf)", Tanh(-inf), -1},
		{"tanh(nan)", Tanh(nan), nan},
		{"tanh(-30)", Tanh(-30), -1},

		{"pow(1, nan)", Pow(1, nan), 1},
		{"pow(nan, 0)", Pow(nan, 0), 1},
		{"pow(nan, -0)", Pow(nan, negZero), 1},
		{"pow(nan, 1)", Pow(nan, 1), nan},
		{"pow(2, nan)", Pow(2, nan), nan},
		{"pow(-1, nan)", Pow(-1, nan), nan},
		{"pow(-1, inf)", Pow(-1, inf), 1},
		{"pow(-1, -inf)", Pow(-1, -inf), 1},
		{"pow(1, inf)", Pow(1, inf), 1},
		{"pow(-8, 1/3)", Pow(-8, 1.0/3), nan},
		{"pow(-inf, 0.5)", Pow(-inf, 0.5), inf},
		{"pow(-0, 0.5)", Pow(negZero, 0.5), 0},
		{"pow(0, 3)", Pow(0, 3), 0},
		{"pow(-0, 3)", Pow(negZero, 3), negZero},
		{"pow(-0, 2)", Pow(negZero, 2), 0},
		{"pow(0, -3)", Pow(0, -3), inf},
		{"pow(-0, -3)", Pow(negZero, -3), -inf},
		{"pow(-0, -2)", Pow(negZero, -2), inf},
		{"pow(-0, -inf)", Pow(negZero, -inf), inf},
		{"pow(0, inf)", Pow(0, inf), 0},
		{"pow(inf, 1)", Pow(inf, 1), inf},
		{"pow(inf, -1)", Pow(inf, -1), 0},
		{"pow(-inf, 3)", Pow(-inf, 3), -inf},
		{"pow(-inf, 2)", Pow(-inf, 2), inf},
		{"pow(-inf, -3)", Pow(-inf, -3), negZero},
		{"pow(-inf, -2)", Pow(-inf, -2), 0},
		{"pow(-inf, inf)", Pow(-inf, inf), inf},
		{"pow(0.5, inf)", Pow(0.5, inf), 0},
		{"pow(0.5, -inf)", Pow(0.5, -inf), inf},
		{"pow(-2, inf)", Pow(-2, inf), inf},
		{"pow(-2, -inf)", Pow(-2, -inf), 0},
		{"pow(2, 1023)", Pow(2, 1023), 0x1p1023},
		{"pow(2, 1024)", Pow(2, 1024), inf},
		{"pow(-2, 1025)", Pow(-2, 1025), -inf},
		{"pow(2, -1074)", Pow(2, -1074), 0x1p-1074},
		{"pow(2, -1075)", Pow(2, -1075), 0}, // in the middle: to the even one
		{"pow(-2, -1077)", Pow(-2, -1077), negZero},
		{"pow(-3, 3)", Pow(-3, 3), -27},
		{"pow(-3, 2^53)", Pow(-3, 0x1p53), inf},
		{"pow(-0.5, 1e308)", Pow(-0.5, 1e308), 0},
		{"pow(-0.5, 2^53-1)", Pow(-0.5, 0x1p53-1), negZero},
		{"pow(-1, 2^53-1)", Pow(-1, 0x1p53-1), -1},
		{"pow(-1, 2^53)", Pow(-1, 0x1p53), 1},
		{"pow(-1, 1e308)", Pow(-1, 1e308), 1},
		{"pow(1+2^-52, 2^62)", Pow(1+0x1p-52, 0x1p62), inf}, // e^1024
		{"pow(1-2^-53, 2^63)", Pow(1-0x1p-53, 0x1p63), 0},
		{"pow(2, 2^-1074)", Pow(2, 0x1p-1074), 1},
		{"pow(2^-1074, 1)", Pow(0x1p-1074, 1), 0x1p-1074},
		{"pow(max, 1)", Pow(math.MaxFloat64, 1), math.MaxFloat64},
		{"pow(max, -1)", Pow(math.MaxFloat64, -1), 0x0.4p-1022},
		{"pow(1369, 1.5)", Pow(1369, 1.5), 50653},
		{"pow(2, 0.5)", Pow(2, 0.5), math.Sqrt2},
		{"pow(10, -5)", Pow(10, -5), 1e-5},
		{"pow(10, 22)", Pow(10, 22), 1e22},
		{"pow(10, 308)", Pow(10, 308), 1e308},
		{"pow(10, -320)", Pow(10, -320), 1e-320},
	} {
		if math.IsNaN(c.want) && math.IsNaN(c.got) {
			continue
		}
		if math.Float64bits(c.got) != math.Float64bits(c.want) {
			t.Errorf("%s = %.17g, want %.17g", c.name, c.got, c.want)
		}
	}
}

func BenchmarkPowers(b *testing.B) {
	for _, c := range []struct {
		name string
		f    func(x float64) float64
	}{
		{"exp", Exp}, {"log", Log}, {"log10", Log10}, {"sinh", Sinh}, {"cosh", Cosh}, {"tanh", Tanh},
		{"pow", func(x float64) float64 { return Pow(x, 1.7) }},
		{"square", func(x float64) float64 { return Pow(x, 2) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for i := range b.N {
				sink = c.f(0.1 + float64(i&1023)*0.013)
			}
		})
	}
}

var sink float64
