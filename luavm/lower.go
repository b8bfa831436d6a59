package luavm

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// Between parse and compile a chunk is rewritten ("lowered"), so that what
// gopher-lua's machine does by itself is what Lua 5.1 would do, and bounded:
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
// Arithmetic stays as it is; strings among its operands are met by metamethods of
// the string type, so that numbers pay nothing.

// plainBytesMax is the length, in bytes, up to which a string constant may be
// hashed or compared by one instruction, at the price of one step.
const plainBytesMax = 1024

// registersMax bounds the registers of a function. gopher-lua has 200 and does
// not always notice when an expression needs more.
const registersMax = 195

// constantWorkMax bounds how many comparisons gopher-lua's compiler makes to find
// constants: it looks through those of the function one by one. 4,000 different
// ones in a function are within it.
const constantWorkMax = 8 << 20

// sumMax is how many operators in a row are left to gopher-lua's compiler, which at
// each of them looks for constants in all that are before it.
const sumMax = 32

// The intrinsics, in the order in which intrinsicFuncs provides them. They are
// locals of a function around the chunk, under names no source can contain.
var intrinsicNames = []string{
	"(concat)", "(index)", "(setindex)", "(setglobal)", "(eq)", "(lt)", "(le)", "(gt)", "(ge)",
	"(mod)", "(pow)", "(len)", "(forprep)", "(closure)", "(table)", "(item)", "(field)", "(vararg)", "(arg)",
}

// desc says how a message names a value: kind "local", name "x".
type desc struct{ kind, name string }

// site is a place in the source. Nodes of the lowered tree carry the index of
// their site where gopher-lua expects a line, so an instruction leads to all a
// message needs.
type site struct {
	line     int
	callee   desc   // of a call
	operands []desc // of the values that may be wrong: receiver, operands, arguments of an intrinsic
}

type lowerer struct {
	*parsed
	name   string // of the chunk, as messages show it
	sites  []site
	fn     *function
	lines  map[int]int // line -> its plain site
	known  map[siteKey]int
	folds  map[ast.Expr]bool // lowered expressions that the compiler makes one constant of
	work   int               // comparisons of constants, see constantWorkMax
	active int               // locals in scope, so registers taken
	breaks []string          // label of each open loop of the function; "" where break may stay
	labels int
}

// lower rewrites p. sites are the places that its nodes have in place of lines. message is an error as
// the parser would give it; name is that of the chunk in messages.
func lower(name string, p *parsed) (stmts []ast.Stmt, sites []site, message string) {
	l := &lowerer{
		parsed: p, name: name, fn: p.main, lines: map[int]int{}, known: map[siteKey]int{}, folds: map[ast.Expr]bool{},
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(syntaxError)
			if !ok {
				panic(r)
			}
			stmts, sites, message = nil, nil, e.message
		}
	}()
	main := &ast.FunctionExpr{ParList: &ast.ParList{HasVargs: true}, Stmts: l.block(p.body)}
	stmts = []ast.Stmt{
		&ast.LocalAssignStmt{Names: intrinsicNames, Exprs: []ast.Expr{&ast.Comma3Expr{}}},
		&ast.ReturnStmt{Exprs: []ast.Expr{main}},
	}
	return stmts, l.sites, ""
}

// line is the index of the plain site of a line.
func (l *lowerer) line(line int) int {
	id, ok := l.lines[line]
	if !ok {
		id = l.site(site{line: line})
		l.lines[line] = id
	}
	return id
}

// siteKey tells sites apart that have up to two operands.
type siteKey struct {
	line     int
	callee   desc
	count    int
	operands [2]desc
}

// site is the index of a site; equal ones share it.
func (l *lowerer) site(s site) int {
	key := siteKey{line: s.line, callee: s.callee, count: len(s.operands)}
	if len(s.operands) > len(key.operands) {
		l.sites = append(l.sites, s)
		return len(l.sites) - 1
	}
	copy(key.operands[:], s.operands)
	id, ok := l.known[key]
	if !ok {
		id = len(l.sites)
		l.known[key] = id
		l.sites = append(l.sites, s)
	}
	return id
}

// constant notes that the code of the present function names a constant: a string,
// the text of a number, or an expression that becomes one.
func (l *lowerer) constant(key any, line int) {
	place, ok := l.fn.constants[key]
	if !ok {
		if l.fn.constants == nil {
			l.fn.constants = map[any]int{}
		}
		place = len(l.fn.constants)
		l.fn.constants[key] = place
	}
	if l.work += place; l.work > constantWorkMax {
		panic(syntaxError{fmt.Sprintf("%s:%d: too many constants in a function", l.name, line)})
	}
}

