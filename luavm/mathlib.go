package luavm

import (
	"math"
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

// The math library (lmathlib.c), with Redis's random numbers.

// openMath makes the table of the library math.
func openMath(L *lua.LState, b *budget) *lua.LTable {
	t := newLibrary(L, b, mathFuncs(&random{}))
	t.RawSetString("pi", lua.LNumber(math.Pi))
	t.RawSetString("huge", lua.LNumber(math.Inf(1)))
	return t
}

// one makes a function of one number.
func one(f func(float64) float64) func(libCall) int {
	return func(c libCall) int {
		x := c.number(1)
		return c.pushNumber(nanLikeX86(f(x), x, x))
	}
}

// inside makes a function of one number whose NaN for a number outside its domain has
// no sign in C.
func inside(f func(float64) float64) func(libCall) int {
	return func(c libCall) int {
		x := c.number(1)
		y := f(x)
		if math.IsNaN(y) && !math.IsNaN(x) {
			return c.pushNumber(math.Copysign(y, 1))
		}
		return c.pushNumber(nanLikeX86(y, x, x))
	}
}

// two makes a function of two numbers. Compiled C looks at the second first.
func two(f func(a, b float64) float64) func(libCall) int {
	return func(c libCall) int {
		b := c.number(2)
		a := c.number(1)
		return c.pushNumber(nanLikeX86(f(a, b), a, b))
	}
}

func mathFuncs(r *random) []libFunc {
	return []libFunc{
		{"abs", one(math.Abs)}, {"acos", inside(math.Acos)}, {"asin", inside(math.Asin)}, {"atan", one(math.Atan)},
		{"atan2", two(math.Atan2)}, {"ceil", one(math.Ceil)}, {"cos", one(math.Cos)}, {"cosh", one(cosh)},
		{"deg", one(func(x float64) float64 { return x / (math.Pi / 180) })}, {"exp", one(exp)}, {"floor", one(math.Floor)},
		{"fmod", two(fmod)}, {"frexp", frexp}, {"ldexp", ldexp}, {"log", one(log)}, {"log10", inside(log10)},
		{"max", extreme(func(a, b float64) bool { return a > b })}, {"min", extreme(func(a, b float64) bool { return a < b })},
		{"mod", two(fmod)}, {"modf", modf}, {"pow", two(pow)},
		{"rad", one(func(x float64) float64 { return x * (math.Pi / 180) })},
		{"random", r.number}, {"randomseed", r.seed},
		{"sin", one(math.Sin)}, {"sinh", one(sinh)}, {"sqrt", one(math.Sqrt)}, {"tan", one(math.Tan)}, {"tanh", one(tanh)},
	}
}

// fmod is C's: x - y*n, n being x/y without its fraction. Go's math.Mod takes a step
// for each power of two between x and y, up to 2,000; this takes 32 at most.
func fmod(x, y float64) float64 {
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

// wholeMantissa gives |f| as m * 2^exp with m a whole number from 2^52 on, so that
// the greater of two numbers has no smaller exp. f is finite and not 0.
func wholeMantissa(f float64) (m uint64, exp int) {
	frac, exp := math.Frexp(math.Abs(f))
	return uint64(frac * (1 << 53)), exp - 53
}

func frexp(c libCall) int {
	frac, exp := math.Frexp(c.number(1))
	return c.push(lua.LNumber(frac), lua.LNumber(exp))
}

func ldexp(c libCall) int {
	exp := c.small(2)
	return c.pushNumber(math.Ldexp(c.number(1), exp))
}

func modf(c libCall) int {
	x := c.number(1)
	if math.IsInf(x, 0) {
		return c.push(lua.LNumber(x), lua.LNumber(math.Copysign(0, x)))
	}
	whole := math.Trunc(x)
	return c.push(lua.LNumber(whole), lua.LNumber(math.Copysign(x-whole, x)))
}

// extreme makes max and min.
func extreme(better func(a, b float64) bool) func(libCall) int {
	return func(c libCall) int {
		best := c.number(1)
		n := c.L.GetTop()
		c.charge(n / 8)
		for i := 2; i <= n; i++ {
			if x := c.number(i); better(x, best) {
				best = x
			}
		}
		return c.pushNumber(best)
	}
}

// lrand48 is the generator of Redis's rand.c: 48 bits, x*a + c.
type lrand48 uint64

func newLrand48(seed int32) lrand48 { return lrand48(uint32(seed))<<16 | 0x330E }

// next draws a number from 0 to 2^31-1.
func (r *lrand48) next() int32 {
	*r = (*r*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return int32(*r >> 17)
}

// random is the generator of a library table. It begins anew with each run.
type random struct {
	generator lrand48
	run       uint64 // the run of the budget that the generator belongs to
}

// of returns the generator of the run.
func (r *random) of(c libCall) *lrand48 {
	if r.run != c.b.run {
		r.generator, r.run = newLrand48(0), c.b.run
	}
	return &r.generator
}

func (r *random) number(c libCall) int {
	drawn := float64(r.of(c).next()%math.MaxInt32) / math.MaxInt32
	switch c.L.GetTop() {
	case 0:
		return c.pushNumber(drawn)
	case 1:
		high := c.small(1)
		if high < 1 {
			c.argError(1, "interval is empty")
		}
		return c.pushNumber(math.Floor(drawn*float64(high)) + 1)
	case 2:
		low, high := c.small(1), c.small(2)
		if low > high {
			c.argError(2, "interval is empty")
		}
		width := int32(high) - int32(low) + 1 // overflows as C's int
		return c.pushNumber(math.Floor(drawn*float64(width)) + float64(low))
	}
	c.fail("wrong number of arguments")
	return 0
}

func (r *random) seed(c libCall) int {
	*r.of(c) = newLrand48(int32(c.small(1)))
	return 0
}
