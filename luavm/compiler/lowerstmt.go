package compiler

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// Statements.

// block lowers statements with a scope of their own.
func (l *lowerer) block(stmts []ast.Stmt) []ast.Stmt {
	mark := l.active
	out := l.chunkStmts(stmts)
	l.active = mark
	return out
}

func (l *lowerer) chunkStmts(stmts []ast.Stmt) []ast.Stmt {
	out := make([]ast.Stmt, 0, len(stmts))
	for _, s := range stmts {
		out = append(out, l.stmt(s)...)
	}
	return out
}

func (l *lowerer) stmt(s ast.Stmt) []ast.Stmt {
	line := l.line(s.Line())
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		return l.local(s)
	case *ast.AssignStmt:
		return l.assign(s)
	case *ast.FuncCallStmt:
		return l.one(at(&ast.FuncCallStmt{Expr: l.checked(s.Expr)}, line))
	case *ast.DoBlockStmt:
		return l.one(at(&ast.DoBlockStmt{Stmts: l.block(s.Stmts)}, line))
	case *ast.IfStmt:
		cond := l.checked(s.Condition)
		return l.one(at(&ast.IfStmt{Condition: cond, Then: l.block(s.Then), Else: l.block(s.Else)}, line))
	case *ast.WhileStmt:
		cond := l.checked(s.Condition)
		if mayJump(cond) {
			cond = l.intrinsic("(vararg)", s.Line(), nil, cond)
		}
		return l.loop(line, func() ast.Stmt { return &ast.WhileStmt{Condition: cond, Stmts: l.block(s.Stmts)} })
	case *ast.RepeatStmt:
		return l.loop(line, func() ast.Stmt { return l.repeat(s) })
	case *ast.NumberForStmt:
		return l.numericFor(s)
	case *ast.GenericForStmt:
		return l.genericFor(s)
	case *ast.ReturnStmt:
		return l.one(at(&ast.ReturnStmt{Exprs: l.returned(s)}, line))
	case *ast.BreakStmt:
		if label := l.breaks[len(l.breaks)-1]; label != "" {
			return l.one(at(&ast.GotoStmt{Label: label}, line))
		}
		return l.one(at(&ast.BreakStmt{}, line))
	}
	panic(fmt.Sprintf("luavm: statement %T", s))
}

func (l *lowerer) one(s ast.Stmt) []ast.Stmt { return []ast.Stmt{s} }

// checked lowers an expression that is alone in its statement, and checks its registers.
func (l *lowerer) checked(e ast.Expr) ast.Expr {
	out := l.expr(e)
	l.fits(e.Line(), out)
	return out
}

// loop makes a loop statement, followed by a label if break needs one.
func (l *lowerer) loop(line int, statement func() ast.Stmt) []ast.Stmt {
	label := ""
	if l.fn.captures {
		l.labels++
		label = "(break " + strconv.Itoa(l.labels) + ")"
	}
	l.breaks = append(l.breaks, label)
	s := at(statement(), line)
	l.breaks = l.breaks[:len(l.breaks)-1]
	if label == "" {
		return l.one(s)
	}
	after := at(&ast.LabelStmt{Name: label}, line)
	return l.one(at(&ast.DoBlockStmt{Stmts: []ast.Stmt{s, after}}, line))
}

func (l *lowerer) repeat(s *ast.RepeatStmt) ast.Stmt {
	mark := l.active
	l.active++ // for head
	body := l.chunkStmts(s.Stmts)
	cond := l.checked(s.Condition) // sees the body's locals
	l.active = mark
	return &ast.RepeatStmt{Condition: cond, Stmts: l.head(body, s.Line())}
}