// number is the text of a number among the constants, which strings share no key with.
type number string

// folded notes that out, of lowered operands, becomes a constant if all of them do.
func (l *lowerer) folded(out ast.Expr, line int, operands ...ast.Expr) ast.Expr {
	for _, o := range operands {
		if _, ok := o.(*ast.NumberExpr); !ok && !l.folds[o] {
			return out
		}
	}
	l.folds[out] = true
	l.constant(out, line)
	return out
}

// describe names the value of an expression of the source, as ldebug.c does.
func (l *lowerer) describe(e ast.Expr) desc {
	switch x := e.(type) {
	case *ast.IdentExpr:
		v := l.uses[x]
		switch {
		case v == nil:
			return desc{"global", x.Value}
		case v.fn == l.fn:
			return desc{"local", x.Value}
		}
		return desc{"upvalue", x.Value}
	case *ast.AttrGetExpr:
		if key, ok := x.Key.(*ast.StringExpr); ok {
			return desc{"field", cText(key.Value)}
		}
		return desc{"field", "?"}
	}
	return desc{}
}

// intrinsic makes a call of an intrinsic. operands are the expressions of the
// source that its error messages may name.
func (l *lowerer) intrinsic(name string, line int, operands []ast.Expr, args ...ast.Expr) *ast.FuncCallExpr {
	s := site{line: line}
	for _, o := range operands {
		s.operands = append(s.operands, l.describe(o))
	}
	c := at(&ast.FuncCallExpr{Func: &ast.IdentExpr{Value: name}, Args: args}, l.site(s))
	c.Func.SetLine(c.Line())
	return c
}

// Statements.

// block lowers statements that have a scope of their own.
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

// fits checks the registers that lowered expressions of one statement need.
func (l *lowerer) fits(line int, exprs ...ast.Expr) {
	for i, e := range exprs {
		if l.active+i+registers(e) > registersMax {
			panic(syntaxError{fmt.Sprintf("%s:%d: function or expression too complex", l.name, line)})
		}
	}
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

// checked lowers an expression that stands alone in its statement.
func (l *lowerer) checked(e ast.Expr) ast.Expr {
	out := l.expr(e)
	l.fits(e.Line(), out)
	return out
}

// loop makes a loop statement, and a label after it where break needs one.
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

// head gives a loop's body a first instruction that is no jump: gopher-lua's
// compiler shortens a jump to a jump, and mistakes the distance of one that it has
// shortened before for a label. Only the start of a loop is jumped back to.
func (l *lowerer) head(body []ast.Stmt, line int) []ast.Stmt {
	if len(body) > 0 {
		switch body[0].(type) {
		case *ast.LocalAssignStmt, *ast.AssignStmt, *ast.FuncCallStmt, *ast.ReturnStmt, *ast.NumberForStmt, *ast.GenericForStmt:
			return body
		}
		if first, ok := body[0].(*ast.IfStmt); ok && !mayJump(first.Condition) {
			return body
		}
	}
	nop := at(&ast.LocalAssignStmt{Names: []string{"(nop)"}}, l.line(line))
	return append([]ast.Stmt{nop}, body...)
}

// mayJump reports whether the code of a condition may begin with a jump, or with
// nothing at all.
func mayJump(cond ast.Expr) bool {
	switch x := cond.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NumberExpr, *ast.StringExpr:
		return true
	case *ast.LogicalOpExpr:
		return mayJump(x.Lhs)
	case *ast.UnaryNotOpExpr:
		return mayJump(x.Expr)
	}
	return false
}

// slots are the names under which variables are compiled.
func slots(vars []*variable) []string {
	names := make([]string, len(vars))
	for i, v := range vars {
		names[i] = v.slot
	}
	return names
}

// boxes puts those of vars that must be boxed into their boxes.
func (l *lowerer) boxes(vars []*variable, line int) []ast.Stmt {
	var out []ast.Stmt
	for _, v := range vars {
		if v.boxed() {
			box := at(&ast.TableExpr{Fields: []*ast.Field{{Value: l.slot(v.slot, line)}}}, line)
			out = append(out, at(&ast.AssignStmt{Lhs: []ast.Expr{l.slot(v.slot, line)}, Rhs: []ast.Expr{box}}, line))
		}
	}
	return out
}

