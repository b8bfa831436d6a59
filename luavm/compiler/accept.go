package compiler

import (
	"fmt"
)

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
