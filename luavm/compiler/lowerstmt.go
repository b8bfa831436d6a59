package compiler

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// body lowers the statements of one function.
type body struct {
	l      *lowerer
	breaks []string // label of each open loop; "" if break needs none
}

// block lowers statements with a scope of their own.
func (b *body) block(stmts []ast.Stmt) []ast.Stmt {
	mark := b.l.active
	out := b.chunkStmts(stmts)
	b.l.active = mark
	return out
}

func (b *body) chunkStmts(stmts []ast.Stmt) []ast.Stmt {
	out := make([]ast.Stmt, 0, len(stmts))
	for _, s := range stmts {
		out = append(out, b.stmt(s)...)
	}
	return out
}

func (b *body) stmt(s ast.Stmt) []ast.Stmt {
	line := b.l.sites.line(s.Line())
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		return b.local(s)
	case *ast.AssignStmt:
		return b.assign(s)
	case *ast.FuncCallStmt:
		return one(at(&ast.FuncCallStmt{Expr: b.l.checked(s.Expr)}, line))
	case *ast.DoBlockStmt:
		return one(at(&ast.DoBlockStmt{Stmts: b.block(s.Stmts)}, line))
	case *ast.IfStmt:
		cond := b.l.checked(s.Condition)
		return one(at(&ast.IfStmt{Condition: cond, Then: b.block(s.Then), Else: b.block(s.Else)}, line))
	case *ast.WhileStmt:
		cond := b.l.checked(s.Condition)
		if mayJump(cond) {
			cond = b.l.intrinsic("(vararg)", s.Line(), nil, cond)
		}
		return b.loop(line, func() ast.Stmt { return &ast.WhileStmt{Condition: cond, Stmts: b.block(s.Stmts)} })
	case *ast.RepeatStmt:
		return b.loop(line, func() ast.Stmt { return b.repeat(s) })
	case *ast.NumberForStmt:
		return b.numericFor(s)
	case *ast.GenericForStmt:
		return b.genericFor(s)
	case *ast.ReturnStmt:
		return one(at(&ast.ReturnStmt{Exprs: b.returned(s)}, line))
	case *ast.BreakStmt:
		if label := b.breaks[len(b.breaks)-1]; label != "" {
			return one(at(&ast.GotoStmt{Label: label}, line))
		}
		return one(at(&ast.BreakStmt{}, line))
	}
	panic(fmt.Sprintf("luavm: statement %T", s))
}

func one(s ast.Stmt) []ast.Stmt { return []ast.Stmt{s} }

// loop makes a loop statement, followed by a label if break needs one.
func (b *body) loop(line int, statement func() ast.Stmt) []ast.Stmt {
	label := ""
	if b.l.fn.captures {
		b.l.labels++
		label = "(break " + strconv.Itoa(b.l.labels) + ")"
	}
	b.breaks = append(b.breaks, label)
	s := at(statement(), line)
	b.breaks = b.breaks[:len(b.breaks)-1]
	if label == "" {
		return one(s)
	}
	after := at(&ast.LabelStmt{Name: label}, line)
	return one(at(&ast.DoBlockStmt{Stmts: []ast.Stmt{s, after}}, line))
}

func (b *body) repeat(s *ast.RepeatStmt) ast.Stmt {
	mark := b.l.active
	b.l.active++ // for head
	inner := b.chunkStmts(s.Stmts)
	cond := b.l.checked(s.Condition) // sees the body's locals
	b.l.active = mark
	return &ast.RepeatStmt{Condition: cond, Stmts: b.head(inner, s.Line())}
}

// head makes a loop's body begin with an instruction that is not a jump: gopher-lua's compiler shortens a jump to a
// jump, and takes the distance of one that it has shortened before for a label. Only the start of a loop is the
// target of a jump back.
func (b *body) head(stmts []ast.Stmt, line int) []ast.Stmt {
	if len(stmts) > 0 && !jumpsFirst(stmts[0]) {
		return stmts
	}
	nop := at(&ast.LocalAssignStmt{Names: []string{"(nop)"}}, b.l.sites.line(line))
	return append([]ast.Stmt{nop}, stmts...)
}

