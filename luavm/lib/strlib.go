package lib

import (
	"math"
	"strings"

	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// The string library (lstrlib.c). Strings are bytes; letters are those of ASCII.

var stringLibrary = []lauxlib.Func{
	{"byte", byteFunc}, {"char", charFunc}, {"dump", dump}, {"find", func(c lauxlib.Call) int { return find(c, true) }},
	{"format", format}, {"gfind", gmatch}, {"gmatch", gmatch}, {"gsub", gsub}, {"len", lenFunc}, {"lower", lowerFunc},
	{"match", func(c lauxlib.Call) int { return find(c, false) }},
	{"rep", rep}, {"reverse", reverse}, {"sub", sub}, {"upper", upperFunc},
}

// OpenString returns the table of the library string.
func OpenString(L *lua.LState, b *lauxlib.Budget) *lua.LTable {
	return lauxlib.NewLibrary(L, b, stringLibrary)
}

// position is posrelat: a negative one counts from the end.
func position(pos int64, length int) int64 {
	if pos < 0 {
		pos += int64(length) + 1
	}
	return max(pos, 0)
}

func lenFunc(c lauxlib.Call) int { return c.PushNumber(float64(len(c.Arg(1).Text()))) }

func sub(c lauxlib.Call) int {
	s := c.Arg(1).Text()
	from := max(position(c.Arg(2).Integer(), len(s)), 1)
	to := min(position(c.Arg(3).OptInteger(-1), len(s)), int64(len(s)))
	if from > to {
		return c.PushText("")
	}
	return c.PushText(s[from-1 : to]) // shares the bytes of s
}

func reverse(c lauxlib.Call) int {
	s := c.Arg(1).Text()
	c.Need(len(s))
	b := make([]byte, len(s))
	for i := range b {
		b[i] = s[len(s)-1-i]
	}
	return c.PushText(string(b))
}

func lowerFunc(c lauxlib.Call) int { return mapBytes(c, 'A', 'Z') }

func upperFunc(c lauxlib.Call) int { return mapBytes(c, 'a', 'z') }

// mapBytes flips the case of the letters from first to last.
func mapBytes(c lauxlib.Call, first, last byte) int {
	s := c.Arg(1).Text()
	c.Need(2 * len(s))
	b := []byte(s)
	for i, x := range b {
		if x >= first && x <= last {
			b[i] = x ^ 0x20
		}
	}
	return c.PushText(string(b))
}

func rep(c lauxlib.Call) int {
	s, n := c.Arg(1).Text(), c.Arg(2).Small()
	if n <= 0 || s == "" {
		return c.PushText("")
	}
	if n > math.MaxInt/len(s) {
		n = math.MaxInt / len(s)
	}
	c.Need(n * len(s))
	return c.PushText(strings.Repeat(s, n))
}

func byteFunc(c lauxlib.Call) int {
	s := c.Arg(1).Text()
	from := position(c.Arg(2).OptInteger(1), len(s))
	to := min(position(c.Arg(3).OptInteger(from), len(s)), int64(len(s)))
	from = max(from, 1)
	if from > to {
		return 0
	}
	n := int(to - from + 1)
	c.CheckStack(c.L.GetTop(), n, "string slice too long")
	c.Charge(n)
	for i := range n {
		c.L.Push(lua.LNumber(s[int(from)-1+i]))
	}
	return n
}

func charFunc(c lauxlib.Call) int {
	n := c.L.GetTop()
	c.Need(2 * n)
	b := make([]byte, n)
	for i := range b {
		code := c.Arg(i + 1).Small()
		if code < 0 || code > 255 {
			c.Arg(i + 1).Fail("invalid value")
		}
		b[i] = byte(code)
	}
	return c.PushText(string(b))
}

func dump(c lauxlib.Call) int {
	c.Arg(1).Function()
	c.Fail("unable to dump given function")
	return 0
}

// specials are the characters that make a text a pattern.
const specials = "^$*+?.([%-"

// find is string.find, and string.match if indexes is false.
func find(c lauxlib.Call, indexes bool) int {
	s, p := c.Arg(1).Text(), c.Arg(2).Text()
	init := position(c.Arg(3).OptInteger(1), len(s)) - 1
	start := int(min(max(init, 0), int64(len(s))))
	if indexes && (lua.LVAsBool(c.L.Get(4)) || !strings.ContainsAny(p, specials)) {
		// Searching is a comparison at each place in the worst case.
		c.Charge((len(s)-start)/16 + len(p)/16)
		if i := strings.Index(s[start:], p); i >= 0 {
			return c.Push(lua.LNumber(start+i+1), lua.LNumber(start+i+len(p)))
		}
		return c.Push(lua.LNil)
	}
	m := &matcher{c: c, src: s, pat: p}
	pattern, anchored := 0, strings.HasPrefix(p, "^")
	if anchored {
		pattern = 1
	}
	from, to := m.find(start, pattern, anchored)
	if from < 0 {
		return c.Push(lua.LNil)
	}
	if indexes {
		return c.Push(lua.LNumber(from+1), lua.LNumber(to)) + m.push(from, to, false)
	}
	return m.push(from, to, true)
}

func gmatch(c lauxlib.Call) int {
	s, p := c.Arg(1).Text(), c.Arg(2).Text()
	c.Need(lauxlib.FunctionBytes)
	pos := 0
	return c.Push(c.Budget.Function(c.L, func(c lauxlib.Call) int {
		m := &matcher{c: c, src: s, pat: p}
		from, to := m.find(pos, 0, false)
		if from < 0 {
			pos = len(s) + 1
			return 0
		}
		pos = to
		if to == from {
			pos++
		}
		return m.push(from, to, true)
	}))
}

func gsub(c lauxlib.Call) int {
	src, p := c.Arg(1).Text(), c.Arg(2).Text()
	pattern, anchored := 0, strings.HasPrefix(p, "^")
	if anchored {
		pattern = 1
	}
	replace := replacement(c)
	most := c.Arg(4).OptInteger(int64(len(src)) + 1)
	most = int64(int32(most))
	m := &matcher{c: c, src: src, pat: p}
	out := lauxlib.Buffer{C: c}
	n, pos := int64(0), 0
	for n < most {
		m.level = 0
		end := m.match(pos, pattern)
		m.chargeRest()
		if end >= 0 {
			n++
			replace(m, &out, pos, end)
		}
		switch {
		case end > pos:
			pos = end
		case pos < len(src):
			out.AddByte(src[pos])
			pos++
		default:
			pos++
		}
		if pos > len(src) || anchored {
			break
		}
	}
	if pos < len(src) {
		out.Add(src[pos:])
	}
	return out.Push() + c.PushNumber(float64(n))
}

// replacement returns the action of gsub for a match, by the type of argument 3.
func replacement(c lauxlib.Call) func(m *matcher, out *lauxlib.Buffer, start, end int) {
	switch r := c.L.Get(3).(type) {
	case lua.LNumber, lua.LString:
		text, _ := lauxlib.AsText(r)
		return func(m *matcher, out *lauxlib.Buffer, start, end int) { m.expand(out, text, start, end) }
	case *lua.LFunction:
		return func(m *matcher, out *lauxlib.Buffer, start, end int) {
			c.L.Push(r)
			c.CallStack(m.push(start, end, true), 1)
			value := c.L.Get(-1)
			c.L.Pop(1)
			m.substitute(out, value, start, end)
		}
	case *lua.LTable:
		return func(m *matcher, out *lauxlib.Buffer, start, end int) {
			m.substitute(out, c.Index(r, m.value(0, start, end)), start, end)
		}
	}
	c.Arg(3).Fail("string/function/table expected")
	return nil
}
