package lib

import (
	"math"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// The math library (lmathlib.c), with Redis's random numbers.

// OpenMath returns the table of the library math.
func OpenMath(L *lua.LState, b *lauxlib.Budget) *lua.LTable {
	t := lauxlib.NewLibrary(L, b, mathFuncs(&random{}))
	t.RawSetString("pi", lua.LNumber(math.Pi))
	t.RawSetString("huge", lua.LNumber(math.Inf(1)))
	return t
}

// one returns a function of one number.
func one(f func(float64) float64) func(lauxlib.Call) int {
	return func(c lauxlib.Call) int {
		x := c.Arg(1).Number()
		return c.PushNumber(libc.NaNLikeX86(f(x), x, x))
	}
}

// inside returns a function of one number whose NaN for an argument outside its domain has no sign in C.
func inside(f func(float64) float64) func(lauxlib.Call) int {
	return func(c lauxlib.Call) int {
		x := c.Arg(1).Number()
		y := f(x)
		if math.IsNaN(y) && !math.IsNaN(x) {
			return c.PushNumber(math.Copysign(y, 1))
		}
		return c.PushNumber(libc.NaNLikeX86(y, x, x))
	}
}

// two returns a function of two numbers. Compiled C checks the second first.
func two(f func(a, b float64) float64) func(lauxlib.Call) int {
	return func(c lauxlib.Call) int {
		b := c.Arg(2).Number()
		a := c.Arg(1).Number()
		return c.PushNumber(libc.NaNLikeX86(f(a, b), a, b))
	}
}

func power(c lauxlib.Call) int {
	y := c.Arg(2).Number()
	return c.PushNumber(libc.Pow(c.Arg(1).Number(), y)) // which handles the sign of a NaN
}

func mathFuncs(r *random) []lauxlib.Func {
	return []lauxlib.Func{
		{"abs", one(math.Abs)}, {"acos", inside(math.Acos)}, {"asin", inside(math.Asin)}, {"atan", one(math.Atan)},
		{"atan2", two(math.Atan2)}, {"ceil", one(math.Ceil)}, {"cos", one(math.Cos)}, {"cosh", one(libc.Cosh)},
		{"deg", one(func(x float64) float64 { return x / (math.Pi / 180) })}, {"exp", one(libc.Exp)},
		{"floor", one(math.Floor)},
		{"fmod", two(libc.Fmod)}, {"frexp", frexp}, {"ldexp", ldexp}, {"log", one(libc.Log)},
		{"log10", inside(libc.Log10)},
		{"max", extreme(func(a, b float64) bool { return a > b })},
		{"min", extreme(func(a, b float64) bool { return a < b })},
		{"mod", two(libc.Fmod)}, {"modf", modf}, {"pow", power},
		{"rad", one(func(x float64) float64 { return x * (math.Pi / 180) })},
		{"random", r.number}, {"randomseed", r.seed},
		{"sin", one(math.Sin)}, {"sinh", one(libc.Sinh)}, {"sqrt", one(math.Sqrt)},
		{"tan", one(math.Tan)}, {"tanh", one(libc.Tanh)},
	}
}

func frexp(c lauxlib.Call) int {
	frac, exp := math.Frexp(c.Arg(1).Number())
	return c.Push(lua.LNumber(frac), lua.LNumber(exp))
}

func ldexp(c lauxlib.Call) int {
	exp := c.Arg(2).Small()
	return c.PushNumber(math.Ldexp(c.Arg(1).Number(), exp))
}

func modf(c lauxlib.Call) int {
	x := c.Arg(1).Number()
	if math.IsInf(x, 0) {
		return c.Push(lua.LNumber(x), lua.LNumber(math.Copysign(0, x)))
	}
	whole := math.Trunc(x)
	return c.Push(lua.LNumber(whole), lua.LNumber(math.Copysign(x-whole, x)))
}

// extreme returns max or min.
func extreme(better func(a, b float64) bool) func(lauxlib.Call) int {
	return func(c lauxlib.Call) int {
		best := c.Arg(1).Number()
		n := c.L.GetTop()
		c.Charge(n / 8)
		for i := 2; i <= n; i++ {
			if x := c.Arg(i).Number(); better(x, best) {
				best = x
			}
		}
		return c.PushNumber(best)
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

// random is the generator of a library table. It restarts with each run.
type random struct {
	generator lrand48
	run       uint64 // the run of the budget that the generator belongs to
}

// of returns the generator of the run.
func (r *random) of(c lauxlib.Call) *lrand48 {
	if r.run != c.Budget.Run() {
		r.generator, r.run = newLrand48(0), c.Budget.Run()
	}
	return &r.generator
}

func (r *random) number(c lauxlib.Call) int {
	drawn := float64(r.of(c).next()%math.MaxInt32) / math.MaxInt32
	switch c.L.GetTop() {
	case 0:
		return c.PushNumber(drawn)
	case 1:
		high := c.Arg(1).Small()
		if high < 1 {
			c.Arg(1).Fail("interval is empty")
		}
		return c.PushNumber(math.Floor(drawn*float64(high)) + 1)
	case 2:
		low, high := c.Arg(1).Small(), c.Arg(2).Small()
		if low > high {
			c.Arg(2).Fail("interval is empty")
		}
		width := int32(high) - int32(low) + 1 // overflows as C's int
		return c.PushNumber(math.Floor(drawn*float64(width)) + float64(low))
	}
	c.Fail("wrong number of arguments")
	return 0
}

func (r *random) seed(c lauxlib.Call) int {
	*r.of(c) = newLrand48(int32(c.Arg(1).Small()))
	return 0
}
