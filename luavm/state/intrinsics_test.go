package state

import (
	"testing"

	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"
)

// The state has a function for each intrinsic that compiled code calls, and no other.
func TestIntrinsics(t *testing.T) {
	funcs := New(lauxlib.NewBudget()).Tables.intrinsicFuncs()
	for _, name := range compiler.Intrinsics {
		if funcs[name] == nil {
			t.Errorf("%s has no function", name)
		}
	}
	if len(funcs) != len(compiler.Intrinsics) {
		t.Errorf("%d functions, %d intrinsics", len(funcs), len(compiler.Intrinsics))
	}
}