// jumpsFirst reports whether the code of a lowered statement may begin with a jump, or be empty.
func jumpsFirst(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		return len(s.Exprs) > 0 && choosesFirst(s.Exprs[0])
	case *ast.AssignStmt:
		return choosesFirst(s.Rhs[0]) // its target is a variable, or a constant field of one
	case *ast.FuncCallStmt:
		return choosesFirst(s.Expr)
	case *ast.ReturnStmt:
		return len(s.Exprs) > 0 && choosesFirst(s.Exprs[0])
	case *ast.NumberForStmt:
		return choosesFirst(s.Init)
	case *ast.GenericForStmt:
		return choosesFirst(s.Exprs[0])
	case *ast.IfStmt:
		return mayJump(s.Condition)
	}
	return true
}

// mayJump reports whether the code of a condition may begin with a jump, or be empty.
func mayJump(cond ast.Expr) bool {
	switch x := cond.(type) {
	case *ast.LogicalOpExpr:
		return mayJump(x.Lhs)
	case *ast.UnaryNotOpExpr:
		return mayJump(x.Expr)
	}
	return isConstant(cond) || choosesFirst(cond)
}

// choosesFirst reports whether the code of a value may begin with a jump: "and" and "or" do after a constant. If the
// left operand has no code, the code begins with that of the right one.
func choosesFirst(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.LogicalOpExpr:
		return isConstant(x.Lhs) || choosesFirst(x.Lhs)
	case *ast.ArithmeticOpExpr:
		return choosesFirst(x.Lhs) || choosesFirst(x.Rhs)
	case *ast.RelationalOpExpr:
		return choosesFirst(x.Lhs) || choosesFirst(x.Rhs)
	case *ast.StringConcatOpExpr:
		return choosesFirst(x.Lhs)
	case *ast.UnaryMinusOpExpr:
		return choosesFirst(x.Expr)
	case *ast.UnaryNotOpExpr:
		return choosesFirst(x.Expr)
	case *ast.UnaryLenOpExpr:
		return choosesFirst(x.Expr)
	case *ast.AttrGetExpr:
		return choosesFirst(x.Object) || choosesFirst(x.Key)
	case *ast.FuncCallExpr:
		if x.Receiver != nil {
			return choosesFirst(x.Receiver)
		}
		return choosesFirst(x.Func)
	}
	return false
}

func isConstant(e ast.Expr) bool {
	switch e.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NumberExpr, *ast.StringExpr:
		return true
	}
	return false
}

func (b *body) local(s *ast.LocalAssignStmt) []ast.Stmt {
	line := b.l.sites.line(s.Line())
	vars := b.l.tree.decls[s]
	if b.l.tree.localFunc[s] {
		// The function sees its own name: declare, then assign.
		b.l.active++
		declare := at(&ast.LocalAssignStmt{Names: slots(vars)}, line)
		out := append(one(declare), b.l.boxes(vars, line)...)
		return append(out, b.l.store(vars[0], line, b.l.checked(s.Exprs[0])))
	}
	exprs := b.l.exprs(s.Exprs, false)
	b.l.fits(s.Line(), exprs...)
	b.l.active += len(vars)
	out := one(at(&ast.LocalAssignStmt{Names: slots(vars), Exprs: exprs}, line))
	return append(out, b.l.boxes(vars, line)...)
}

func (b *body) assign(s *ast.AssignStmt) []ast.Stmt {
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		return one(b.assignOne(s.Lhs[0], s.Line(), b.objectAndKey(s.Lhs[0]), b.l.single(s.Rhs[0])))
	}
	// Lua evaluates all values before it stores, and stores from the right.
	line := b.l.sites.line(s.Line())
	mark := b.l.active
	var out []ast.Stmt
	targets := make([][]ast.Expr, len(s.Lhs))
	for i, target := range s.Lhs {
		targets[i] = b.objectAndKey(target)
		for j, e := range targets[i] {
			if _, constant := e.(*ast.StringExpr); !constant {
				out = append(out, b.temporary(&targets[i][j], line))
			}
		}
	}
	values := make([]string, len(s.Lhs))
	exprs := b.l.exprs(s.Rhs, false)
	b.l.fits(s.Line(), exprs...)
	for i := range values {
		values[i] = "(value " + strconv.Itoa(i) + ")"
	}
	out = append(out, at(&ast.LocalAssignStmt{Names: values, Exprs: exprs}, line))
	b.l.active += len(values)
	for i := len(values) - 1; i >= 0; i-- {
		out = append(out, b.assignOne(s.Lhs[i], s.Line(), targets[i], slot(values[i], line)))
	}
	b.l.active = mark
	return one(at(&ast.DoBlockStmt{Stmts: out}, line))
}

