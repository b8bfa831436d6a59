package libc

import (
	"math"
)

// wide is a number of about 106 bits, the sum of two: lo is at most half of hi's
// last place. This is double-double arithmetic as Dekker (1971) and Knuth describe it.
//
// It rests on IEEE 754's sums, products and quotients alone. A compiler may join a
// product and a sum into one rounding, and does for some processors: so each product
// that is added to something is converted, float64(a * b), which forbids that.
type wide struct{ hi, lo float64 }

// quickSum returns a + b exactly, for |a| >= |b|.
func quickSum(a, b float64) wide {
	s := a + b
	return wide{s, b - (s - a)}
}

// sum returns a + b exactly (Knuth).
func sum(a, b float64) wide {
	s := a + b
	part := s - a
	return wide{s, (a - (s - part)) + (b - part)}
}

// halves splits a number into two of 26 bits, whose products are exact (Veltkamp).
func halves(a float64) (high, low float64) {
	c := float64((1<<27 + 1) * a)
	high = c - (c - a)
	return high, a - high
}

// product returns a * b exactly (Dekker), for numbers far from both ends of the range.
func product(a, b float64) wide {
	p := float64(a * b)
	aHigh, aLow := halves(a)
	bHigh, bLow := halves(b)
	rest := float64(aHigh*bHigh) - p
	rest += float64(aHigh * bLow)
	rest += float64(aLow * bHigh)
	return wide{p, rest + float64(aLow*bLow)}
}

func (a wide) plus(b wide) wide {
	s, rest := sum(a.hi, b.hi), sum(a.lo, b.lo)
	s = quickSum(s.hi, s.lo+rest.hi)
	return quickSum(s.hi, s.lo+rest.lo)
}

func (a wide) minus(b wide) wide { return a.plus(wide{-b.hi, -b.lo}) }

func (a wide) times(b wide) wide {
	p := product(a.hi, b.hi)
	return quickSum(p.hi, p.lo+(float64(a.hi*b.lo)+float64(a.lo*b.hi)))
}

func (a wide) over(b wide) wide {
	q := a.hi / b.hi
	rest := a.minus(b.times(wide{q, 0}))
	return quickSum(q, rest.hi/b.hi)
}

// scaled returns a * 2^exp, rounded once.
func (a wide) scaled(exp int) float64 {
	if a.hi < 0 {
		return -wide{-a.hi, -a.lo}.scaled(exp)
	}
	if _, place := math.Frexp(a.hi); place+exp >= -1021 {
		return math.Ldexp(a.hi, exp)
	}
	// A subnormal result loses bits of hi: rounding that again would be rounding twice. So it is rounded as a whole
	// multiple of 2^-60, whose last bit also tells whether any bits followed.
	tail := a.lo * (1 << 60)
	whole := math.Floor(tail)
	n := uint64(int64(a.hi*(1<<60)) + int64(whole))
	if whole != tail {
		n |= 1
	}
	drop := 60 - 1074 - exp // bits
	if drop > 62 {
		return 0
	}
	kept, rest, half := n>>drop, n&(1<<drop-1), uint64(1)<<(drop-1)
	if rest > half || rest == half && kept&1 == 1 {
		kept++
	}
	return math.Float64frombits(kept)
}
