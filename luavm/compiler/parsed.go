package compiler

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// parsed is the parser's result for a chunk.
type parsed struct {
	main  *function
	body  []ast.Stmt
	uses  map[*ast.IdentExpr]*variable // a name without an entry is global
	decls map[ast.PositionHolder][]*variable
	funcs map[*ast.FunctionExpr]*function
	// localFunc marks "local function", whose name is in scope in its own body.
	localFunc map[*ast.LocalAssignStmt]bool
}

// isNumber reports whether an expression of the source can only be a number.
func (p *parsed) isNumber(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.NumberExpr, *ast.UnaryLenOpExpr:
		return true
	case *ast.UnaryMinusOpExpr:
		return p.isNumber(x.Expr)
	case *ast.ArithmeticOpExpr:
		return p.isNumber(x.Lhs) && p.isNumber(x.Rhs)
	case *ast.IdentExpr:
		v := p.uses[x]
		return v != nil && v.counter && !v.assigned
	}
	return false
}

// plainBytesMax is the length, in bytes, up to which a string constant may be hashed or compared by one
// instruction, at the price of one step.
const plainBytesMax = 1024

// isPlain reports whether one step bounds a comparison with e, or an index by e.
func (p *parsed) isPlain(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr:
		return true
	case *ast.StringExpr:
		return len(x.Value) <= plainBytesMax
	}
	return p.isNumber(e)
}

// at gives a node its line.
func at[N ast.PositionHolder](node N, line int) N {
	node.SetLine(line)
	return node
}

// numberExpr writes f so that gopher-lua's compiler reads exactly f.
func numberExpr(f float64) *ast.NumberExpr {
	return &ast.NumberExpr{Value: strconv.FormatFloat(f, 'g', -1, 64)}
}