// head makes a loop's body begin with an instruction that is not a jump: gopher-lua's compiler shortens a jump to a
// jump, and takes the distance of one that it has shortened before for a label. Only the start of a loop is the
// target of a jump back.
func (l *lowerer) head(body []ast.Stmt, line int) []ast.Stmt {
	if len(body) > 0 && !jumpsFirst(body[0]) {
		return body
	}
	nop := at(&ast.LocalAssignStmt{Names: []string{"(nop)"}}, l.line(line))
	return append([]ast.Stmt{nop}, body...)
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

func (l *lowerer) local(s *ast.LocalAssignStmt) []ast.Stmt {
	line := l.line(s.Line())
	vars := l.decls[s]
	if l.localFunc[s] {
		// The function sees its own name: declare, then assign.
		l.active++
		declare := at(&ast.LocalAssignStmt{Names: slots(vars)}, line)
		out := append(l.one(declare), l.boxes(vars, line)...)
		return append(out, l.store(vars[0], line, l.checked(s.Exprs[0])))
	}
	exprs := l.exprs(s.Exprs, false)
	l.fits(s.Line(), exprs...)
	l.active += len(vars)
	out := l.one(at(&ast.LocalAssignStmt{Names: slots(vars), Exprs: exprs}, line))
	return append(out, l.boxes(vars, line)...)
}

func (l *lowerer) assign(s *ast.AssignStmt) []ast.Stmt {
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		return l.one(l.assignOne(s.Lhs[0], s.Line(), l.objectAndKey(s.Lhs[0]), l.single(s.Rhs[0])))
	}
	// Lua evaluates all values before it stores, and stores from the right.
	line := l.line(s.Line())
	mark := l.active
	var out []ast.Stmt
	targets := make([][]ast.Expr, len(s.Lhs))
	for i, target := range s.Lhs {
		targets[i] = l.objectAndKey(target)
		for j, e := range targets[i] {
			if _, constant := e.(*ast.StringExpr); !constant {
				out = append(out, l.temporary(&targets[i][j], line))
			}
		}
	}
	values := make([]string, len(s.Lhs))
	exprs := l.exprs(s.Rhs, false)
	l.fits(s.Line(), exprs...)
	for i := range values {
		values[i] = "(value " + strconv.Itoa(i) + ")"
	}
	out = append(out, at(&ast.LocalAssignStmt{Names: values, Exprs: exprs}, line))
	l.active += len(values)
	for i := len(values) - 1; i >= 0; i-- {
		out = append(out, l.assignOne(s.Lhs[i], s.Line(), targets[i], l.slot(values[i], line)))
	}
	l.active = mark
	return l.one(at(&ast.DoBlockStmt{Stmts: out}, line))
}

// temporary moves an expression into a local of its own.
func (l *lowerer) temporary(e *ast.Expr, line int) ast.Stmt {
	l.fits(l.sites[line].Line, *e)
	name := "(target " + strconv.Itoa(l.active) + ")"
	s := at(&ast.LocalAssignStmt{Names: []string{name}, Exprs: []ast.Expr{*e}}, line)
	l.active++
	*e = l.slot(name, line)
	return s
}

// objectAndKey lowers the parts of a target that is a table's field.
func (l *lowerer) objectAndKey(target ast.Expr) []ast.Expr {
	if t, ok := target.(*ast.AttrGetExpr); ok {
		return []ast.Expr{l.expr(t.Object), l.expr(t.Key)}
	}
	return nil
}

// assignOne assigns a lowered value to a target whose parts are lowered already.
func (l *lowerer) assignOne(target ast.Expr, srcLine int, parts []ast.Expr, value ast.Expr) ast.Stmt {
	line := l.line(srcLine)
	var call *ast.FuncCallExpr
	switch t := target.(type) {
	case *ast.IdentExpr:
		if v := l.uses[t]; v != nil {
			l.fits(srcLine, value)
			return l.store(v, line, value)
		}
		l.constant(t.Value, srcLine)
		call = l.intrinsic("(setglobal)", srcLine, nil, at(&ast.StringExpr{Value: t.Value}, line), value)
	case *ast.AttrGetExpr:
		call = l.intrinsic("(setindex)", srcLine, []ast.Expr{t.Object}, parts[0], parts[1], value)
	}
	l.fits(srcLine, call)
	return at(&ast.FuncCallStmt{Expr: call}, line)
}

