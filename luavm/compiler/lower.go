package compiler

import (
	"github.com/yuin/gopher-lua/ast"
)

// Between parse and compile a chunk is rewritten ("lowered"), so that gopher-lua's machine behaves as Lua 5.1's, and
// within bounds:
//
//   - concatenation, stores into tables, reads with a computed key, %, ^, #, table
//     constructors, closures and "..." become calls of intrinsics, which charge the
//     budget. So do comparisons of two operands that may both be long strings.
//   - The bounds of a numeric for go through an intrinsic unless they are plainly
//     numbers.
//   - A local that an inner function shares and somebody assigns to lives in a
//     one-element table (variable.boxed).
//   - break becomes goto where a captured local may be in scope: gopher-lua's break
//     leaves upvalues open.
//
// Arithmetic stays as it is; metamethods of the string type handle strings among its operands, so that numbers pay
// nothing.

// sumMax is the number of operators in a row that are left to gopher-lua's compiler, which at each of them searches
// all those before it for constants.
const sumMax = 32

// Intrinsics are the functions that the code of a chunk calls, in the order in which it takes them as arguments. They
// are locals of a function around the chunk, under names that no source can contain.
var Intrinsics = []string{
	"(concat)", "(index)", "(setindex)", "(setglobal)", "(eq)", "(lt)", "(le)", "(gt)", "(ge)",
	"(mod)", "(pow)", "(len)", "(forprep)", "(closure)", "(table)", "(item)", "(field)", "(vararg)", "(arg)",
}

// lowerer lowers expressions. A body lowers the statements of a function by it.
type lowerer struct {
	tree   *parsed
	name   string // of the chunk, as messages show it
	sites  sites
	fn     *function
	folds  map[ast.Expr]bool // lowered expressions that the compiler folds into one constant
	work   int               // comparisons of constants, see constantWorkMax
	active int               // locals in scope, each in a register
	labels int
}

// lower rewrites a tree. list has the places that the nodes refer to instead of lines. message is an error as the
// parser gives it; name is the chunk's name in messages.
func lower(name string, tree *parsed) (stmts []ast.Stmt, list []Site, message string) {
	l := &lowerer{
		tree: tree, name: name, fn: tree.main, folds: map[ast.Expr]bool{},
		sites: sites{lines: map[int]int{}, known: map[siteKey]int{}},
	}
	defer caught(&message)
	b := body{l: l}
	main := &ast.FunctionExpr{ParList: &ast.ParList{HasVargs: true}, Stmts: b.block(tree.body)}
	stmts = []ast.Stmt{
		&ast.LocalAssignStmt{Names: Intrinsics, Exprs: []ast.Expr{&ast.Comma3Expr{}}},
		&ast.ReturnStmt{Exprs: []ast.Expr{main}},
	}
	return stmts, l.sites.list, ""
}
