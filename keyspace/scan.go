package keyspace

import (
	"strconv"
	"strings"

	"lockd/keyspace/value"
	"lockd/resp"
)

// scanOptions are the arguments of SCAN and HSCAN from the cursor on.
type scanOptions struct {
	cursor uint64
	count  int
	match  *glob  // nil: everything
	kind   string // TYPE, "" without
}

// scanCountMax bounds COUNT: a larger one means everything anyway.
const scanCountMax = 1 << 30

// parseScan reads the cursor and the options that follow it; TYPE only where
// withType is true.
func parseScan(args resp.Args, withType bool) (o scanOptions, err error) {
	o.count = 10
	cursor, ok := parseCursor(args[0])
	if !ok {
		return o, resp.Error(resp.ErrCursor)
	}
	o.cursor = cursor
	for i := 1; i < len(args); i += 2 {
		last := i+1 == len(args)
		switch {
		case !last && resp.Is(args[i], "COUNT"):
			n, isInt := resp.ParseInt(args[i+1])
			if !isInt {
				return o, resp.Error(resp.ErrNotInteger)
			}
			if n < 1 {
				return o, resp.Error(resp.ErrSyntax)
			}
			o.count = int(min(n, scanCountMax))
		case !last && resp.Is(args[i], "MATCH"):
			o.match = newGlob(args[i+1])
		case !last && withType && resp.Is(args[i], "TYPE"):
			o.kind = args[i+1]
		default:
			return o, resp.Error(resp.ErrSyntax)
		}
	}
	return o, nil
}

// parseCursor reads what C's strtoul does: a sign may stand before the number, and
// an empty cursor is 0.
func parseCursor(s string) (uint64, bool) {
	negative := strings.HasPrefix(s, "-")
	digits := strings.TrimPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if negative {
		n = -n
	}
	return n, err == nil
}

// begin bounds COUNT by the n elements that there are, and counts the work of a step; an
// aggregate that is no tree is visited whole.
func (o *scanOptions) begin(c *ctx, n int, tree bool) error {
	if o.count = min(o.count, max(n, 1)); !tree {
		o.count = max(n, 1)
	}
	each := int64(value.VisitWork)
	if tree {
		each = value.FarWork
	}
	if !c.m.affords(each*int64(o.count) + value.TreeWork(n)) {
		return resp.Error(errWorkMeter)
	}
	return nil
}

// wants reports whether a key or field passes MATCH.
func (o *scanOptions) wants(name string) bool { return o.match == nil || o.match.match(name) }

// reply is the answer of a scan: the cursor to go on with, and the items.
func (o *scanOptions) reply(c *ctx, next uint64, items []string) resp.Reply {
	if o.match != nil {
		c.m.spend(globWork * int64(o.match.steps))
	}
	if o.match != nil && o.match.exceeded() {
		return resp.Err(errGlob)
	}
	return resp.Array(resp.Bulk(strconv.FormatUint(next, 10)), resp.Bulks(items...))
}

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
