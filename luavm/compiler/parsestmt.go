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
	for last := false; !last && !blockEnds(p.lex.tok); {
		var s ast.Stmt
		s, last = p.statement()
		stmts = append(stmts, s)
		p.lex.accept(';')
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
	line := p.lex.line
	switch p.lex.tok {
	case tokIf:
		return p.ifStat(line), false
	case tokWhile:
		return p.whileStat(line), false
	case tokDo:
		p.lex.next()
		s = at(&ast.DoBlockStmt{Stmts: p.block()}, line)
		p.lex.match(tokEnd, tokDo, line)
		return s, false
	case tokFor:
		return p.forStat(line), false
	case tokRepeat:
		return p.repeatStat(line), false
	case tokFunction:
		return p.functionStat(line), false
	case tokLocal:
		p.lex.next()
		if p.lex.accept(tokFunction) {
			return p.localFunction(line), false
		}
		return p.localStat(line), false
	case tokReturn:
		return p.returnStat(line), true
	case tokBreak:
		p.lex.next()
		if p.fn.loops == 0 {
			p.lex.syntaxError("no loop to break")
		}
		return at(&ast.BreakStmt{}, line), true
	}
	return p.expressionStat(line), false
}

func (p *parser) ifStat(line int) ast.Stmt {
	cond, then := p.thenBlock()
	first := at(&ast.IfStmt{Condition: cond, Then: then}, line)
	tail := first
	for p.lex.tok == tokElseif {
		at := p.lex.line
		cond, then := p.thenBlock()
		elseif := &ast.IfStmt{Condition: cond, Then: then}
		elseif.SetLine(at)
		tail.Else = []ast.Stmt{elseif}
		tail = elseif
	}
	if p.lex.accept(tokElse) {
		tail.Else = p.block()
	}
	p.lex.match(tokEnd, tokIf, line)
	return first
}

func (p *parser) thenBlock() (ast.Expr, []ast.Stmt) {
	p.lex.next()
	cond := p.expr().Expr
	p.lex.expect(tokThen)
	return cond, p.block()
}

func (p *parser) whileStat(line int) ast.Stmt {
	p.lex.next()
	cond := p.expr().Expr
	p.lex.expect(tokDo)
	p.fn.loops++
	body := p.block()
	p.fn.loops--
	p.lex.match(tokEnd, tokWhile, line)
	return at(&ast.WhileStmt{Condition: cond, Stmts: body}, line)
}

func (p *parser) repeatStat(line int) ast.Stmt {
	p.lex.next()
	mark := len(p.fn.active)
	p.fn.loops++
	body := p.chunk()
	p.fn.loops--
	p.lex.match(tokUntil, tokRepeat, line)
	cond := p.expr().Expr // the body's locals are still in scope
	p.fn.active = p.fn.active[:mark]
	return at(&ast.RepeatStmt{Condition: cond, Stmts: body}, line)
}

func (p *parser) forStat(line int) ast.Stmt {
	p.lex.next()
	mark := len(p.fn.active)
	name := p.lex.name()
	var s ast.Stmt
	switch p.lex.tok {
	case '=':
		s = p.numericFor(name, line)
	case ',', tokIn:
		s = p.genericFor(name)
	default:
		p.lex.syntaxError("'=' or 'in' expected")
	}
	p.lex.match(tokEnd, tokFor, line)
	p.fn.active = p.fn.active[:mark]
	return s
}

func (p *parser) numericFor(name string, line int) ast.Stmt {
	s := at(&ast.NumberForStmt{Name: name}, line)
	p.lex.expect('=')
	s.Init = p.expr().Expr
	p.lex.expect(',')
	s.Limit = p.expr().Expr
	if p.lex.accept(',') {
		s.Step = p.expr().Expr
	}
	// The bounds are held in three more hidden locals, in case they must be computed first.
	p.fn.hidden(6)
	v := p.fn.newVar(name, 0)
	v.counter = true
	p.tree.decls[s] = []*variable{v}
	s.Stmts = p.forBody(v)
	return s
}

func (p *parser) genericFor(name string) ast.Stmt {
	names := []string{name}
	for p.lex.accept(',') {
		names = append(names, p.lex.name())
	}
	p.lex.expect(tokIn)
	s := at(&ast.GenericForStmt{Names: names}, p.lex.line)
	s.Exprs = p.exprList()
	p.fn.hidden(3)
	vars := make([]*variable, len(names))
	for i, n := range names {
		vars[i] = p.fn.newVar(n, i)
	}
	p.tree.decls[s] = vars
	s.Stmts = p.forBody(vars...)
	return s
}

