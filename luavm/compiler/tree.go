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

// at gives a node its line.
func at[N ast.PositionHolder](node N, line int) N {
	node.SetLine(line)
	return node
}

// numberExpr writes f so that gopher-lua's compiler reads exactly f.
func numberExpr(f float64) *ast.NumberExpr {
	return &ast.NumberExpr{Value: strconv.FormatFloat(f, 'g', -1, 64)}
}