func (l *lowerer) slot(name string, line int) ast.Expr {
	return at(&ast.IdentExpr{Value: name}, line)
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

// store assigns a lowered value to a local variable. The value is computed into a
// local of its own first: gopher-lua computes some into the variable itself, while
// their operands still need what it held.
func (l *lowerer) store(v *variable, line int, value ast.Expr) ast.Stmt {
	assign := func(value ast.Expr) ast.Stmt {
		return at(&ast.AssignStmt{Lhs: []ast.Expr{l.load(v, line)}, Rhs: []ast.Expr{value}}, line)
	}
	switch value.(type) {
	case *ast.NumberExpr, *ast.StringExpr, *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.IdentExpr:
		return assign(value)
	}
	first := at(&ast.LocalAssignStmt{Names: []string{"(value)"}, Exprs: []ast.Expr{value}}, line)
	return at(&ast.DoBlockStmt{Stmts: []ast.Stmt{first, assign(l.slot("(value)", line))}}, line)
}

// load is the expression for a local variable.
func (l *lowerer) load(v *variable, line int) ast.Expr {
	id := l.slot(v.slot, line)
	if !v.boxed() {
		return id
	}
	l.constant(number("1"), l.sites[line].line)
	return at(&ast.AttrGetExpr{Object: id, Key: at(numberExpr(1), line)}, line)
}

func (l *lowerer) assign(s *ast.AssignStmt) []ast.Stmt {
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		return l.one(l.assignOne(s.Lhs[0], s.Line(), l.objectAndKey(s.Lhs[0]), l.single(s.Rhs[0])))
	}
	// Lua evaluates all of it before it stores, and stores from the right.
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
	l.fits(l.sites[line].line, *e)
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
			// The results of the call are handed on: that is work in their number.
			return []ast.Expr{l.intrinsic("(vararg)", s.Line(), nil, exprs...)}
		}
	}
	return exprs
}

// Expressions.

// exprs lowers a list. In an open list the last expression gives all its values.
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

// open lowers an expression to all its values.
func (l *lowerer) open(e ast.Expr) ast.Expr { return l.exprs([]ast.Expr{e}, true)[0] }

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

// isNumber reports whether an expression of the source can only be a number.
func (l *lowerer) isNumber(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.NumberExpr, *ast.UnaryLenOpExpr:
		return true
	case *ast.UnaryMinusOpExpr:
		return l.isNumber(x.Expr)
	case *ast.ArithmeticOpExpr:
		return l.isNumber(x.Lhs) && l.isNumber(x.Rhs)
	case *ast.IdentExpr:
		v := l.uses[x]
		return v != nil && v.counter && !v.assigned
	}
	return false
}

// isPlain reports whether comparing with e, or indexing with it, is bounded by one step.
func (l *lowerer) isPlain(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.NilExpr, *ast.TrueExpr, *ast.FalseExpr:
		return true
	case *ast.StringExpr:
		return len(x.Value) <= plainBytesMax
	}
	return l.isNumber(e)
}

