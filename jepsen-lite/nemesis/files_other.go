//go:build !unix

package nemesis

import "math"

// filesMax is without a bound: there is no such limit.
func filesMax() int { return math.MaxInt }
