package compiler

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// constantWorkMax bounds the comparisons that gopher-lua's compiler makes to find constants: it searches those of the
// function one by one. 4,000 different constants in a function are within it.
const constantWorkMax = 8 << 20

// constant records that the code of the present function uses a constant: a string, the text of a number, or an
// expression that becomes one.
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

// number is the text of a number among the constants, as a key distinct from that of a string.
type number string

// folded records that out, of lowered operands, becomes a constant if all of them do.
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
