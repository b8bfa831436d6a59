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

// line returns the index of the plain site of a line.
func (l *lowerer) line(line int) int {
	id, ok := l.lines[line]
	if !ok {
		id = l.site(Site{Line: line})
		l.lines[line] = id
	}
	return id
}

// siteKey identifies sites with up to two operands.
type siteKey struct {
	line     int
	callee   Desc
	count    int
	operands [2]Desc
}

// site returns the index of a site; equal sites share it.
func (l *lowerer) site(s Site) int {
	key := siteKey{line: s.Line, callee: s.Callee, count: len(s.Operands)}
	if len(s.Operands) > len(key.operands) {
		l.sites = append(l.sites, s)
		return len(l.sites) - 1
	}
	copy(key.operands[:], s.Operands)
	id, ok := l.known[key]
	if !ok {
		id = len(l.sites)
		l.known[key] = id
		l.sites = append(l.sites, s)
	}
	return id
}

// describe returns the name of an expression's value, as ldebug.c does.
func (l *lowerer) describe(e ast.Expr) Desc {
	switch x := e.(type) {
	case *ast.IdentExpr:
		v := l.uses[x]
		switch {
		case v == nil:
			return Desc{"global", x.Value}
		case v.fn == l.fn:
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
		s.Operands = append(s.Operands, l.describe(o))
	}
	c := at(&ast.FuncCallExpr{Func: &ast.IdentExpr{Value: name}, Args: args}, l.site(s))
	c.Func.SetLine(c.Line())
	return c
}
