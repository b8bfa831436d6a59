package luavm

import (
	"slices"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// A straight script has no loop, no function and no table of its own: it compares, calls commands and returns.
// Scripts that take, renew and free locks are straight. Type straight runs their code without a Lua state, as far as
// it can: rare cases (an error, a limit, a table among the replies) it gives up, and gopher-lua runs the script again
// from the top. Commands that have run by then are not run again: a script is a function of the replies it gets, so
// it makes the same calls, and gets the same replies from memory; a script that makes other calls is ended. So this
// file has to count costs only for scripts that end well, and FuzzStraight checks that they equal those of
// gopher-lua.
type straight struct {
	keys, argv []string
	call       resp.ScriptCall
	steps      int64 // left, as in lauxlib.Budget
	bytes      int64 // left
	constants  []value
	registers  [straightRegistersMax]value
	top        int  // the register above the results of an open call
	inCommand  bool // a command is running

	called []answered // the commands that have run, with their replies
}

// answered is a call, its reply, and the steps left after it.
type answered struct {
	args  resp.Args
	reply resp.Reply
	left  int64
}

// errReplay ends a script that makes other calls when it is run again. Its changes are taken back.
const errReplay = "ERR Script stopped: internal error: it made other calls when it was run again"

// runStraight runs a script; ok is false if it gave up. Then runAgain has to follow.
func (v *VM) runStraight(
	code *straightCode, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall,
) (reply resp.Reply, left resp.ScriptLimits, ok bool) {
	s := &v.straight
	s.keys, s.argv, s.call, s.constants = keys, argv, call, code.constants
	s.steps, s.bytes = lim.Steps, lim.MemBytes
	defer func() {
		r := recover()
		if r != nil && s.inCommand {
			s.inCommand, s.called = false, nil
			panic(commandPanic(r))
		}
		ok = ok && r == nil // a fault of this file ends in gopher-lua too
	}()
	result, ok := s.run(code.ops)
	if ok {
		reply, ok = s.toReply(result)
	}
	s.keys, s.argv, s.call = nil, nil, nil
	if !ok || s.steps < 0 || s.bytes < 0 {
		return resp.Reply{}, lim, false
	}
	clear(s.called)
	s.called = s.called[:0]
	return reply, resp.ScriptLimits{Steps: s.steps, MemBytes: s.bytes}, true
}

// rerun is the second run of a script that runStraight gave up.
type rerun struct {
	done []answered // the calls to repeat
	call resp.ScriptCall
	stop func(text string) // ends the run
}

// again answers a repeated call from memory, and makes the calls after those.
func (r *rerun) again(args resp.Args, left int64) (resp.Reply, int64) {
	if len(r.done) == 0 {
		return r.call(args, left)
	}
	first := r.done[0]
	if !slices.Equal(args, first.args) {
		r.stop(errReplay)
		return resp.Err(errReplay), left
	}
	r.done = r.done[1:]
	return first.reply, first.left
}

// runAgain runs a script from the top that runStraight gave up.
func (v *VM) runAgain(
	p *program, sha string, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall,
) (reply resp.Reply, left resp.ScriptLimits, limited bool) {
	r := rerun{done: v.straight.called, call: call, stop: v.budget.Stop}
	v.straight.called = nil
	reply, left, limited = v.interpret(p, sha, keys, argv, lim, r.again)
	if len(r.done) > 0 && !limited {
		return resp.Err(errReplay), left, true
	}
	return reply, left, limited
}

// run executes the code; false if it gives up.
func (s *straight) run(ops []straightOp) (value, bool) {
	clear(s.registers[:])
	r := &s.registers
	for pc := 0; ; {
		op := &ops[pc]
		pc++
		s.steps--
		switch op.code {
		case opLoad:
			r[op.a] = s.constants[op.b]
		case lua.OP_GETTABLEKS:
			if r[op.b].kind != isRedis {
				return value{}, false
			}
			r[op.a] = s.constants[op.c]
		case lua.OP_GETTABLE:
			item, ok := s.item(r[op.b].kind, s.operand(op.c))
			if !ok {
				return value{}, false
			}
			r[op.a] = item
		case lua.OP_MOVE:
			r[op.a] = r[op.b]
		case lua.OP_MOVEN: // several instructions for one step
			r[op.a] = r[op.b]
			for n := op.c; n > 0; n-- {
				r[ops[pc].a] = r[ops[pc].b]
				pc++
			}
		case lua.OP_LOADNIL:
			clear(r[op.a : op.b+1])
		case lua.OP_LOADBOOL:
			r[op.a] = boolean(op.b != 0)
			if op.c != 0 {
				pc++
			}
		case lua.OP_NOT:
			r[op.a] = boolean(!r[op.b].truth())
		case lua.OP_ADD, lua.OP_SUB, lua.OP_MUL, lua.OP_DIV:
			result, ok := s.arithmetic(op.code, s.operand(op.b), s.operand(op.c))
			if !ok {
				return value{}, false
			}
			r[op.a] = number(result)
		case lua.OP_JMP:
			pc += op.b
		case lua.OP_EQ, lua.OP_LT, lua.OP_LE:
			holds, ok := compare(op.code, s.operand(op.b), s.operand(op.c))
			if !ok {
				return value{}, false
			}
			if holds != (op.a != 0) {
				pc++
			}
		case lua.OP_TEST:
			if r[op.a].truth() != (op.c != 0) {
				pc++
			}
		case lua.OP_TESTSET:
			if r[op.b].truth() == (op.c != 0) {
				r[op.a] = r[op.b]
			} else {
				pc++
			}
		case lua.OP_CALL:
			result, ok := s.callOf(op)
			if !ok {
				return value{}, false
			}
			s.top = op.a + 1
			if op.c != 1 {
				r[op.a] = result
			}
			if op.c > 2 {
				clear(r[op.a+1 : op.a+op.c-1])
			}
		case lua.OP_TAILCALL:
			return s.callOf(op)
		case lua.OP_RETURN:
			if op.b == 1 {
				return value{}, true
			}
			return r[op.a], true
		}
	}
}

// operand returns a register or a constant.
func (s *straight) operand(i int) *value {
	if i < 0 {
		return &s.constants[^i]
	}
	return &s.registers[i]
}

// item returns KEYS[i] or ARGV[i].
func (s *straight) item(of kind, index *value) (value, bool) {
	items := s.keys
	switch {
	case index.kind != isNumber || of != isKeys && of != isArgv:
		return value{}, false
	case of == isArgv:
		items = s.argv
	}
	if f := index.number; f >= 1 && f <= float64(len(items)) && f == float64(int(f)) {
		return text(items[int(f)-1]), true
	}
	return value{}, true
}

// compare executes an instruction that compares, one operand of which is a constant or a number.
func compare(code int, a, b *value) (holds, ok bool) {
	switch {
	case code == lua.OP_EQ:
		return equal(a, b)
	case a.kind != isNumber || b.kind != isNumber:
		return false, false
	case code == lua.OP_LT:
		return a.number < b.number, true
	}
	return a.number <= b.number, true
}

// equal evaluates a == b, unless both are tables or functions.
func equal(a, b *value) (holds, ok bool) {
	return *a == *b, a.kind <= isText || b.kind <= isText
}

// arithmetic evaluates an operator; a string counts as the number that it shows.
func (s *straight) arithmetic(code int, a, b *value) (result float64, ok bool) {
	x, ok1 := s.toNumber(a)
	y, ok2 := s.toNumber(b)
	switch code {
	case lua.OP_ADD:
		result = x + y
	case lua.OP_SUB:
		result = x - y
	case lua.OP_MUL:
		result = x * y
	case lua.OP_DIV:
		result = x / y
	}
	if a.kind == isText || b.kind == isText {
		result = libc.NaNLikeX86(result, x, y)
	}
	return result, ok1 && ok2
}

// toNumber is lauxlib.Call.AsNumber.
func (s *straight) toNumber(v *value) (float64, bool) {
	switch v.kind {
	case isNumber:
		return v.number, true
	case isText:
		if !s.touch(lauxlib.NumeralPrice * len(v.text)) {
			return 0, false
		}
		f, ok := libc.ParseNumber(v.text)
		if libc.IsTiny(f, v.text) {
			s.steps = -1 // gives up: it has a price of its own
		}
		return f, ok
	}
	return 0, false
}

// charge takes steps; false if there are not enough.
func (s *straight) charge(steps int) bool {
	s.steps -= int64(steps)
	return s.steps >= 0
}

// touch is lauxlib.Call.Touch.
func (s *straight) touch(bytes int) bool { return s.charge(1 + bytes/16) }

// need is lauxlib.Call.Need.
func (s *straight) need(bytes int) bool {
	s.bytes -= int64(bytes)
	return s.touch(bytes) && s.bytes >= 0
}

// callOf calls the function in register a. Each has one result.
func (s *straight) callOf(op *straightOp) (value, bool) {
	end := op.a + op.b
	if op.b == 0 {
		end = s.top
	}
	args := s.registers[op.a+1 : end]
	switch of := s.registers[op.a].kind; {
	case of == isCall:
		return s.command(args)
	case of == isConcat:
		return s.concat(args)
	case len(args) == 1 && of == isToNumber:
		if f, ok := s.toNumber(&args[0]); ok {
			return number(f), true
		}
		return value{}, s.steps >= 0
	case len(args) == 2:
		return s.relation(of, &args[0], &args[1])
	}
	return value{}, false
}

// relation evaluates an intrinsic that compares.
func (s *straight) relation(of kind, a, b *value) (value, bool) {
	var holds, ok bool
	switch of {
	case isEqual:
		if a.kind == isText && b.kind == isText && len(a.text) == len(b.text) && !s.charge(len(a.text)/64) {
			return value{}, false
		}
		holds, ok = equal(a, b)
	case isLess:
		holds, ok = compare(lua.OP_LT, a, b)
	case isLessEqual:
		holds, ok = compare(lua.OP_LE, a, b)
	case isGreater:
		holds, ok = compare(lua.OP_LT, b, a)
	case isGreaterEqual:
		holds, ok = compare(lua.OP_LE, b, a)
	}
	return boolean(holds), ok
}

// concat evaluates "..".
func (s *straight) concat(args []value) (value, bool) {
	var room [8]string
	parts, size := room[:0], 0
	for i := range args {
		switch v := &args[i]; v.kind {
		case isText:
			parts = append(parts, v.text)
		case isNumber:
			parts = append(parts, libc.FormatNumber(v.number))
		default:
			return value{}, false
		}
		size += len(parts[i])
	}
	if !s.need(size) {
		return value{}, false
	}
	return text(strings.Join(parts, "")), true
}

// command implements redis.call and redis.pcall.
func (s *straight) command(given []value) (value, bool) {
	args := make(resp.Args, len(given))
	size := 0
	for i := range given {
		switch v := &given[i]; v.kind {
		case isText:
			args[i] = v.text
		case isNumber:
			args[i] = formatArgument(v.number)
		default:
			return value{}, false
		}
		size += len(args[i])
	}
	if len(args) == 0 || !s.charge(len(args)+callSteps+size/16) {
		return value{}, false
	}
	s.inCommand = true
	reply, left := s.call(args, s.steps)
	s.inCommand = false
	s.steps = left
	s.called = append(s.called, answered{args, reply, left})
	if left < 0 {
		return value{}, false
	}
	return s.fromReply(&reply)
}

// fromReply is converter.fromReply for RESP2; false for errors and arrays.
func (s *straight) fromReply(r *resp.Reply) (value, bool) {
	switch r.Kind {
	case resp.KindInt, resp.KindBool:
		return number(float64(r.Int)), true
	case resp.KindNil, resp.KindNilArray:
		return boolean(false), true
	case resp.KindBulk:
		return text(r.Str), s.need(len(r.Str))
	case resp.KindStatus:
		return value{kind: isStatus, text: r.Str}, s.need(lauxlib.TableBytes+lauxlib.EntryBytes) && s.need(len(r.Str))
	}
	return value{}, false
}

// toReply is converter.toReply for the value that a straight script returns.
func (s *straight) toReply(v value) (resp.Reply, bool) {
	s.charge(1)
	switch v.kind {
	case isNil:
		return resp.Nil(), true
	case isBool:
		if v.number != 0 {
			return resp.Int(1), true
		}
		return resp.Nil(), true
	case isNumber:
		return resp.Int(libc.Int64(v.number)), true
	case isText:
		return resp.Bulk(v.text), true
	case isStatus:
		return resp.Status(libc.CString(v.text)), true
	}
	return resp.Reply{}, false
}