func (l *lowerer) expr(e ast.Expr) ast.Expr {
	line := l.line(e.Line())
	switch x := e.(type) {
	case *ast.IdentExpr:
		if v := l.uses[x]; v != nil {
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
		s := site{line: e.Line(), operands: []desc{l.describe(x.Expr)}}
		operand := l.expr(x.Expr)
		return l.folded(at(&ast.UnaryMinusOpExpr{Expr: operand}, l.site(s)), e.Line(), operand)
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

func (l *lowerer) index(x *ast.AttrGetExpr) ast.Expr {
	if !l.isPlain(x.Key) {
		return l.intrinsic("(index)", x.Line(), []ast.Expr{x.Object}, l.expr(x.Object), l.single(x.Key))
	}
	id := l.site(site{line: x.Line(), operands: []desc{l.describe(x.Object)}})
	return at(&ast.AttrGetExpr{Object: l.expr(x.Object), Key: l.expr(x.Key)}, id)
}

func (l *lowerer) call(x *ast.FuncCallExpr) ast.Expr {
	s := site{line: x.Line()}
	out := &ast.FuncCallExpr{AdjustRet: x.AdjustRet}
	if x.Func == nil {
		s.callee = desc{"method", x.Method}
		s.operands = []desc{l.describe(x.Receiver)}
		out.Receiver, out.Method = l.expr(x.Receiver), x.Method
		l.constant(x.Method, x.Line())
	} else {
		s.callee = l.describe(x.Func)
		out.Func = l.expr(x.Func)
	}
	out.Args = l.exprs(x.Args, true)
	return at(out, l.site(s))
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
	if l.isPlain(x.Lhs) || l.isPlain(x.Rhs) {
		return at(&ast.RelationalOpExpr{Operator: x.Operator, Lhs: l.expr(x.Lhs), Rhs: l.expr(x.Rhs)}, l.line(line))
	}
	name := map[string]string{"==": "(eq)", "~=": "(eq)", "<": "(lt)", "<=": "(le)", ">": "(gt)", ">=": "(ge)"}[x.Operator]
	call := l.intrinsic(name, line, nil, l.expr(x.Lhs), l.single(x.Rhs))
	call.AdjustRet = true
	if x.Operator == "~=" {
		return at(&ast.UnaryNotOpExpr{Expr: call}, l.line(line))
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
	s := site{line: x.Line(), operands: []desc{l.describe(x.Lhs), l.describe(x.Rhs)}}
	left, right := l.expr(x.Lhs), l.expr(x.Rhs)
	if operators(left) >= sumMax {
		call := l.intrinsic("(vararg)", x.Line(), nil, left)
		call.AdjustRet = true
		left = call
	}
	out := at(&ast.ArithmeticOpExpr{Operator: x.Operator, Lhs: left, Rhs: right}, l.site(s))
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

// table lowers a constructor. Fields are set in their order, but positional ones
// win over computed keys, as in Lua. What comes before the first computed key is
// left to the machine.
func (l *lowerer) table(x *ast.TableExpr) ast.Expr {
	line := l.line(x.Line())
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
		// gopher-lua stores again what it has stored, from registers used otherwise
		// since, where a named field follows a full batch of positional ones.
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

// item lowers positional field n of a constructor: the last gives all its values.
func (l *lowerer) item(x *ast.TableExpr, n int) ast.Expr {
	if n == len(x.Fields)-1 {
		return l.open(x.Fields[n].Value)
	}
	return l.single(x.Fields[n].Value)
}

// count is a number for an intrinsic; nil stands for 0, which among the constants
// of the function would be taken for -0.
func (l *lowerer) count(n, line int) ast.Expr {
	if n == 0 {
		return at(&ast.NilExpr{}, line)
	}
	e := at(numberExpr(float64(n)), line)
	l.constant(number(e.Value), l.sites[line].line)
	return e
}

// fieldsPerFlush is lua.FieldsPerFlush: so many positional values wait in registers.
const fieldsPerFlush = 50

// order puts named fields before positional ones.
func order(f *ast.Field) int {
	if f.Key == nil {
		return 1
	}
	return 0
}

// isPlainKey reports whether the machine itself may set a constructor's field with
// this key: a string, or a number that is no index of the table's array.
func isPlainKey(key ast.Expr) bool {
	switch k := key.(type) {
	case *ast.StringExpr:
		return len(k.Value) <= plainBytesMax
	case *ast.NumberExpr:
		f, _ := parseNumber(k.Value)
		return f < 1
	}
	return false
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

// registers bounds the registers that gopher-lua's compiler takes for a lowered
// expression, above those of the active locals.
func registers(e ast.Expr) int {
	switch x := e.(type) {
	case *ast.AttrGetExpr:
		return max(registers(x.Object), 1+registers(x.Key))
	case *ast.ArithmeticOpExpr:
		return max(registers(x.Lhs), 1+registers(x.Rhs))
	case *ast.RelationalOpExpr:
		return max(registers(x.Lhs), 1+registers(x.Rhs))
	case *ast.LogicalOpExpr:
		return max(registers(x.Lhs), registers(x.Rhs))
	case *ast.UnaryMinusOpExpr:
		return registers(x.Expr)
	case *ast.UnaryNotOpExpr:
		return registers(x.Expr)
	case *ast.FuncCallExpr:
		return callRegisters(x)
	case *ast.TableExpr:
		return tableRegisters(x)
	}
	return 1
}

func callRegisters(x *ast.FuncCallExpr) int {
	base, first := 1, x.Func
	if first == nil {
		base, first = 3, x.Receiver
	}
	most := base - 1 + registers(first)
	for i, a := range x.Args {
		most = max(most, base+i+registers(a))
	}
	return most
}

func tableRegisters(x *ast.TableExpr) int {
	pending, most := 0, 1
	for _, f := range x.Fields {
		if f.Key != nil {
			most = max(most, pending+registers(f.Key)+1, pending+2+registers(f.Value))
			continue
		}
		most = max(most, pending+1+registers(f.Value))
		pending = (pending + 1) % fieldsPerFlush
	}
	return most
}
