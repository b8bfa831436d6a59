package luavm

import (
	"context"
	"fmt"

	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// budget is what one run of a script may still use. One belongs to each VM; it
// is filled anew for each run.
//
// It is also the context of the Lua state. gopher-lua asks a context for Done
// exactly once before every instruction, so counting those calls is an exact
// budget, the same on every node, with no clock in it.
//
// A spent budget stays spent: each further instruction and each further charge
// raises the error again, and our pcall hands it on, so no script survives it.
type budget struct {
	context.Context // the background context: deadline and values are never asked for

	steps int64 // left
	bytes int64 // left
	price int64 // of one instruction, in steps: 1, and more in what follows
	chain int64 // more for the longest chain of tables (chains.go)
	open  int64 // more for the open upvalues (closureOp)
	limit resp.ScriptLimits
	spent string // the error that names the limit met; "" as long as none is

	chunks map[string]*chunk // compiled chunks by their key, to explain errors
	thrown lua.LValue        // what raise is raising
	run    uint64            // counts the runs, so that what a run sets can end with it
	nested int               // calls from Go into Lua that run within each other
}

// newBudget returns an empty budget; fill makes it usable.
func newBudget() *budget { return &budget{Context: context.Background()} }

// fill prepares the budget for a run within lim.
func (b *budget) fill(lim resp.ScriptLimits) {
	b.steps, b.bytes, b.limit, b.spent = lim.Steps, lim.MemBytes, lim, ""
	b.price, b.chain, b.open, b.nested = 1, 0, 0, 0
	b.run++
}

// left is what a run has not used of its limits.
func (b *budget) left() resp.ScriptLimits {
	return resp.ScriptLimits{Steps: max(b.steps, 0), MemBytes: max(b.bytes, 0)}
}

// suspend gives a budget of its own to what the machine does for itself, until the function that
// it returns is called.
func (b *budget) suspend() (restore func()) {
	was := *b
	b.fill(resp.ScriptLimits{Steps: 1 << 20, MemBytes: 1 << 20})
	return func() { *b = was }
}

// stepsLeft is how many steps are left; setSteps sets that.
func (b *budget) stepsLeft() int64 { return b.steps }

func (b *budget) setSteps(steps int64) { b.steps = steps }

// take takes steps and raises nothing: the next instruction or charge does.
func (b *budget) take(steps int) {
	b.steps -= int64(steps)
	if b.steps < 0 {
		b.spend(limitSteps)
	}
}

// takeBytes takes bytes and raises nothing: the next alloc does.
func (b *budget) takeBytes(bytes int) { b.bytes -= int64(bytes) }

// raiseChain lets each instruction cost at least so many steps more, for a chain of tables.
func (b *budget) raiseChain(steps int) {
	b.chain = max(b.chain, int64(steps))
	b.price = 1 + b.chain + b.open
}

// setOpen lets each instruction cost so many steps more, for open upvalues.
func (b *budget) setOpen(steps int) {
	b.open = int64(steps)
	b.price = 1 + b.chain + b.open
}

// limitMet is the error of the limit that ended the run; "" as long as there is none.
func (b *budget) limitMet() string { return b.spent }

// stop ends the run as a limit does, with an error of its own.
func (b *budget) stop(text string) { b.spent = text }

// over is a closed channel: the answer of Done once the steps are used up.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done counts one instruction.
func (b *budget) Done() <-chan struct{} {
	b.steps -= b.price
	if b.steps >= 0 && b.spent == "" {
		return nil
	}
	b.spend(limitSteps)
	return over
}

// Err is the text of the error that gopher-lua raises after Done said so.
func (b *budget) Err() error { return b }

// Error names the limit met.
func (b *budget) Error() string { return b.spent }

// The limits a budget can meet, as its errors name them.
const (
	limitSteps = "steps"
	limitBytes = "bytes of memory"
)

func (b *budget) spend(what string) {
	if b.spent != "" {
		return
	}
	most := max(b.limit.Steps, b.limit.StepsOf)
	if what == limitBytes {
		most = b.limit.MemBytes
	}
	b.spent = fmt.Sprintf("ERR Script stopped: it needs more than its limit of %d %s", most, what)
}

// charge takes steps for work that one instruction cannot stand for: as a rule
// one step for each element and each 16 bytes touched. Where the budget is
// spent it raises an error that no pcall catches.
func (b *budget) charge(L *lua.LState, steps int) {
	if steps > 0 {
		b.steps -= int64(steps)
	}
	if b.steps < 0 || b.spent != "" {
		b.spend(limitSteps)
		b.raise(L, lua.LString(b.spent))
	}
}

// alloc takes bytes for a string or table that is about to be built. It must
// come before the allocation that it stands for. What the garbage collector
// frees is not given back: the budget bounds what a script builds in all.
func (b *budget) alloc(L *lua.LState, bytes int) {
	if bytes > 0 {
		b.bytes -= int64(bytes)
	}
	if b.bytes < 0 || b.spent != "" {
		b.spend(limitBytes)
		b.raise(L, lua.LString(b.spent))
	}
}

// raise raises an error as it is. Only what does not come through here is a message
// of gopher-lua's own, which raised translates: a script may write what it likes.
func (b *budget) raise(L *lua.LState, object lua.LValue) {
	b.thrown = object
	L.Error(object, 0)
}

// caught reports whether an error was raised by raise.
func (b *budget) caught(object lua.LValue) bool {
	ours := object == b.thrown
	b.thrown = nil
	return ours
}
