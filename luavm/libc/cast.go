package libc

import "math"

// The conversions of C on a 64-bit x86 machine, where Redis's answers come from.
// Go leaves them to the processor when the number is out of range, and replicas
// on two architectures would differ.

// Int64 returns (int64_t)f.
func Int64(f float64) int64 {
	if !(f >= -(1<<63) && f < 1<<63) {
		return math.MinInt64
	}
	return int64(f)
}

// Int32 returns (int32_t)f.
func Int32(f float64) int32 {
	if !(f > -(1<<31)-1 && f < 1<<31) {
		return math.MinInt32
	}
	return int32(int64(f))
}

// Uint64 returns (uint64_t)f as gcc compiles it: negative numbers wrap around.
func Uint64(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(Int64(f-(1<<63))) ^ 1<<63
	}
	return uint64(Int64(f))
}

// NaN is the only NaN of the libraries, the result of 0/0 on x86: sign and payload of a NaN depend on the processor
// and must not reach a reply.
var NaN = math.Float64frombits(0xfff8000000000000)

// OneNaN returns f, or NaN if f is any NaN.
func OneNaN(f float64) float64 {
	if math.IsNaN(f) {
		return NaN
	}
	return f
}

// NaNLikeX86 gives an operation's NaN the sign x86 gives it: that of an operand that
// is NaN already, negative otherwise.
func NaNLikeX86(f, a, b float64) float64 {
	if !math.IsNaN(f) {
		return f
	}
	switch {
	case math.IsNaN(a):
		return a
	case math.IsNaN(b):
		return b
	}
	return NaN
}

// Float32 returns C's (float)f, with the one NaN.
func Float32(f float64) float32 {
	if math.IsNaN(f) {
		return math.Float32frombits(0xffc00000)
	}
	return float32(f)
}
