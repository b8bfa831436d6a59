package libc

import (
	"math"
	"math/rand"
	"testing"
)

// Fmod equals Go's math.Mod, bit for bit: at the edges of the range, and for random pairs of any size.
func TestFmod(t *testing.T) {
	same := func(x, y float64) {
		got, want := Fmod(x, y), math.Mod(x, y)
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("fmod(%g, %g) = %g, want %g", x, y, got, want)
		}
	}
	edges := []float64{
		0, 1, 2, 3, 5.5, 1e308, 1e-300, 1e-308, math.SmallestNonzeroFloat64, 3 * math.SmallestNonzeroFloat64,
		math.MaxFloat64, 0x1p-1022, 0x1p52, 0x1p53 - 1, 0x1p64, math.Pi, math.Inf(1), math.NaN(),
	}
	for _, x := range edges {
		for _, y := range edges {
			same(x, y)
			same(-x, y)
			same(x, -y)
		}
	}
	random := rand.New(rand.NewSource(1))
	for range 20_000 {
		same(math.Float64frombits(random.Uint64()), math.Float64frombits(random.Uint64()))
	}
}
