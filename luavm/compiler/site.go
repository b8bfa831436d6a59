package compiler

import (
	"lockd/luavm/libc"

	"github.com/yuin/gopher-lua/ast"
)

// Desc is the name of a value in a message: kind "local", name "x".
type Desc struct{ Kind, Name string }

// Site is a place in the source. Nodes of the lowered tree carry the index of their site where gopher-lua expects a
// line, so that an instruction leads to all data of its messages.
type Site struct {
	Line     int
	Callee   Desc   // of a call
	Operands []Desc // of the values that may be wrong: receiver, operands, arguments of an intrinsic
}

// sites are the sites of a chunk. Nodes refer to them by index; equal sites share one.
type sites struct {
	list  []Site
	lines map[int]int // line -> its plain site
	known map[siteKey]int
}

// siteKey identifies sites with up to two operands.
type siteKey struct {
	line     int
	callee   Desc
	count    int
	operands [2]Desc
}

// line returns the index of the plain site of a line.
func (ss *sites) line(line int) int {
	id, ok := ss.lines[line]
	if !ok {
		id = ss.add(Site{Line: line})
		ss.lines[line] = id
	}
	return id
}

// add returns the index of a site.
func (ss *sites) add(s Site) int {
	key := siteKey{line: s.Line, callee: s.Callee, count: len(s.Operands)}
	if len(s.Operands) > len(key.operands) {
		ss.list = append(ss.list, s)
		return len(ss.list) - 1
	}
	copy(key.operands[:], s.Operands)
	id, ok := ss.known[key]
	if !ok {
		id = len(ss.list)
		ss.known[key] = id
		ss.list = append(ss.list, s)
	}
	return id
}

// describe returns the name that an expression's value has in a function, as ldebug.c does.
func (p *parsed) describe(fn *function, e ast.Expr) Desc {
	switch x := e.(type) {
	case *ast.IdentExpr:
		v := p.uses[x]
		switch {
		case v == nil:
			return Desc{"global", x.Value}
		case v.fn == fn:
			return Desc{"local", x.Value}
		}
		return Desc{"upvalue", x.Value}
	case *ast.AttrGetExpr:
		if key, ok := x.Key.(*ast.StringExpr); ok {
			return Desc{"field", libc.CString(key.Value)}
		}
		return Desc{"field", "?"}
	}
	return Desc{}
}

// intrinsic makes a call of an intrinsic. Its error messages may name operands, which are expressions of the source.
func (l *lowerer) intrinsic(name string, line int, operands []ast.Expr, args ...ast.Expr) *ast.FuncCallExpr {
	s := Site{Line: line}
	for _, o := range operands {
		s.Operands = append(s.Operands, l.tree.describe(l.fn, o))
	}
	c := at(&ast.FuncCallExpr{Func: &ast.IdentExpr{Value: name}, Args: args}, l.sites.add(s))
	c.Func.SetLine(c.Line())
	return c
}
