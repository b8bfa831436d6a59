package compiler

import (
	"slices"

	"lockd/luavm/libc"

	"github.com/yuin/gopher-lua/ast"
)

// exprs lowers a list. In an open list the last expression yields all its values.
func (l *lowerer) exprs(list []ast.Expr, open bool) []ast.Expr {
	out := make([]ast.Expr, len(list))
	for i, e := range list {
		dots, isDots := e.(*ast.Comma3Expr)
		if open && i == len(list)-1 && isDots && !dots.AdjustRet {
			out[i] = l.intrinsic("(vararg)", e.Line(), nil, l.expr(e))
			continue
		}
		out[i] = l.expr(e)
	}
	return out
}

// single lowers an expression to exactly one value.
func (l *lowerer) single(e ast.Expr) ast.Expr {
	out := l.expr(e)
	switch x := out.(type) {
	case *ast.FuncCallExpr:
		x.AdjustRet = true
	case *ast.Comma3Expr:
		x.AdjustRet = true
	}
	return out
}

func (l *lowerer) expr(e ast.Expr) ast.Expr {
	line := l.sites.line(e.Line())
	switch x := e.(type) {
	case *ast.IdentExpr:
		if v := l.tree.uses[x]; v != nil {
			return l.load(v, line)
		}
		l.constant(x.Value, e.Line())
		return at(&ast.IdentExpr{Value: x.Value}, line)
	case *ast.AttrGetExpr:
		return l.index(x)
	case *ast.FuncCallExpr:
		return l.call(x)
	case *ast.StringConcatOpExpr:
		return l.concat(x)
	case *ast.RelationalOpExpr:
		return l.compare(x)
	case *ast.ArithmeticOpExpr:
		return l.arithmetic(x)
	case *ast.LogicalOpExpr:
		return at(&ast.LogicalOpExpr{Operator: x.Operator, Lhs: l.expr(x.Lhs), Rhs: l.single(x.Rhs)}, line)
	case *ast.UnaryMinusOpExpr:
		s := Site{Line: e.Line(), Operands: []Desc{l.tree.describe(l.fn, x.Expr)}}
		operand := l.expr(x.Expr)
		return l.folded(at(&ast.UnaryMinusOpExpr{Expr: operand}, l.sites.add(s)), e.Line(), operand)
	case *ast.UnaryNotOpExpr:
		return at(&ast.UnaryNotOpExpr{Expr: l.expr(x.Expr)}, line)
	case *ast.UnaryLenOpExpr:
		return l.intrinsic("(len)", e.Line(), []ast.Expr{x.Expr}, l.single(x.Expr))
	case *ast.TableExpr:
		return l.table(x)
	case *ast.FunctionExpr:
		return l.function(x)
	case *ast.Comma3Expr:
		return at(&ast.Comma3Expr{AdjustRet: x.AdjustRet}, line)
	case *ast.StringExpr:
		l.constant(x.Value, e.Line())
	case *ast.NumberExpr:
		l.constant(number(x.Value), e.Line())
	}
	e.SetLine(line)
	return e
}

// checked lowers an expression that is alone in its statement, and checks its registers.
func (l *lowerer) checked(e ast.Expr) ast.Expr {
	out := l.expr(e)
	l.fits(e.Line(), out)
	return out
}

func (l *lowerer) index(x *ast.AttrGetExpr) ast.Expr {
	if !l.tree.isPlain(x.Key) {
		return l.intrinsic("(index)", x.Line(), []ast.Expr{x.Object}, l.expr(x.Object), l.single(x.Key))
	}
	id := l.sites.add(Site{Line: x.Line(), Operands: []Desc{l.tree.describe(l.fn, x.Object)}})
	return at(&ast.AttrGetExpr{Object: l.expr(x.Object), Key: l.expr(x.Key)}, id)
}

func (l *lowerer) call(x *ast.FuncCallExpr) ast.Expr {
	s := Site{Line: x.Line()}
	out := &ast.FuncCallExpr{AdjustRet: x.AdjustRet}
	if x.Func == nil {
		s.Callee = Desc{"method", x.Method}
		s.Operands = []Desc{l.tree.describe(l.fn, x.Receiver)}
		out.Receiver, out.Method = l.expr(x.Receiver), x.Method
		l.constant(x.Method, x.Line())
	} else {
		s.Callee = l.tree.describe(l.fn, x.Func)
		out.Func = l.expr(x.Func)
	}
	out.Args = l.exprs(x.Args, true)
	return at(out, l.sites.add(s))
}

// operandsMax bounds the operands of one call of the concat intrinsic.
const operandsMax = 30

// concat joins a chain of .., which binds to the right, into one call.
func (l *lowerer) concat(x *ast.StringConcatOpExpr) ast.Expr {
	operands := []ast.Expr{x.Lhs}
	rest := x.Rhs
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok || len(operands) == operandsMax {
			break
		}
		operands = append(operands, next.Lhs)
		rest = next.Rhs
	}
	operands = append(operands, rest)
	args := make([]ast.Expr, len(operands))
	for i, o := range operands {
		args[i] = l.single(o)
	}
	return l.intrinsic("(concat)", x.Line(), operands, args...)
}

func (l *lowerer) compare(x *ast.RelationalOpExpr) ast.Expr {
	line := x.Line()
	if l.tree.isPlain(x.Lhs) || l.tree.isPlain(x.Rhs) {
		return at(&ast.RelationalOpExpr{Operator: x.Operator, Lhs: l.expr(x.Lhs), Rhs: l.expr(x.Rhs)}, l.sites.line(line))
	}
	name := map[string]string{
		"==": "(eq)", "~=": "(eq)", "<": "(lt)", "<=": "(le)", ">": "(gt)", ">=": "(ge)",
	}[x.Operator]
	call := l.intrinsic(name, line, nil, l.expr(x.Lhs), l.single(x.Rhs))
	call.AdjustRet = true
	if x.Operator == "~=" {
		return at(&ast.UnaryNotOpExpr{Expr: call}, l.sites.line(line))
	}
	return call
}

