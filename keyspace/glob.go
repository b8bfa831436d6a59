package keyspace

import "lockd/resp"

// globStepsMax bounds the work that one command may spend on its pattern, in
// characters compared, beyond what it takes to look through each key a few times.
const globStepsMax = 1 << 24

// globWork is the work of a step.
const globWork = 32

// glob is a pattern that a command matches with many names, under one bound.
type glob struct {
	pattern string
	any     bool // the pattern is "*"
	steps   int  // spent
	left    int
}

func newGlob(pattern string) *glob {
	return &glob{pattern: pattern, any: pattern == "*", left: globStepsMax}
}

// exceeded reports whether the work was too much: what match said since is void.
func (g *glob) exceeded() bool { return g.left < 0 }

// errGlob answers a pattern that exceeded its bound.
const errGlob = "ERR the pattern takes too much work to match"

// match reports whether all of s matches.
func (g *glob) match(s string) bool {
	if g.any || g.exceeded() {
		return g.any
	}
	g.left += 64 + 4*len(s)
	before := g.left
	ok := resp.Glob(g.pattern, s, &g.left)
	g.steps += before - g.left
	return ok
}
