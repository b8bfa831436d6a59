package compiler

import (
	"github.com/yuin/gopher-lua/ast"
)

// slots returns the slot names of variables.
func slots(vars []*variable) []string {
	names := make([]string, len(vars))
	for i, v := range vars {
		names[i] = v.slot
	}
	return names
}

// boxes puts the boxed variables among vars into their boxes.
func (l *lowerer) boxes(vars []*variable, line int) []ast.Stmt {
	var out []ast.Stmt
	for _, v := range vars {
		if v.boxed() {
			box := at(&ast.TableExpr{Fields: []*ast.Field{{Value: slot(v.slot, line)}}}, line)
			out = append(out, at(&ast.AssignStmt{Lhs: []ast.Expr{slot(v.slot, line)}, Rhs: []ast.Expr{box}}, line))
		}
	}
	return out
}

func slot(name string, line int) ast.Expr {
	return at(&ast.IdentExpr{Value: name}, line)
}

// store assigns a lowered value to a local variable. The value is first computed into a local of its own: gopher-lua
// computes some values directly into the variable, while their operands still need its old value.
func (l *lowerer) store(v *variable, line int, value ast.Expr) ast.Stmt {
	assign := func(value ast.Expr) ast.Stmt {
		return at(&ast.AssignStmt{Lhs: []ast.Expr{l.load(v, line)}, Rhs: []ast.Expr{value}}, line)
	}
	switch value.(type) {
	case *ast.NumberExpr, *ast.StringExpr, *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.IdentExpr:
		return assign(value)
	}
	first := at(&ast.LocalAssignStmt{Names: []string{"(value)"}, Exprs: []ast.Expr{value}}, line)
	return at(&ast.DoBlockStmt{Stmts: []ast.Stmt{first, assign(slot("(value)", line))}}, line)
}

// load returns the expression for a local variable.
func (l *lowerer) load(v *variable, line int) ast.Expr {
	id := slot(v.slot, line)
	if !v.boxed() {
		return id
	}
	l.constant(number("1"), l.sites.list[line].Line)
	return at(&ast.AttrGetExpr{Object: id, Key: at(numberExpr(1), line)}, line)
}
