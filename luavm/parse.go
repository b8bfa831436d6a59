package luavm

import (
	"fmt"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// The parser is Lua 5.1's (lparser.c): its grammar, scoping, limits and error
// texts. It makes gopher-lua's syntax tree and notes beside it what that tree
// cannot say: which variable a name means, and what happens to the variable.

// Limits of a script's source. All but the first two and the last two are Lua's own.
const (
	sourceBytesMax     = 64 << 10
	expressionDepthMax = 1000 // operators and calls in a row; Lua has no such limit
	syntaxLevelsMax    = 200
	localsMax          = 200
	upvaluesMax        = 60
	nameBytesMax       = 1024
	functionsMax       = 1000 // gopher-lua's compiler takes 12 KiB for each
)

// variable is one local variable.
type variable struct {
	name     string
	slot     string // its name in the tree that is compiled, unique in its function
	fn       *function
	used     bool
	captured bool // used by an inner function
	assigned bool // given a value after its declaration
	counter  bool // control variable of a numeric for
}

// boxed reports whether the variable must live in a one-element table: gopher-lua
// cuts the tie between a variable and the functions that share it whenever an
// error is raised, which shows as soon as one of them assigns to it.
func (v *variable) boxed() bool { return v.captured && v.assigned }

// function is what the parser knows of a function.
type function struct {
	parent *function
	line   int
	active []*variable
	loops  int // loops open around the statement being parsed
	upvals map[*variable]bool
	vararg bool
	dots   bool      // uses ...
	arg    *variable // the implicit local "arg" of a vararg function
	// constants are the places of those that the function's code names (lower.go).
	constants map[any]int
	// captures is set once an inner function uses a local of this one.
	captures bool
}

// parsed is a chunk as the parser leaves it.
type parsed struct {
	main  *function
	body  []ast.Stmt
	uses  map[*ast.IdentExpr]*variable // a name without an entry is global
	decls map[ast.PositionHolder][]*variable
	funcs map[*ast.FunctionExpr]*function
	// localFunc marks "local function", whose name is in scope in its own body.
	localFunc map[*ast.LocalAssignStmt]bool
}

type parser struct {
	*lexer
	*parsed
	fn     *function
	levels int
	count  int // functions
}

// expkind says what may be done with an expression.
type expkind int

const (
	expValue expkind = iota
	expVar           // may stand left of =
	expCall          // may be a statement
)

type expr struct {
	ast.Expr
	kind  expkind
	depth int
}

// parse reads a chunk. message is the error of luaL_loadbuffer, "" if there is none.
func parse(chunkname, source string) (p *parsed, message string) {
	ps := &parser{
		lexer: newLexer(chunkname, source),
		parsed: &parsed{
			uses: map[*ast.IdentExpr]*variable{}, decls: map[ast.PositionHolder][]*variable{},
			funcs: map[*ast.FunctionExpr]*function{}, localFunc: map[*ast.LocalAssignStmt]bool{},
		},
	}
	if len(source) > sourceBytesMax {
		return nil, fmt.Sprintf("%s:1: script longer than %d bytes", chunkname, sourceBytesMax)
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(syntaxError)
			if !ok {
				panic(r)
			}
			p, message = nil, e.message
		}
	}()
	ps.fn = &function{vararg: true, upvals: map[*variable]bool{}}
	ps.main = ps.fn
	ps.next()
	ps.parsed.body = ps.chunk()
	ps.check(tokEOS)
	return ps.parsed, ""
}

func (p *parser) enter() {
	if p.levels++; p.levels > syntaxLevelsMax {
		p.fail("chunk has too many syntax levels", 0)
	}
}

func (p *parser) leave() { p.levels-- }

func (p *parser) accept(t token) bool {
	if p.tok != t {
		return false
	}
	p.next()
	return true
}

func (p *parser) check(t token) {
	if p.tok != t {
		p.syntaxError("'" + t.String() + "' expected")
	}
}

func (p *parser) expect(t token) {
	p.check(t)
	p.next()
}

