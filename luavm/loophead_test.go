package luavm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lockd/resp"
)

// A loop's body or condition works in the same way as behind another statement, whatever it begins with: gopher-lua's
// compiler would misplace the head of a loop that begins with a jump.
func TestLoopHeads(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	loops := []struct{ loop, same string }{
		{"for k, v in pairs({'x', 'y'}) do %s end", "for k, v in pairs({'x', 'y'}) do local nop %s end"},
		{"repeat %s k = k + 1 until k > 3", "repeat local nop %s k = k + 1 until k > 3"},
		{"repeat %s local f = function() return k end k = f() + 1 until k > 3", "repeat local nop %s local f = function() return k end k = f() + 1 until k > 3"},
	}
	bodies := []string{
		"local b = %s note(b)", "local a, b = %s, k note(b)", "c = %s note(c)", "if %s then note(1) else note(2) end", "note(%s)",
		"for i = %s and 1 or 2, 3 do note(i) end", "for _, x in (%s and pairs or pairs)({k}) do note(x) end", "t[%s or 1] = k note(t[1])",
		"if %s == 's' then note(k) end", "if k ~= %s then note(k) end", "local b = 's' ~= %s note(b)", "do local b = %s note(b) end",
		"while %s do note(k) break end", "local b = not %s note(b)", "local b = (%s and note or tostring)(k) note(b)",
	}
	v := New()
	same := func(source, other string) {
		t.Helper()
		got, _, _, _ := traced(v, noteInto+source+" return out")
		want, _, _, _ := traced(v, noteInto+other+" return out")
		if got.Kind != resp.KindBulk || got.Str != want.Str {
			t.Fatalf("%s\n gives %s\n%s\n gives %s", source, render(got), other, render(want))
		}
	}
	for range 60 {
		e := randomLogic(dice, 4)
		for _, body := range bodies {
			body = fmt.Sprintf(body, e)
			for _, l := range loops {
				same(fmt.Sprintf(l.loop, body), fmt.Sprintf(l.same, body))
			}
		}
		for _, cond := range []string{"%s", "not %s", "%s == k", "k == %s", "(%s and k or 9) < 3", "k + (%s and 1 or 2) < 5"} {
			cond = fmt.Sprintf(cond, e)
			same("while "+cond+" do note(k) k = k + 1 if k > 3 then break end end",
				"while true do local nop if not ("+cond+") then break end note(k) k = k + 1 if k > 3 then break end end")
		}
	}
}

const noteInto = "local out, k, c, t = '', 1, nil, {} local function note(x) out = out .. tostring(x) .. ' ' return x end "

// randomLogic is an expression of "and", "or" and "not".
func randomLogic(dice *rand.Rand, depth int) string {
	atoms := []string{"'s'", "'s'", "'t'", "7", "nil", "false", "true", "k", "k", "c"}
	if depth == 0 {
		return atoms[dice.IntN(len(atoms))]
	}
	x, y := randomLogic(dice, depth-dice.IntN(depth)-1), randomLogic(dice, depth-1)
	switch dice.IntN(12) {
	case 0:
		return "(not " + x + ")"
	case 1:
		return "(" + x + " == " + y + ")"
	case 2, 3, 4:
		return "(" + x + " or " + y + ")"
	}
	return "(" + x + " and " + y + ")"
}
