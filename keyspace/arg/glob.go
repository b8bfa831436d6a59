package arg

import "lockd/resp"

// globStepsMax bounds the work that one command may spend on its pattern, in
// characters compared, beyond what it takes to look through each key a few times.
const globStepsMax = 1 << 24

// globWork is the work of a step.
const globWork = 32

// Glob is a pattern that a command matches with many names, under one bound. A nil Glob matches every name.
type Glob struct {
	pattern string
	any     bool // the pattern is "*"
	steps   int  // spent
	left    int
}

// NewGlob is a pattern with its whole bound.
func NewGlob(pattern string) *Glob {
	return &Glob{pattern: pattern, any: pattern == "*", left: globStepsMax}
}

// Exceeded reports whether the work was too much: what Matches said since is void.
func (g *Glob) Exceeded() bool { return g != nil && g.left < 0 }

// ErrGlob answers a pattern that exceeded its bound.
const ErrGlob = "ERR the pattern takes too much work to match"

// Work is what matching has taken so far, in the unit of value.VisitWork.
func (g *Glob) Work() int64 {
	if g == nil {
		return 0
	}
	return globWork * int64(g.steps)
}

// Matches reports whether all of s matches.
func (g *Glob) Matches(s string) bool {
	if g == nil || g.any || g.Exceeded() {
		return g == nil || g.any
	}
	g.left += 64 + 4*len(s)
	before := g.left
	ok := resp.Glob(g.pattern, s, &g.left)
	g.steps += before - g.left
	return ok
}
