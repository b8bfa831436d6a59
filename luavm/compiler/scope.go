package compiler

import (
	"fmt"
	"strconv"
)

// variable is one local variable.
type variable struct {
	name     string
	slot     string // its unique name within the function in the lowered tree
	fn       *function
	used     bool
	captured bool // used by an inner function
	assigned bool // given a value after its declaration
	counter  bool // control variable of a numeric for
}

// boxed reports whether the variable must live in a one-element table: whenever an error is raised, gopher-lua
// separates variables from the functions that share them, which shows as soon as one of them assigns.
func (v *variable) boxed() bool { return v.captured && v.assigned }

// function is the parser's state of a function.
type function struct {
	parent *function
	line   int
	active []*variable
	loops  int // loops open around the statement being parsed
	upvals map[*variable]bool
	vararg bool
	dots   bool      // uses ...
	arg    *variable // the implicit local "arg" of a vararg function
	// constants maps the constants in the function's code to their index.
	constants map[any]int
	// captures is set once an inner function uses a local of this one.
	captures bool
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

// hidden declares n variables that no source can name; they only occupy places in the scope.
func (p *parser) hidden(n int) {
	for range n {
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

// capture records that the present function uses v.
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
