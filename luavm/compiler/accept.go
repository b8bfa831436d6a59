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

// match expects what closes who, which was opened on the given line.
func (x *lexer) match(what, who token, line int) {
	if x.accept(what) {
		return
	}
	if line == x.line {
		x.check(what)
	}
	x.syntaxError(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", what, who, line))
}

func (x *lexer) name() string {
	x.check(tokName)
	s := x.text
	x.next()
	return s
}