func (l *lowerer) arithmetic(x *ast.ArithmeticOpExpr) ast.Expr {
	operands := []ast.Expr{x.Lhs, x.Rhs}
	switch x.Operator {
	case "%", "^":
		name := map[string]string{"%": "(mod)", "^": "(pow)"}[x.Operator]
		return l.intrinsic(name, x.Line(), operands, l.expr(x.Lhs), l.single(x.Rhs))
	}
	s := Site{Line: x.Line(), Operands: []Desc{l.tree.describe(l.fn, x.Lhs), l.tree.describe(l.fn, x.Rhs)}}
	left, right := l.expr(x.Lhs), l.expr(x.Rhs)
	if operators(left) >= sumMax {
		call := l.intrinsic("(vararg)", x.Line(), nil, left)
		call.AdjustRet = true
		left = call
	}
	out := at(&ast.ArithmeticOpExpr{Operator: x.Operator, Lhs: left, Rhs: right}, l.sites.add(s))
	return l.folded(out, x.Line(), left, right)
}

// operators counts the operators in a row at the left of a lowered expression.
func operators(e ast.Expr) int {
	n := 0
	for {
		x, ok := e.(*ast.ArithmeticOpExpr)
		if !ok {
			return n
		}
		e = x.Lhs
		n++
	}
}

// table lowers a constructor. Fields are set in order, but positional ones win over computed keys, as in Lua. The
// fields before the first computed key are left to the machine.
func (l *lowerer) table(x *ast.TableExpr) ast.Expr {
	line := l.sites.line(x.Line())
	plain := at(&ast.TableExpr{}, line)
	named, positional, n := 0, 0, 0
	for ; n < len(x.Fields); n++ {
		f := x.Fields[n]
		if f.Key != nil && !isPlainKey(f.Key) {
			break
		} else if f.Key != nil {
			named++
			plain.Fields = append(plain.Fields, &ast.Field{Key: l.expr(f.Key), Value: l.single(f.Value)})
			continue
		}
		positional++
		plain.Fields = append(plain.Fields, &ast.Field{Value: l.item(x, n)})
	}
	if positional >= fieldsPerFlush && named > 0 {
		// If a named field follows a full batch of positional ones, gopher-lua stores the batch again, from registers
		// that have been reused since.
		slices.SortStableFunc(plain.Fields, func(a, b *ast.Field) int { return order(a) - order(b) })
	}
	t := l.intrinsic("(table)", x.Line(), nil, plain, l.count(named, line))
	t.AdjustRet = true
	for ; n < len(x.Fields); n++ {
		f := x.Fields[n]
		if f.Key == nil {
			positional++
			t = l.intrinsic("(item)", x.Line(), nil, t, l.count(positional, line), l.item(x, n))
		} else {
			t = l.intrinsic("(field)", x.Line(), nil, t, l.count(positional, line), l.single(f.Key), l.single(f.Value))
		}
		t.AdjustRet = true
	}
	return t
}

// item lowers positional field n of a constructor: the last one yields all its values.
func (l *lowerer) item(x *ast.TableExpr, n int) ast.Expr {
	if n == len(x.Fields)-1 {
		return l.exprs([]ast.Expr{x.Fields[n].Value}, true)[0]
	}
	return l.single(x.Fields[n].Value)
}

// count returns a number for an intrinsic; nil stands for 0, which among the constants of the function would be taken
// for -0.
func (l *lowerer) count(n, line int) ast.Expr {
	if n == 0 {
		return at(&ast.NilExpr{}, line)
	}
	e := at(numberExpr(float64(n)), line)
	l.constant(number(e.Value), l.sites.list[line].Line)
	return e
}

// fieldsPerFlush is lua.FieldsPerFlush: the number of positional values that wait in registers.
const fieldsPerFlush = 50

// order puts named fields before positional ones.
func order(f *ast.Field) int {
	if f.Key == nil {
		return 1
	}
	return 0
}

// isPlainKey reports whether the machine itself may set a constructor's field with this key: a string, or a number
// that is not an index of the table's array.
func isPlainKey(key ast.Expr) bool {
	switch k := key.(type) {
	case *ast.StringExpr:
		return len(k.Value) <= plainBytesMax
	case *ast.NumberExpr:
		f, _ := libc.ParseNumber(k.Value)
		return f < 1
	}
	return false
}

func (l *lowerer) function(x *ast.FunctionExpr) ast.Expr {
	line := l.sites.line(x.Line())
	outer, active := l.fn, l.active
	fn := l.tree.funcs[x]
	params := l.tree.decls[x]
	l.fn, l.active = fn, len(params)
	out := at(&ast.FunctionExpr{ParList: &ast.ParList{HasVargs: fn.vararg, Names: slots(params)}}, line)
	if fn.arg != nil && fn.arg.used {
		out.Stmts = append(out.Stmts, l.argTable(fn, line))
		params = append(params[:len(params):len(params)], fn.arg)
		l.active++
	}
	out.Stmts = append(out.Stmts, l.boxes(params, line)...)
	out.Stmts = append(out.Stmts, (&body{l: l}).block(x.Stmts)...)
	out.SetLastLine(l.sites.line(x.LastLine()))
	l.fn, l.active = outer, active
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