func (l *lowerer) numericFor(s *ast.NumberForStmt) []ast.Stmt {
	line := l.line(s.Line())
	v := l.decls[s][0]
	mark := l.active
	defer func() { l.active = mark }()
	bounds := []ast.Expr{s.Init, s.Limit, s.Step}
	if s.Step == nil {
		bounds[2] = at(numberExpr(1), s.Line())
	}
	plain := true
	for i, b := range bounds {
		plain = plain && l.isNumber(b)
		bounds[i] = l.single(b)
	}
	var out []ast.Stmt
	if !plain {
		call := l.intrinsic("(forprep)", s.Line(), nil, slices.Clone(bounds)...)
		l.fits(s.Line(), call)
		names := []string{"(init)", "(limit)", "(step)"}
		out = l.one(at(&ast.LocalAssignStmt{Names: names, Exprs: []ast.Expr{call}}, line))
		for i, n := range names {
			bounds[i] = l.slot(n, line)
		}
		l.active += len(names)
	}
	l.fits(s.Line(), bounds...)
	l.active += 4 // three of the machine and the variable
	out = append(out, l.loop(line, func() ast.Stmt {
		body := append(l.boxes(l.decls[s], line), l.block(s.Stmts)...)
		return &ast.NumberForStmt{Name: v.slot, Init: bounds[0], Limit: bounds[1], Step: bounds[2], Stmts: body}
	})...)
	if plain {
		return out
	}
	return l.one(at(&ast.DoBlockStmt{Stmts: out}, line))
}

func (l *lowerer) genericFor(s *ast.GenericForStmt) []ast.Stmt {
	line := l.line(s.Line())
	vars := l.decls[s]
	exprs := l.exprs(s.Exprs, false)
	l.fits(s.Line(), exprs...)
	mark := l.active
	l.active += 3 + len(vars) + 3 // the machine's own, and the call of the iterator
	out := l.loop(line, func() ast.Stmt {
		l.active++ // for head
		body := append(l.boxes(vars, line), l.block(s.Stmts)...)
		return &ast.GenericForStmt{Names: slots(vars), Exprs: exprs, Stmts: l.head(body, s.Line())}
	})
	l.active = mark
	return out
}

func (l *lowerer) returned(s *ast.ReturnStmt) []ast.Expr {
	exprs := l.exprs(s.Exprs, true)
	l.fits(s.Line(), exprs...)
	if n := len(exprs); n > 1 {
		if c, ok := s.Exprs[n-1].(*ast.FuncCallExpr); ok && !c.AdjustRet {
			// The results of the call are passed on: their number is work.
			return []ast.Expr{l.intrinsic("(vararg)", s.Line(), nil, exprs...)}
		}
	}
	return exprs
}

func (l *lowerer) function(x *ast.FunctionExpr) ast.Expr {
	line := l.line(x.Line())
	outer, active, breaks := l.fn, l.active, l.breaks
	fn := l.funcs[x]
	params := l.decls[x]
	l.fn, l.active, l.breaks = fn, len(params), nil
	out := at(&ast.FunctionExpr{ParList: &ast.ParList{HasVargs: fn.vararg, Names: slots(params)}}, line)
	if fn.arg != nil && fn.arg.used {
		out.Stmts = append(out.Stmts, l.argTable(fn, line))
		params = append(params[:len(params):len(params)], fn.arg)
		l.active++
	}
	out.Stmts = append(out.Stmts, l.boxes(params, line)...)
	out.Stmts = append(out.Stmts, l.block(x.Stmts)...)
	out.SetLastLine(l.line(x.LastLine()))
	l.fn, l.active, l.breaks = outer, active, breaks
	call := l.intrinsic("(closure)", x.Line(), nil, out)
	call.AdjustRet = true
	return call
}

// argTable declares "arg": the table of the extra arguments, or nil in a
// function that uses "..." (Lua 5.1's compatibility with 5.0).
func (l *lowerer) argTable(fn *function, line int) ast.Stmt {
	s := at(&ast.LocalAssignStmt{Names: []string{fn.arg.slot}}, line)
	if !fn.dots {
		s.Exprs = []ast.Expr{l.intrinsic("(arg)", fn.line, nil, at(&ast.Comma3Expr{}, line))}
	}
	return s
}
