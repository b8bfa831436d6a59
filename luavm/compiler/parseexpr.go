package compiler

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// expkind is the kind of an expression.
type expkind int

const (
	expValue expkind = iota
	expVar           // may be left of =
	expCall          // may be a statement
)

type expr struct {
	ast.Expr
	kind  expkind
	depth int
}

// Expressions.

func (p *parser) exprList() []ast.Expr {
	list := []ast.Expr{p.expr().Expr}
	for p.lex.accept(',') {
		list = append(list, p.expr().Expr)
	}
	return list
}

func (p *parser) variable() expr {
	id := at(&ast.IdentExpr{}, p.lex.line)
	id.Value = p.lex.name()
	if v := p.fn.find(id.Value); v != nil {
		p.tree.uses[id] = v
	}
	return expr{id, expVar, 1}
}

func (p *parser) field(object expr) expr {
	p.lex.next()
	line := p.lex.line
	key := at(&ast.StringExpr{Value: p.lex.name()}, line)
	return p.deep(expr{at(&ast.AttrGetExpr{Object: object.Expr, Key: key}, line), expVar, object.depth + 1})
}

// deep bounds the depth of a tree, whatever the grammar allows.
func (p *parser) deep(e expr) expr {
	if e.depth > expressionDepthMax {
		p.lex.fail(fmt.Sprintf("expression has more than %d operators in a row", expressionDepthMax), 0)
	}
	return e
}

func (p *parser) prefix() expr {
	switch p.lex.tok {
	case '(':
		line := p.lex.line
		p.lex.next()
		e := p.expr()
		p.lex.match(')', '(', line)
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
	p.lex.syntaxError("unexpected symbol")
	return expr{}
}

func (p *parser) primary() expr {
	e := p.prefix()
	for {
		switch p.lex.tok {
		case '.':
			e = p.field(e)
		case '[':
			e = p.index(e)
		case ':':
			p.lex.next()
			e = p.call(e, p.lex.name())
		case '(', tokString, '{':
			e = p.call(e, "")
		default:
			return e
		}
	}
}

func (p *parser) index(object expr) expr {
	line := p.lex.line
	key := p.bracketed()
	depth := max(object.depth, key.depth) + 1
	return p.deep(expr{at(&ast.AttrGetExpr{Object: object.Expr, Key: key.Expr}, line), expVar, depth})
}

func (p *parser) bracketed() expr {
	p.lex.next()
	key := p.expr()
	p.lex.expect(']')
	return key
}

func (p *parser) call(fn expr, method string) expr {
	depth := fn.depth
	var args []ast.Expr
	add := func(e expr) {
		args = append(args, e.Expr)
		depth = max(depth, e.depth)
	}
	line := p.lex.line
	switch p.lex.tok {
	case '(':
		if line != p.lex.lastLine {
			p.lex.syntaxError("ambiguous syntax (function call x new statement)")
		}
		p.lex.next()
		if p.lex.tok != ')' {
			for add(p.expr()); p.lex.accept(','); {
				add(p.expr())
			}
		}
		p.lex.match(')', '(', line)
	case '{':
		add(p.table())
	case tokString:
		add(expr{at(&ast.StringExpr{Value: p.lex.text}, line), expValue, 1})
		p.lex.next()
	default:
		p.lex.syntaxError("function arguments expected")
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
	line := p.lex.line
	t := at(&ast.TableExpr{}, line)
	depth := 0
	p.lex.expect('{')
	for p.lex.tok != '}' {
		f := &ast.Field{}
		switch {
		case p.lex.tok == '[':
			key := p.bracketed()
			f.Key, depth = key.Expr, max(depth, key.depth)
			p.lex.expect('=')
		case p.lex.tok == tokName && p.lex.peek() == '=':
			f.Key = at(&ast.StringExpr{Value: p.lex.name()}, p.lex.line)
			p.lex.expect('=')
		}
		value := p.expr()
		f.Value, depth = value.Expr, max(depth, value.depth)
		t.Fields = append(t.Fields, f)
		if !p.lex.accept(',') && !p.lex.accept(';') {
			break
		}
	}
	p.lex.match('}', '{', line)
	return p.deep(expr{t, expValue, depth + 1})
}

func (p *parser) simple() expr {
	line := p.lex.line
	var e ast.Expr
	switch p.lex.tok {
	case tokNumber:
		e = at(numberExpr(p.lex.num), line)
	case tokString:
		e = at(&ast.StringExpr{Value: p.lex.text}, line)
	case tokNil:
		e = at(&ast.NilExpr{}, line)
	case tokTrue:
		e = at(&ast.TrueExpr{}, line)
	case tokFalse:
		e = at(&ast.FalseExpr{}, line)
	case tokDots:
		if !p.fn.vararg {
			p.lex.syntaxError("cannot use '...' outside a vararg function")
		}
		p.fn.dots = true
		e = at(&ast.Comma3Expr{}, line)
	case '{':
		return p.table()
	case tokFunction:
		p.lex.next()
		return expr{p.function(false, p.lex.line), expValue, 1}
	default:
		return p.primary()
	}
	p.lex.next()
	return expr{e, expValue, 1}
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
	switch op := p.lex.tok; op {
	case tokNot, '-', '#':
		p.lex.next()
		e = p.unary(op, p.operand(unaryPriority))
	default:
		e = p.simple()
	}
	for {
		op := p.lex.tok
		pr, ok := priorities[op]
		if !ok || pr[0] <= limit {
			break
		}
		p.lex.next()
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
	return p.deep(expr{at(e, p.lex.lastLine), expValue, x.depth + 1})
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
	return p.deep(expr{at(e, p.lex.lastLine), expValue, max(a.depth, b.depth) + 1})
}
