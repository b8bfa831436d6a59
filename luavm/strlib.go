package luavm

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The string library (lstrlib.c). Strings are bytes; letters are those of ASCII.

var stringLibrary = []libFunc{
	{"byte", byteFunc}, {"char", charFunc}, {"dump", dump}, {"find", func(c libCall) int { return find(c, true) }},
	{"format", format}, {"gfind", gmatch}, {"gmatch", gmatch}, {"gsub", gsub}, {"len", lenFunc}, {"lower", lowerFunc},
	{"match", func(c libCall) int { return find(c, false) }}, {"rep", rep}, {"reverse", reverse}, {"sub", sub}, {"upper", upperFunc},
}

// openString makes the table of the library string.
func openString(L *lua.LState, b *budget) *lua.LTable { return newLibrary(L, b, stringLibrary) }

// position is posrelat: a negative one counts from the end.
func position(pos int64, length int) int64 {
	if pos < 0 {
		pos += int64(length) + 1
	}
	return max(pos, 0)
}

func lenFunc(c libCall) int { return c.pushNumber(float64(len(c.text(1)))) }

func sub(c libCall) int {
	s := c.text(1)
	from := max(position(c.integer(2), len(s)), 1)
	to := min(position(c.optInteger(3, -1), len(s)), int64(len(s)))
	if from > to {
		return c.pushText("")
	}
	return c.pushText(s[from-1 : to]) // shares the bytes of s
}

func reverse(c libCall) int {
	s := c.text(1)
	c.need(len(s))
	b := make([]byte, len(s))
	for i := range b {
		b[i] = s[len(s)-1-i]
	}
	return c.pushText(string(b))
}

func lowerFunc(c libCall) int { return mapBytes(c, 'A', 'Z') }
func upperFunc(c libCall) int { return mapBytes(c, 'a', 'z') }

// mapBytes flips the case of the letters from first to last.
func mapBytes(c libCall, first, last byte) int {
	s := c.text(1)
	c.need(2 * len(s))
	b := []byte(s)
	for i, x := range b {
		if x >= first && x <= last {
			b[i] = x ^ 0x20
		}
	}
	return c.pushText(string(b))
}

func rep(c libCall) int {
	s, n := c.text(1), c.small(2)
	if n <= 0 || s == "" {
		return c.pushText("")
	}
	if n > math.MaxInt/len(s) {
		n = math.MaxInt / len(s)
	}
	c.need(n * len(s))
	return c.pushText(strings.Repeat(s, n))
}

func byteFunc(c libCall) int {
	s := c.text(1)
	from := position(c.optInteger(2, 1), len(s))
	to := min(position(c.optInteger(3, from), len(s)), int64(len(s)))
	from = max(from, 1)
	if from > to {
		return 0
	}
	n := int(to - from + 1)
	c.checkStack(c.L.GetTop(), n, "string slice too long")
	c.charge(n)
	for i := range n {
		c.L.Push(lua.LNumber(s[int(from)-1+i]))
	}
	return n
}

func charFunc(c libCall) int {
	n := c.L.GetTop()
	c.need(2 * n)
	b := make([]byte, n)
	for i := range b {
		code := c.small(i + 1)
		if code < 0 || code > 255 {
			c.argError(i+1, "invalid value")
		}
		b[i] = byte(code)
	}
	return c.pushText(string(b))
}

func dump(c libCall) int {
	c.function(1)
	c.fail("unable to dump given function")
	return 0
}

// specials are the characters that make a pattern more than a text.
const specials = "^$*+?.([%-"

// find is string.find, and string.match where indexes are not wanted.
func find(c libCall, indexes bool) int {
	s, p := c.text(1), c.text(2)
	init := position(c.optInteger(3, 1), len(s)) - 1
	start := int(min(max(init, 0), int64(len(s))))
	if indexes && (lua.LVAsBool(c.L.Get(4)) || !strings.ContainsAny(p, specials)) {
		// Searching is a comparison at each place in the worst case.
		c.charge((len(s)-start)/16 + len(p)/16)
		if i := strings.Index(s[start:], p); i >= 0 {
			return c.push(lua.LNumber(start+i+1), lua.LNumber(start+i+len(p)))
		}
		return c.push(lua.LNil)
	}
	m := &matcher{c: c, src: s, pat: p}
	pattern, anchored := 0, strings.HasPrefix(p, "^")
	if anchored {
		pattern = 1
	}
	from, to := m.find(start, pattern, anchored)
	if from < 0 {
		return c.push(lua.LNil)
	}
	if indexes {
		return c.push(lua.LNumber(from+1), lua.LNumber(to)) + m.push(from, to, false)
	}
	return m.push(from, to, true)
}

func gmatch(c libCall) int {
	s, p := c.text(1), c.text(2)
	c.need(closureBytes)
	pos := 0
	return c.push(c.b.function(c.L, func(c libCall) int {
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

func gsub(c libCall) int {
	src, p := c.text(1), c.text(2)
	pattern, anchored := 0, strings.HasPrefix(p, "^")
	if anchored {
		pattern = 1
	}
	replace := replacement(c)
	most := c.optInteger(4, int64(len(src))+1)
	most = int64(int32(most))
	m := &matcher{c: c, src: src, pat: p}
	out := libBuffer{c: c}
	n, pos := int64(0), 0
	for n < most {
		m.level = 0
		end := m.match(pos, pattern)
		m.settle()
		if end >= 0 {
			n++
			replace(m, &out, pos, end)
		}
		switch {
		case end > pos:
			pos = end
		case pos < len(src):
			out.addByte(src[pos])
			pos++
		default:
			pos++
		}
		if pos > len(src) || anchored {
			break
		}
	}
	if pos < len(src) {
		out.add(src[pos:])
	}
	return out.push() + c.pushNumber(float64(n))
}

// replacement makes what gsub does with a match, by the type of argument 3.
func replacement(c libCall) func(m *matcher, out *libBuffer, start, end int) {
	switch r := c.L.Get(3).(type) {
	case lua.LNumber, lua.LString:
		text, _ := asText(r)
		return func(m *matcher, out *libBuffer, start, end int) { m.expand(out, text, start, end) }
	case *lua.LFunction:
		return func(m *matcher, out *libBuffer, start, end int) {
			c.L.Push(r)
			c.callStack(m.push(start, end, true), 1)
			value := c.L.Get(-1)
			c.L.Pop(1)
			m.substitute(out, value, start, end)
		}
	case *lua.LTable:
		return func(m *matcher, out *libBuffer, start, end int) {
			m.substitute(out, c.index(r, m.value(0, start, end)), start, end)
		}
	}
	c.argError(3, "string/function/table expected")
	return nil
}

// expand writes a replacement text with its %0 to %9.
func (m *matcher) expand(out *libBuffer, text string, start, end int) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.addByte(text[i])
			continue
		}
		i++
		switch {
		case i >= len(text):
			out.addByte(0) // C reads the string's closing byte
		case text[i] == '0':
			out.add(m.src[start:end])
		case text[i] >= '1' && text[i] <= '9':
			value, _ := asText(m.value(int(text[i]-'1'), start, end))
			out.add(value)
		default:
			out.addByte(text[i])
		}
	}
}

// substitute writes a replacement value; nil and false keep the match.
func (m *matcher) substitute(out *libBuffer, value lua.LValue, start, end int) {
	if lua.LVIsFalse(value) {
		out.add(m.src[start:end])
		return
	}
	text, ok := asText(value)
	if !ok {
		m.c.fail("%s", fmt.Sprintf("invalid replacement value (a %s)", typeName(value)))
	}
	out.add(text)
}
