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

// function is a function of the source: its variables, and what the lowerer must know of it.
type function struct {
	lex    *lexer // raises the errors of its limits
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
func (fn *function) tooMany(limit int, what string) {
	if fn.parent == nil {
		fn.lex.fail(fmt.Sprintf("main function has more than %d %s", limit, what), 0)
	}
	fn.lex.fail(fmt.Sprintf("function at line %d has more than %d %s", fn.line, limit, what), 0)
}

// newVar makes a variable that is not in scope yet.
func (fn *function) newVar(name string, pending int) *variable {
	if len(fn.active)+pending+1 > localsMax {
		fn.tooMany(localsMax, "local variables")
	}
	return &variable{name: name, fn: fn}
}

// declare brings variables into scope.
func (fn *function) declare(vars ...*variable) {
	for _, v := range vars {
		v.slot = v.name + " " + strconv.Itoa(len(fn.active))
		fn.active = append(fn.active, v)
	}
}

// hidden declares n variables that no source can name; they only occupy places in the scope.
func (fn *function) hidden(n int) {
	for range n {
		fn.declare(fn.newVar("(for)", 0))
	}
}

func (fn *function) find(name string) *variable {
	for f := fn; f != nil; f = f.parent {
		for i := len(f.active) - 1; i >= 0; i-- {
			if v := f.active[i]; v.name == name {
				v.used = true
				fn.capture(v)
				return v
			}
		}
	}
	return nil
}

// capture records that the present function uses v.
func (fn *function) capture(v *variable) {
	if v.fn == fn {
		return
	}
	v.captured, v.fn.captures = true, true
	for f := fn; f != v.fn; f = f.parent {
		f.upvals[v] = true
		if len(f.upvals) > upvaluesMax {
			fn.tooMany(upvaluesMax, "upvalues")
		}
	}
}
