package libc

import (
	"math"
	"testing"
)

// Numbers out of range are converted as x86 does, whatever this machine is.
func TestTruncations(t *testing.T) {
	for _, c := range []struct {
		f   float64
		i64 int64
		i32 int32
		u64 uint64
	}{
		{0, 0, 0, 0}, {1.9, 1, 1, 1}, {-1.9, -1, -1, math.MaxUint64},
		{1 << 31, 1 << 31, math.MinInt32, 1 << 31}, {-1 << 31, -1 << 31, math.MinInt32, 0xffffffff80000000},
		{1<<31 - 0.5, 1<<31 - 1, math.MaxInt32, 1<<31 - 1},
		{1 << 63, math.MinInt64, math.MinInt32, 1 << 63}, {-1 << 63, math.MinInt64, math.MinInt32, 1 << 63},
		{1e19, math.MinInt64, math.MinInt32, 10000000000000000000}, {1 << 64, math.MinInt64, math.MinInt32, 0},
		{-1e19, math.MinInt64, math.MinInt32, 1 << 63}, {1e300, math.MinInt64, math.MinInt32, 0},
		{math.Inf(1), math.MinInt64, math.MinInt32, 0}, {math.Inf(-1), math.MinInt64, math.MinInt32, 1 << 63},
		{math.NaN(), math.MinInt64, math.MinInt32, 1 << 63},
	} {
		if got := Int64(c.f); got != c.i64 {
			t.Errorf("truncInt64(%v) = %d, want %d", c.f, got, c.i64)
		}
		if got := Int32(c.f); got != c.i32 {
			t.Errorf("truncInt32(%v) = %d, want %d", c.f, got, c.i32)
		}
		if got := Uint64(c.f); got != c.u64 {
			t.Errorf("truncUint64(%v) = %#x, want %#x", c.f, got, c.u64)
		}
	}
}
