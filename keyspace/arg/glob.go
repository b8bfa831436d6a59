package arg

import "lockd/resp"

// globStepsMax bounds the characters that one command may compare with its pattern, besides a few comparisons with each
// key.
const globStepsMax = 1 << 24

// GlobWork is the work of a step of resp.Glob, which compares a character, in the unit of value.VisitWork.
const GlobWork = 32

// Glob is a pattern that a command matches with many names, within one bound. A nil Glob matches every name.
type Glob struct {
	pattern string
	any     bool // the pattern is "*"
	steps   int  // spent
	left    int
}

// NewGlob returns a pattern that has matched nothing yet.
func NewGlob(pattern string) *Glob {
	return &Glob{pattern: pattern, any: pattern == "*", left: globStepsMax}
}

// Exceeded reports whether the bound was exceeded. Then answers of Matches are void.
func (g *Glob) Exceeded() bool { return g != nil && g.left < 0 }

// ErrGlob answers a pattern that exceeded its bound.
const ErrGlob = "ERR the pattern takes too much work to match"

// Work returns the work of matching so far, in the unit of value.VisitWork.
func (g *Glob) Work() int64 {
	if g == nil {
		return 0
	}
	return GlobWork * int64(g.steps)
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
