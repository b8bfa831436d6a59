package compiler

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// registersMax bounds the registers of a function. gopher-lua has 200 and does not always notice when an expression
// needs more.
const registersMax = 195

// fits checks the registers that lowered expressions of one statement need.
func (l *lowerer) fits(line int, exprs ...ast.Expr) {
	for i, e := range exprs {
		if l.active+i+registers(e) > registersMax {
			panic(syntaxError{fmt.Sprintf("%s:%d: function or expression too complex", l.name, line)})
		}
	}
}

// registers returns an upper bound of the registers that gopher-lua's compiler takes for a lowered expression, above
// those of the active locals.
func registers(e ast.Expr) int {
	switch x := e.(type) {
	case *ast.AttrGetExpr:
		return max(registers(x.Object), 1+registers(x.Key))
	case *ast.ArithmeticOpExpr:
		return max(registers(x.Lhs), 1+registers(x.Rhs))
	case *ast.RelationalOpExpr:
		return max(registers(x.Lhs), 1+registers(x.Rhs))
	case *ast.LogicalOpExpr:
		return max(registers(x.Lhs), registers(x.Rhs))
	case *ast.UnaryMinusOpExpr:
		return registers(x.Expr)
	case *ast.UnaryNotOpExpr:
		return registers(x.Expr)
	case *ast.FuncCallExpr:
		return callRegisters(x)
	case *ast.TableExpr:
		return tableRegisters(x)
	}
	return 1
}

func callRegisters(x *ast.FuncCallExpr) int {
	base, first := 1, x.Func
	if first == nil {
		base, first = 3, x.Receiver
	}
	most := base - 1 + registers(first)
	for i, a := range x.Args {
		most = max(most, base+i+registers(a))
	}
	return most
}

func tableRegisters(x *ast.TableExpr) int {
	pending, most := 0, 1
	for _, f := range x.Fields {
		if f.Key != nil {
			most = max(most, pending+registers(f.Key)+1, pending+2+registers(f.Value))
			continue
		}
		most = max(most, pending+1+registers(f.Value))
		pending = (pending + 1) % fieldsPerFlush
	}
	return most
}
