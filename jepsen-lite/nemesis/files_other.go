//go:build !unix

package nemesis

import "math"

// filesMax has no bound: there is no such limit.
func filesMax() int { return math.MaxInt }