func (p *parser) forBody(vars ...*variable) []ast.Stmt {
	p.lex.expect(tokDo)
	p.fn.declare(vars...)
	p.fn.loops++
	body := p.block()
	p.fn.loops--
	return body
}

func (p *parser) functionStat(line int) ast.Stmt {
	p.lex.next()
	target := p.variable()
	for p.lex.tok == '.' {
		target = p.field(target)
	}
	method := p.lex.tok == ':'
	if method {
		target = p.field(target)
	}
	return at(&ast.AssignStmt{Lhs: []ast.Expr{p.assignable(target)}, Rhs: []ast.Expr{p.function(method, line)}}, line)
}

func (p *parser) localFunction(line int) ast.Stmt {
	v := p.fn.newVar(p.lex.name(), 0)
	p.fn.declare(v)
	s := at(&ast.LocalAssignStmt{Names: []string{v.name}}, line)
	s.Exprs = []ast.Expr{p.function(false, p.lex.line)}
	p.tree.decls[s] = []*variable{v}
	p.tree.localFunc[s] = true
	return s
}

func (p *parser) localStat(line int) ast.Stmt {
	s := at(&ast.LocalAssignStmt{}, line)
	var vars []*variable
	for {
		vars = append(vars, p.fn.newVar(p.lex.name(), len(vars)))
		if !p.lex.accept(',') {
			break
		}
	}
	if p.lex.accept('=') {
		s.Exprs = p.exprList()
	}
	p.fn.declare(vars...)
	p.tree.decls[s] = vars
	return s
}

func (p *parser) returnStat(line int) ast.Stmt {
	p.lex.next()
	s := at(&ast.ReturnStmt{}, line)
	if !blockEnds(p.lex.tok) && p.lex.tok != ';' {
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
	for p.lex.accept(',') {
		s.Lhs = append(s.Lhs, p.assignable(p.primary()))
		if len(s.Lhs) > syntaxLevelsMax-p.levels {
			p.fn.tooMany(syntaxLevelsMax-p.levels, "variables in assignment")
		}
	}
	p.lex.expect('=')
	s.Rhs = p.exprList()
	return s
}

// assignable checks that e may be assigned to, and records the assignment.
func (p *parser) assignable(e expr) ast.Expr {
	if e.kind != expVar {
		p.lex.syntaxError("syntax error")
	}
	if id, ok := e.Expr.(*ast.IdentExpr); ok {
		if v := p.tree.uses[id]; v != nil {
			v.assigned = true
		}
	}
	return e.Expr
}

// function parses a function from its parameters on.
func (p *parser) function(method bool, line int) *ast.FunctionExpr {
	if p.count++; p.count > functionsMax {
		p.lex.fail(fmt.Sprintf("chunk has more than %d functions", functionsMax), 0)
	}
	fn := &function{lex: p.lex, parent: p.fn, line: line, upvals: map[*variable]bool{}}
	p.fn = fn
	pars := &ast.ParList{}
	f := at(&ast.FunctionExpr{ParList: pars}, line)
	var params []*variable
	if method {
		params = append(params, p.fn.newVar("self", 0))
	}
	p.lex.expect('(')
	if p.lex.tok != ')' {
		params = p.parameters(fn, params)
	}
	pars.HasVargs = fn.vararg
	p.lex.expect(')')
	p.fn.declare(params...)
	p.tree.decls[f] = params
	if fn.vararg {
		fn.arg = p.fn.newVar("arg", 0)
		p.fn.declare(fn.arg)
	}
	f.Stmts = p.chunk()
	f.SetLastLine(p.lex.line)
	p.lex.match(tokEnd, tokFunction, line)
	p.fn = fn.parent
	p.tree.funcs[f] = fn
	return f
}

func (p *parser) parameters(fn *function, params []*variable) []*variable {
	for {
		switch {
		case p.lex.accept(tokDots):
			fn.vararg = true
			return params
		case p.lex.tok != tokName:
			p.lex.syntaxError("<name> or '...' expected")
		}
		params = append(params, p.fn.newVar(p.lex.name(), len(params)))
		if !p.lex.accept(',') {
			return params
		}
	}
}
