package compiler

import (
	"fmt"
)

func (x *lexer) accept(t token) bool {
	if x.tok != t {
		return false
	}
	x.next()
	return true
}

func (x *lexer) check(t token) {
	if x.tok != t {
		x.syntaxError("'" + t.String() + "' expected")
	}
}

func (x *lexer) expect(t token) {
	x.check(t)
	x.next()
}

// match expects the token that closes another one, opening, on the given line.
func (x *lexer) match(closing, opening token, line int) {
	if x.accept(closing) {
		return
	}
	if line == x.line {
		x.check(closing)
	}
	x.syntaxError(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", closing, opening, line))
}

func (x *lexer) name() string {
	x.check(tokName)
	s := x.text
	x.next()
	return s
}
