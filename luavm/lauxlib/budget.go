package lauxlib

import (
	"context"
	"fmt"

	"lockd/luavm/compiler"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// Budget is the rest of the limits of one run of a script. Each VM has one and fills it for each run. It is not safe
// for concurrent use.
//
// It is also the context of the Lua state. gopher-lua asks a context for Done
// exactly once before every instruction, so counting those calls is an exact
// budget, the same on every node, with no clock in it.
//
// A spent budget stays spent: each further instruction and each further charge raises the error again, and our pcall
// passes it on, so no script survives it.
type Budget struct {
	context.Context // the background context: deadline and values are never used

	steps int64 // the rest
	bytes int64 // the rest
	price int64 // of one instruction, in steps: 1 + chain + open
	chain int64 // surcharge for the longest chain of tables
	open  int64 // surcharge for the open upvalues
	limit resp.ScriptLimits
	spent string // the error that names the limit met; "" if none is

	Chunks map[string]*compiler.Chunk // compiled chunks by their key, to explain errors
	thrown lua.LValue                 // the last error raised by raise
	runs   uint64                     // how many times the budget was filled
	nested int                        // calls from Go into Lua in progress, one within the other
}

// NewBudget returns an empty budget; Fill makes it usable.
func NewBudget() *Budget { return &Budget{Context: context.Background()} }

// Fill prepares the budget for a run within lim.
func (b *Budget) Fill(lim resp.ScriptLimits) {
	b.steps, b.bytes, b.limit, b.spent = lim.Steps, lim.MemBytes, lim, ""
	b.price, b.chain, b.open, b.nested = 1, 0, 0, 0
	b.runs++
}

// Run returns the number of the run. A library compares it to discard the settings of an earlier run.
func (b *Budget) Run() uint64 { return b.runs }

// Left returns the rest of the run's limits.
func (b *Budget) Left() resp.ScriptLimits {
	return resp.ScriptLimits{Steps: max(b.steps, 0), MemBytes: max(b.bytes, 0)}
}

// Suspend makes work free for the run until restore is called.
func (b *Budget) Suspend() (restore func()) {
	was := *b
	b.Fill(resp.ScriptLimits{Steps: 1 << 20, MemBytes: 1 << 20})
	return func() { *b = was }
}

// StepsLeft returns the steps left.
func (b *Budget) StepsLeft() int64 { return b.steps }

// SetSteps sets the steps left. It raises no error: the next charge does.
func (b *Budget) SetSteps(steps int64) { b.steps = steps }

// Take takes steps. It raises no error: the next instruction or charge does.
func (b *Budget) Take(steps int) {
	b.steps -= int64(steps)
	if b.steps < 0 {
		b.spend(LimitSteps)
	}
}

// TakeBytes takes bytes. It raises no error: the next alloc does.
func (b *Budget) TakeBytes(bytes int) { b.bytes -= int64(bytes) }

// RaiseChain raises the surcharge on each instruction to at least steps, for a chain of tables.
func (b *Budget) RaiseChain(steps int) {
	b.chain = max(b.chain, int64(steps))
	b.price = 1 + b.chain + b.open
}

// SetOpen sets the surcharge on each instruction, for the open upvalues.
func (b *Budget) SetOpen(steps int) {
	b.open = int64(steps)
	b.price = 1 + b.chain + b.open
}

// LimitMet returns the error of the limit that ended the run; "" if none did.
func (b *Budget) LimitMet() string { return b.spent }

// Stop ends the run as a limit does, with another error.
func (b *Budget) Stop(text string) { b.spent = text }

// over is a closed channel: Done returns it once the steps are used up.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done counts one instruction.
func (b *Budget) Done() <-chan struct{} {
	b.steps -= b.price
	if b.steps >= 0 && b.spent == "" {
		return nil
	}
	b.spend(LimitSteps)
	return over
}

// Err returns the error that gopher-lua raises when Done is closed.
func (b *Budget) Err() error { return b }

// Error names the limit met.
func (b *Budget) Error() string { return b.spent }

// The limits of a budget, as its errors name them.
const (
	LimitSteps = "steps"
	LimitBytes = "bytes of memory"
)

func (b *Budget) spend(what string) {
	if b.spent != "" {
		return
	}
	most := max(b.limit.Steps, b.limit.StepsOf)
	if what == LimitBytes {
		most = b.limit.MemBytes
	}
	b.spent = fmt.Sprintf("ERR Script stopped: it needs more than its limit of %d %s", most, what)
}

func (b *Budget) charge(L *lua.LState, steps int) {
	if steps > 0 {
		b.steps -= int64(steps)
	}
	if b.steps < 0 || b.spent != "" {
		b.spend(LimitSteps)
		b.raise(L, lua.LString(b.spent))
	}
}

func (b *Budget) alloc(L *lua.LState, bytes int) {
	if bytes > 0 {
		b.bytes -= int64(bytes)
	}
	if b.bytes < 0 || b.spent != "" {
		b.spend(LimitBytes)
		b.raise(L, lua.LString(b.spent))
	}
}

// raise raises an error as it is. Errors not raised here are messages of gopher-lua's own, which are translated; a
// script's are not.
func (b *Budget) raise(L *lua.LState, object lua.LValue) {
	b.thrown = object
	L.Error(object, 0)
}

// Caught reports whether an error being raised came through raise, and forgets it.
func (b *Budget) Caught(object lua.LValue) bool {
	ours := object == b.thrown
	b.thrown = nil
	return ours
}