// temporary moves an expression into a local of its own.
func (b *body) temporary(e *ast.Expr, line int) ast.Stmt {
	b.l.fits(b.l.sites.list[line].Line, *e)
	name := "(target " + strconv.Itoa(b.l.active) + ")"
	s := at(&ast.LocalAssignStmt{Names: []string{name}, Exprs: []ast.Expr{*e}}, line)
	b.l.active++
	*e = slot(name, line)
	return s
}

// objectAndKey lowers the parts of a target that is a table's field.
func (b *body) objectAndKey(target ast.Expr) []ast.Expr {
	if t, ok := target.(*ast.AttrGetExpr); ok {
		return []ast.Expr{b.l.expr(t.Object), b.l.expr(t.Key)}
	}
	return nil
}

// assignOne assigns a lowered value to a target whose parts are lowered already.
func (b *body) assignOne(target ast.Expr, srcLine int, parts []ast.Expr, value ast.Expr) ast.Stmt {
	line := b.l.sites.line(srcLine)
	var call *ast.FuncCallExpr
	switch t := target.(type) {
	case *ast.IdentExpr:
		if v := b.l.tree.uses[t]; v != nil {
			b.l.fits(srcLine, value)
			return b.l.store(v, line, value)
		}
		b.l.constant(t.Value, srcLine)
		call = b.l.intrinsic("(setglobal)", srcLine, nil, at(&ast.StringExpr{Value: t.Value}, line), value)
	case *ast.AttrGetExpr:
		call = b.l.intrinsic("(setindex)", srcLine, []ast.Expr{t.Object}, parts[0], parts[1], value)
	}
	b.l.fits(srcLine, call)
	return at(&ast.FuncCallStmt{Expr: call}, line)
}

func (b *body) numericFor(s *ast.NumberForStmt) []ast.Stmt {
	line := b.l.sites.line(s.Line())
	v := b.l.tree.decls[s][0]
	mark := b.l.active
	defer func() { b.l.active = mark }()
	bounds := []ast.Expr{s.Init, s.Limit, s.Step}
	if s.Step == nil {
		bounds[2] = at(numberExpr(1), s.Line())
	}
	plain := true
	for i, bound := range bounds {
		plain = plain && b.l.tree.isNumber(bound)
		bounds[i] = b.l.single(bound)
	}
	var out []ast.Stmt
	if !plain {
		call := b.l.intrinsic("(forprep)", s.Line(), nil, slices.Clone(bounds)...)
		b.l.fits(s.Line(), call)
		names := []string{"(init)", "(limit)", "(step)"}
		out = one(at(&ast.LocalAssignStmt{Names: names, Exprs: []ast.Expr{call}}, line))
		for i, n := range names {
			bounds[i] = slot(n, line)
		}
		b.l.active += len(names)
	}
	b.l.fits(s.Line(), bounds...)
	b.l.active += 4 // three of the machine and the variable
	out = append(out, b.loop(line, func() ast.Stmt {
		inner := append(b.l.boxes(b.l.tree.decls[s], line), b.block(s.Stmts)...)
		return &ast.NumberForStmt{Name: v.slot, Init: bounds[0], Limit: bounds[1], Step: bounds[2], Stmts: inner}
	})...)
	if plain {
		return out
	}
	return one(at(&ast.DoBlockStmt{Stmts: out}, line))
}

func (b *body) genericFor(s *ast.GenericForStmt) []ast.Stmt {
	line := b.l.sites.line(s.Line())
	vars := b.l.tree.decls[s]
	exprs := b.l.exprs(s.Exprs, false)
	b.l.fits(s.Line(), exprs...)
	mark := b.l.active
	b.l.active += 3 + len(vars) + 3 // the machine's own, and the call of the iterator
	out := b.loop(line, func() ast.Stmt {
		b.l.active++ // for head
		inner := append(b.l.boxes(vars, line), b.block(s.Stmts)...)
		return &ast.GenericForStmt{Names: slots(vars), Exprs: exprs, Stmts: b.head(inner, s.Line())}
	})
	b.l.active = mark
	return out
}

func (b *body) returned(s *ast.ReturnStmt) []ast.Expr {
	exprs := b.l.exprs(s.Exprs, true)
	b.l.fits(s.Line(), exprs...)
	if n := len(exprs); n > 1 {
		if c, ok := s.Exprs[n-1].(*ast.FuncCallExpr); ok && !c.AdjustRet {
			// The results of the call are passed on: their number is work.
			return []ast.Expr{b.l.intrinsic("(vararg)", s.Line(), nil, exprs...)}
		}
	}
	return exprs
}
