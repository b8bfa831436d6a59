package compiler

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

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

// statement parses one statement; last: none may follow it.
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
		s = p.genericFor(name)
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
	// The bounds are held in three more hidden locals, in case they must be computed first.
	p.hidden(6)
	v := p.newVar(name, 0)
	v.counter = true
	p.decls[s] = []*variable{v}
	s.Stmts = p.forBody(v)
	return s
}

func (p *parser) genericFor(name string) ast.Stmt {
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

// assignable checks that e may be assigned to, and records the assignment.
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