// match expects what closes who, which was opened on the given line.
func (p *parser) match(what, who token, line int) {
	if p.accept(what) {
		return
	}
	if line == p.line {
		p.check(what)
	}
	p.syntaxError(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", what, who, line))
}

func (p *parser) name() string {
	p.check(tokName)
	s := p.text
	p.next()
	return s
}

// tooMany raises Lua's error for a limit of one function.
func (p *parser) tooMany(limit int, what string) {
	if p.fn.parent == nil {
		p.fail(fmt.Sprintf("main function has more than %d %s", limit, what), 0)
	}
	p.fail(fmt.Sprintf("function at line %d has more than %d %s", p.fn.line, limit, what), 0)
}

// newVar makes a variable that is not in scope yet.
func (p *parser) newVar(name string, pending int) *variable {
	if len(p.fn.active)+pending+1 > localsMax {
		p.tooMany(localsMax, "local variables")
	}
	return &variable{name: name, fn: p.fn}
}

// declare brings variables into scope.
func (p *parser) declare(vars ...*variable) {
	for _, v := range vars {
		v.slot = v.name + " " + strconv.Itoa(len(p.fn.active))
		p.fn.active = append(p.fn.active, v)
	}
}

// hidden is a variable no source can name; it only holds a place in the scope.
func (p *parser) hidden(n int) {
	for i := 0; i < n; i++ {
		p.declare(p.newVar("(for)", 0))
	}
}

func (p *parser) find(name string) *variable {
	for fn := p.fn; fn != nil; fn = fn.parent {
		for i := len(fn.active) - 1; i >= 0; i-- {
			if v := fn.active[i]; v.name == name {
				v.used = true
				p.capture(v)
				return v
			}
		}
	}
	return nil
}

// capture notes that the present function uses v.
func (p *parser) capture(v *variable) {
	if v.fn == p.fn {
		return
	}
	v.captured, v.fn.captures = true, true
	for fn := p.fn; fn != v.fn; fn = fn.parent {
		fn.upvals[v] = true
		if len(fn.upvals) > upvaluesMax {
			p.tooMany(upvaluesMax, "upvalues")
		}
	}
}

// at gives a node its line.
func at[N ast.PositionHolder](node N, line int) N {
	node.SetLine(line)
	return node
}

// Statements.

func blockEnds(t token) bool {
	return t == tokElse || t == tokElseif || t == tokEnd || t == tokUntil || t == tokEOS
}

func (p *parser) chunk() []ast.Stmt {
	p.enter()
	var stmts []ast.Stmt
	for last := false; !last && !blockEnds(p.tok); {
		var s ast.Stmt
		s, last = p.statement()
		stmts = append(stmts, s)
		p.accept(';')
	}
	p.leave()
	return stmts
}

// block is a chunk with its own scope.
func (p *parser) block() []ast.Stmt {
	mark := len(p.fn.active)
	stmts := p.chunk()
	p.fn.active = p.fn.active[:mark]
	return stmts
}

// statement parses one statement and tells whether none may follow it.
func (p *parser) statement() (s ast.Stmt, last bool) {
	line := p.line
	switch p.tok {
	case tokIf:
		return p.ifStat(line), false
	case tokWhile:
		return p.whileStat(line), false
	case tokDo:
		p.next()
		s = at(&ast.DoBlockStmt{Stmts: p.block()}, line)
		p.match(tokEnd, tokDo, line)
		return s, false
	case tokFor:
		return p.forStat(line), false
	case tokRepeat:
		return p.repeatStat(line), false
	case tokFunction:
		return p.functionStat(line), false
	case tokLocal:
		p.next()
		if p.accept(tokFunction) {
			return p.localFunction(line), false
		}
		return p.localStat(line), false
	case tokReturn:
		return p.returnStat(line), true
	case tokBreak:
		p.next()
		if p.fn.loops == 0 {
			p.syntaxError("no loop to break")
		}
		return at(&ast.BreakStmt{}, line), true
	}
	return p.expressionStat(line), false
}

func (p *parser) ifStat(line int) ast.Stmt {
	cond, then := p.thenBlock()
	first := at(&ast.IfStmt{Condition: cond, Then: then}, line)
	tail := first
	for p.tok == tokElseif {
		at := p.line
		cond, then := p.thenBlock()
		elseif := &ast.IfStmt{Condition: cond, Then: then}
		elseif.SetLine(at)
		tail.Else = []ast.Stmt{elseif}
		tail = elseif
	}
	if p.accept(tokElse) {
		tail.Else = p.block()
	}
	p.match(tokEnd, tokIf, line)
	return first
}

func (p *parser) thenBlock() (ast.Expr, []ast.Stmt) {
	p.next()
	cond := p.expr().Expr
	p.expect(tokThen)
	return cond, p.block()
}

func (p *parser) whileStat(line int) ast.Stmt {
	p.next()
	cond := p.expr().Expr
	p.expect(tokDo)
	p.fn.loops++
	body := p.block()
	p.fn.loops--
	p.match(tokEnd, tokWhile, line)
	return at(&ast.WhileStmt{Condition: cond, Stmts: body}, line)
}

func (p *parser) repeatStat(line int) ast.Stmt {
	p.next()
	mark := len(p.fn.active)
	p.fn.loops++
	body := p.chunk()
	p.fn.loops--
	p.match(tokUntil, tokRepeat, line)
	cond := p.expr().Expr // the body's locals are still in scope
	p.fn.active = p.fn.active[:mark]
	return at(&ast.RepeatStmt{Condition: cond, Stmts: body}, line)
}

func (p *parser) forStat(line int) ast.Stmt {
	p.next()
	mark := len(p.fn.active)
	name := p.name()
	var s ast.Stmt
	switch p.tok {
	case '=':
		s = p.numericFor(name, line)
	case ',', tokIn:
		s = p.genericFor(name, line)
	default:
		p.syntaxError("'=' or 'in' expected")
	}
	p.match(tokEnd, tokFor, line)
	p.fn.active = p.fn.active[:mark]
	return s
}

func (p *parser) numericFor(name string, line int) ast.Stmt {
	s := at(&ast.NumberForStmt{Name: name}, line)
	p.expect('=')
	s.Init = p.expr().Expr
	p.expect(',')
	s.Limit = p.expr().Expr
	if p.accept(',') {
		s.Step = p.expr().Expr
	}
	// The bounds are held in three more locals of their own, in case they
	// must be computed first.
	p.hidden(6)
	v := p.newVar(name, 0)
	v.counter = true
	p.decls[s] = []*variable{v}
	s.Stmts = p.forBody(v)
	return s
}

func (p *parser) genericFor(name string, line int) ast.Stmt {
	names := []string{name}
	for p.accept(',') {
		names = append(names, p.name())
	}
	p.expect(tokIn)
	s := at(&ast.GenericForStmt{Names: names}, p.line)
	s.Exprs = p.exprList()
	p.hidden(3)
	vars := make([]*variable, len(names))
	for i, n := range names {
		vars[i] = p.newVar(n, i)
	}
	p.decls[s] = vars
	s.Stmts = p.forBody(vars...)
	return s
}

func (p *parser) forBody(vars ...*variable) []ast.Stmt {
	p.expect(tokDo)
	p.declare(vars...)
	p.fn.loops++
	body := p.block()
	p.fn.loops--
	return body
}

func (p *parser) functionStat(line int) ast.Stmt {
	p.next()
	target := p.variable()
	for p.tok == '.' {
		target = p.field(target)
	}
	method := p.tok == ':'
	if method {
		target = p.field(target)
	}
	return at(&ast.AssignStmt{Lhs: []ast.Expr{p.assignable(target)}, Rhs: []ast.Expr{p.function(method, line)}}, line)
}

func (p *parser) localFunction(line int) ast.Stmt {
	v := p.newVar(p.name(), 0)
	p.declare(v)
	s := at(&ast.LocalAssignStmt{Names: []string{v.name}}, line)
	s.Exprs = []ast.Expr{p.function(false, p.line)}
	p.decls[s] = []*variable{v}
	p.localFunc[s] = true
	return s
}

func (p *parser) localStat(line int) ast.Stmt {
	s := at(&ast.LocalAssignStmt{}, line)
	var vars []*variable
	for {
		vars = append(vars, p.newVar(p.name(), len(vars)))
		if !p.accept(',') {
			break
		}
	}
	if p.accept('=') {
		s.Exprs = p.exprList()
	}
	p.declare(vars...)
	p.decls[s] = vars
	return s
}

func (p *parser) returnStat(line int) ast.Stmt {
	p.next()
	s := at(&ast.ReturnStmt{}, line)
	if !blockEnds(p.tok) && p.tok != ';' {
		s.Exprs = p.exprList()
	}
	return s
}

func (p *parser) expressionStat(line int) ast.Stmt {
	e := p.primary()
	if e.kind == expCall {
		return at(&ast.FuncCallStmt{Expr: e.Expr}, line)
	}
	s := at(&ast.AssignStmt{Lhs: []ast.Expr{p.assignable(e)}}, line)
	for p.accept(',') {
		s.Lhs = append(s.Lhs, p.assignable(p.primary()))
		if len(s.Lhs) > syntaxLevelsMax-p.levels {
			p.tooMany(syntaxLevelsMax-p.levels, "variables in assignment")
		}
	}
	p.expect('=')
	s.Rhs = p.exprList()
	return s
}

// assignable checks that e may be assigned to, and notes the assignment.
func (p *parser) assignable(e expr) ast.Expr {
	if e.kind != expVar {
		p.syntaxError("syntax error")
	}
	if id, ok := e.Expr.(*ast.IdentExpr); ok {
		if v := p.uses[id]; v != nil {
			v.assigned = true
		}
	}
	return e.Expr
}

// Expressions.

func (p *parser) exprList() []ast.Expr {
	list := []ast.Expr{p.expr().Expr}
	for p.accept(',') {
		list = append(list, p.expr().Expr)
	}
	return list
}

func (p *parser) variable() expr {
	id := at(&ast.IdentExpr{}, p.line)
	id.Value = p.name()
	if v := p.find(id.Value); v != nil {
		p.uses[id] = v
	}
	return expr{id, expVar, 1}
}

func (p *parser) field(object expr) expr {
	p.next()
	line := p.line
	key := at(&ast.StringExpr{Value: p.name()}, line)
	return p.deep(expr{at(&ast.AttrGetExpr{Object: object.Expr, Key: key}, line), expVar, object.depth + 1})
}

// deep bounds how deep a tree may become, whatever the grammar allows.
func (p *parser) deep(e expr) expr {
	if e.depth > expressionDepthMax {
		p.fail(fmt.Sprintf("expression has more than %d operators in a row", expressionDepthMax), 0)
	}
	return e
}

func (p *parser) prefix() expr {
	switch p.tok {
	case '(':
		line := p.line
		p.next()
		e := p.expr()
		p.match(')', '(', line)
		switch x := e.Expr.(type) {
		case *ast.FuncCallExpr:
			x.AdjustRet = true
		case *ast.Comma3Expr:
			x.AdjustRet = true
		}
		return expr{e.Expr, expValue, e.depth}
	case tokName:
		return p.variable()
	}
	p.syntaxError("unexpected symbol")
	return expr{}
}

func (p *parser) primary() expr {
	e := p.prefix()
	for {
		switch p.tok {
		case '.':
			e = p.field(e)
		case '[':
			e = p.index(e)
		case ':':
			p.next()
			e = p.call(e, p.name())
		case '(', tokString, '{':
			e = p.call(e, "")
		default:
			return e
		}
	}
}

func (p *parser) index(object expr) expr {
	line := p.line
	key := p.bracketed()
	depth := max(object.depth, key.depth) + 1
	return p.deep(expr{at(&ast.AttrGetExpr{Object: object.Expr, Key: key.Expr}, line), expVar, depth})
}

func (p *parser) bracketed() expr {
	p.next()
	key := p.expr()
	p.expect(']')
	return key
}

func (p *parser) call(fn expr, method string) expr {
	depth := fn.depth
	var args []ast.Expr
	add := func(e expr) {
		args = append(args, e.Expr)
		depth = max(depth, e.depth)
	}
	line := p.line
	switch p.tok {
	case '(':
		if line != p.lastLine {
			p.syntaxError("ambiguous syntax (function call x new statement)")
		}
		p.next()
		if p.tok != ')' {
			for add(p.expr()); p.accept(','); {
				add(p.expr())
			}
		}
		p.match(')', '(', line)
	case '{':
		add(p.table())
	case tokString:
		add(expr{at(&ast.StringExpr{Value: p.text}, line), expValue, 1})
		p.next()
	default:
		p.syntaxError("function arguments expected")
	}
	c := at(&ast.FuncCallExpr{Args: args}, line)
	if method == "" {
		c.Func = fn.Expr
	} else {
		c.Receiver, c.Method = fn.Expr, method
	}
	return p.deep(expr{c, expCall, depth + 1})
}

func (p *parser) table() expr {
	line := p.line
	t := at(&ast.TableExpr{}, line)
	depth := 0
	p.expect('{')
	for p.tok != '}' {
		f := &ast.Field{}
		switch {
		case p.tok == '[':
			key := p.bracketed()
			f.Key, depth = key.Expr, max(depth, key.depth)
			p.expect('=')
		case p.tok == tokName && p.peek() == '=':
			f.Key = at(&ast.StringExpr{Value: p.name()}, p.line)
			p.expect('=')
		}
		value := p.expr()
		f.Value, depth = value.Expr, max(depth, value.depth)
		t.Fields = append(t.Fields, f)
		if !p.accept(',') && !p.accept(';') {
			break
		}
	}
	p.match('}', '{', line)
	return p.deep(expr{t, expValue, depth + 1})
}

// function parses a function from its parameters on.
func (p *parser) function(method bool, line int) *ast.FunctionExpr {
	if p.count++; p.count > functionsMax {
		p.fail(fmt.Sprintf("chunk has more than %d functions", functionsMax), 0)
	}
	fn := &function{parent: p.fn, line: line, upvals: map[*variable]bool{}}
	p.fn = fn
	pars := &ast.ParList{}
	f := at(&ast.FunctionExpr{ParList: pars}, line)
	var params []*variable
	if method {
		params = append(params, p.newVar("self", 0))
	}
	p.expect('(')
	if p.tok != ')' {
		params = p.parameters(fn, params)
	}
	pars.HasVargs = fn.vararg
	p.expect(')')
	p.declare(params...)
	p.decls[f] = params
	if fn.vararg {
		fn.arg = p.newVar("arg", 0)
		p.declare(fn.arg)
	}
	f.Stmts = p.chunk()
	f.SetLastLine(p.line)
	p.match(tokEnd, tokFunction, line)
	p.fn = fn.parent
	p.funcs[f] = fn
	return f
}

func (p *parser) parameters(fn *function, params []*variable) []*variable {
	for {
		switch {
		case p.accept(tokDots):
			fn.vararg = true
			return params
		case p.tok != tokName:
			p.syntaxError("<name> or '...' expected")
		}
		params = append(params, p.newVar(p.name(), len(params)))
		if !p.accept(',') {
			return params
		}
	}
}

func (p *parser) simple() expr {
	line := p.line
	var e ast.Expr
	switch p.tok {
	case tokNumber:
		e = at(numberExpr(p.num), line)
	case tokString:
		e = at(&ast.StringExpr{Value: p.text}, line)
	case tokNil:
		e = at(&ast.NilExpr{}, line)
	case tokTrue:
		e = at(&ast.TrueExpr{}, line)
	case tokFalse:
		e = at(&ast.FalseExpr{}, line)
	case tokDots:
		if !p.fn.vararg {
			p.syntaxError("cannot use '...' outside a vararg function")
		}
		p.fn.dots = true
		e = at(&ast.Comma3Expr{}, line)
	case '{':
		return p.table()
	case tokFunction:
		p.next()
		return expr{p.function(false, p.line), expValue, 1}
	default:
		return p.primary()
	}
	p.next()
	return expr{e, expValue, 1}
}

// numberExpr writes f so that gopher-lua's compiler reads exactly f.
func numberExpr(f float64) *ast.NumberExpr {
	return &ast.NumberExpr{Value: strconv.FormatFloat(f, 'g', -1, 64)}
}

// Priorities of the binary operators, left and right (lparser.c).
var priorities = map[token][2]int{
	'+': {6, 6}, '-': {6, 6}, '*': {7, 7}, '/': {7, 7}, '%': {7, 7}, '^': {10, 9}, tokConcat: {5, 4},
	tokNe: {3, 3}, tokEq: {3, 3}, '<': {3, 3}, tokLe: {3, 3}, '>': {3, 3}, tokGe: {3, 3}, tokAnd: {2, 2}, tokOr: {1, 1},
}

const unaryPriority = 8

func (p *parser) expr() expr { return p.operand(0) }

// operand parses an expression of operators that bind tighter than limit.
func (p *parser) operand(limit int) expr {
	p.enter()
	var e expr
	switch op := p.tok; op {
	case tokNot, '-', '#':
		p.next()
		e = p.unary(op, p.operand(unaryPriority))
	default:
		e = p.simple()
	}
	for {
		op := p.tok
		pr, ok := priorities[op]
		if !ok || pr[0] <= limit {
			break
		}
		p.next()
		e = p.binary(op, e, p.operand(pr[1]))
	}
	p.leave()
	return e
}

func (p *parser) unary(op token, x expr) expr {
	var e ast.Expr
	switch op {
	case tokNot:
		e = &ast.UnaryNotOpExpr{Expr: x.Expr}
	case '-':
		e = &ast.UnaryMinusOpExpr{Expr: x.Expr}
	default:
		e = &ast.UnaryLenOpExpr{Expr: x.Expr}
	}
	return p.deep(expr{at(e, p.lastLine), expValue, x.depth + 1})
}

func (p *parser) binary(op token, a, b expr) expr {
	var e ast.Expr
	switch op {
	case tokAnd, tokOr:
		e = &ast.LogicalOpExpr{Operator: op.String(), Lhs: a.Expr, Rhs: b.Expr}
	case tokConcat:
		e = &ast.StringConcatOpExpr{Lhs: a.Expr, Rhs: b.Expr}
	case tokEq, tokNe, tokLe, tokGe, '<', '>':
		e = &ast.RelationalOpExpr{Operator: op.String(), Lhs: a.Expr, Rhs: b.Expr}
	default:
		e = &ast.ArithmeticOpExpr{Operator: op.String(), Lhs: a.Expr, Rhs: b.Expr}
	}
	return p.deep(expr{at(e, p.lastLine), expValue, max(a.depth, b.depth) + 1})
}
