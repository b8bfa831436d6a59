package lib

import (
	"fmt"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// Lua 5.1's pattern matcher (lstrlib.c), with a cost for each step and a bound on its depth: a pattern of a few bytes
// can demand exponential work.

const (
	capturesMax   = 32
	matchDepthMax = 200 // MAXCCALLS of Lua 5.2 and later; 5.1 has none and crashes
	matchBatch    = 64  // steps that are charged at once
)

// Special lengths of captures.
const (
	captureOpen     = -1
	capturePosition = -2
)

type capture struct{ start, length int }

// matcher matches one pattern against one string. Positions are offsets; -1 is
// no match.
type matcher struct {
	c        lauxlib.Call
	src, pat string
	level    int // captures, finished or not
	captures [capturesMax]capture
	depth    int
	steps    int
}

// step counts one step of matching.
func (m *matcher) step() {
	if m.steps++; m.steps == matchBatch {
		m.steps = 0
		m.c.Charge(matchBatch)
	}
}

// chargeRest charges for the steps since the last batch.
func (m *matcher) chargeRest() {
	m.c.Charge(m.steps)
	m.steps = 0
}

// find matches at s, or with an unanchored pattern anywhere after it.
func (m *matcher) find(s int, pattern int, anchored bool) (start, end int) {
	defer m.chargeRest()
	for ; s <= len(m.src); s++ {
		m.level = 0
		if e := m.match(s, pattern); e >= 0 {
			return s, e
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > matchDepthMax {
		m.c.Fail("pattern too complex")
	}
	e := m.try(s, p)
	m.depth--
	return e
}

// try matches the pattern from p on at s.
func (m *matcher) try(s, p int) int {
	for {
		m.step()
		if p == len(m.pat) {
			return s
		}
		switch c := m.pat[p]; {
		case c == '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.startCapture(s, p+2, capturePosition)
			}
			return m.startCapture(s, p+1, captureOpen)
		case c == ')':
			return m.endCapture(s, p+1)
		case c == '%' && p+1 < len(m.pat) && m.pat[p+1] == 'b':
			if s = m.balanced(s, p+2); s < 0 {
				return -1
			}
			p += 4
			continue
		case c == '%' && p+1 < len(m.pat) && m.pat[p+1] == 'f':
			next, ok := m.frontier(s, p+2)
			if !ok {
				return -1
			}
			p = next
			continue
		case c == '%' && p+1 < len(m.pat) && libc.IsDigit(m.pat[p+1]):
			if s = m.back(s, m.pat[p+1]); s < 0 {
				return -1
			}
			p += 2
			continue
		case c == '$' && p+1 == len(m.pat):
			if s == len(m.src) {
				return s
			}
			return -1
		}
		end := m.classEnd(p)
		suffix := byte(0)
		if end < len(m.pat) {
			suffix = m.pat[end]
		}
		switch suffix {
		case '?':
			if m.single(s, p, end) {
				if e := m.match(s+1, end+1); e >= 0 {
					return e
				}
			}
			p = end + 1
		case '*':
			return m.maxExpand(s, p, end)
		case '+':
			if !m.single(s, p, end) {
				return -1
			}
			return m.maxExpand(s+1, p, end)
		case '-':
			return m.minExpand(s, p, end)
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
}

// classEnd returns the end of the single-character class at p.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p == len(m.pat) {
			m.c.Fail("malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for first := true; first || p >= len(m.pat) || m.pat[p] != ']'; first = false {
			m.step()
			if p >= len(m.pat) {
				m.c.Fail("malformed pattern (missing ']')")
			}
			c := m.pat[p]
			p++
			if c == '%' && p < len(m.pat) {
				p++
			}
		}
		return p + 1
	}
	return p
}

// single matches one character against the class from p to end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	switch c := m.src[s]; m.pat[p] {
	case '.':
		return true
	case '%':
		return classMatch(c, m.pat[p+1])
	case '[':
		return m.set(c, p, end-1)
	default:
		return m.pat[p] == c
	}
}

// set matches c against the set from p, its bracket, to the closing one at end.
func (m *matcher) set(c byte, p, end int) bool {
	p++
	positive := true
	if m.pat[p] == '^' {
		positive = false
		p++
	}
	for ; p < end; p++ {
		m.step()
		switch {
		case m.pat[p] == '%':
			p++
			if classMatch(c, m.pat[p]) {
				return positive
			}
		case p+2 < end && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return positive
			}
			p += 2
		case m.pat[p] == c:
			return positive
		}
	}
	return !positive
}

// classMatch matches c against %class.
func classMatch(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = libc.IsAlpha(c)
	case 'c':
		in = c < 0x20 || c == 0x7f
	case 'd':
		in = libc.IsDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'p':
		in = c > 0x20 && c < 0x7f && !libc.IsAlnum(c)
	case 's':
		in = strings.IndexByte(libc.Space, c) >= 0
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 'w':
		in = libc.IsAlnum(c)
	case 'x':
		in = libc.IsHexDigit(c)
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !libc.IsAlpha(class) {
		return class == c
	}
	return in == (class >= 'a')
}

func (m *matcher) maxExpand(s, p, end int) int {
	i := 0
	for m.single(s+i, p, end) {
		m.step()
		i++
	}
	for ; i >= 0; i-- {
		if e := m.match(s+i, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

func (m *matcher) minExpand(s, p, end int) int {
	for {
		if e := m.match(s, end+1); e >= 0 {
			return e
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) startCapture(s, p, what int) int {
	if m.level >= capturesMax {
		m.c.Fail("too many captures")
	}
	m.captures[m.level] = capture{s, what}
	m.level++
	e := m.match(s, p)
	if e < 0 {
		m.level--
	}
	return e
}

func (m *matcher) endCapture(s, p int) int {
	l := m.level - 1
	for ; l >= 0 && m.captures[l].length != captureOpen; l-- {
	}
	if l < 0 {
		m.c.Fail("invalid pattern capture")
	}
	m.captures[l].length = s - m.captures[l].start
	e := m.match(s, p)
	if e < 0 {
		m.captures[l].length = captureOpen
	}
	return e
}

// balanced matches %bxy, whose two characters are at p.
func (m *matcher) balanced(s, p int) int {
	if p+1 >= len(m.pat) {
		m.c.Fail("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	open, closing, depth := m.pat[p], m.pat[p+1], 1
	for s++; s < len(m.src); s++ {
		m.step()
		switch m.src[s] {
		case closing:
			if depth--; depth == 0 {
				return s + 1
			}
		case open:
			depth++
		}
	}
	return -1
}

// frontier matches %f and the set at p; next is the place after the set.
func (m *matcher) frontier(s, p int) (next int, ok bool) {
	if p >= len(m.pat) || m.pat[p] != '[' {
		m.c.Fail("missing '[' after '%%f' in pattern")
	}
	end := m.classEnd(p)
	before, after := byte(0), byte(0)
	if s > 0 {
		before = m.src[s-1]
	}
	if s < len(m.src) {
		after = m.src[s]
	}
	return end, !m.set(before, p, end-1) && m.set(after, p, end-1)
}

// back matches the text of capture l, a digit.
func (m *matcher) back(s int, l byte) int {
	i := int(l) - '1'
	if i < 0 || i >= m.level || m.captures[i].length == captureOpen {
		m.c.Fail("invalid capture index")
	}
	text := m.text(i)
	m.c.Charge(len(text) / 16)
	if !strings.HasPrefix(m.src[s:], text) {
		return -1
	}
	return s + len(text)
}

func (m *matcher) text(i int) string {
	capture := m.captures[i]
	if capture.length < 0 {
		return ""
	}
	return m.src[capture.start : capture.start+capture.length]
}

// value returns capture i; without any captures, capture 0 is the whole match.
func (m *matcher) value(i, start, end int) lua.LValue {
	if i >= m.level {
		if i != 0 {
			m.c.Fail("invalid capture index")
		}
		m.c.Charge(1)
		return lua.LString(m.src[start:end])
	}
	switch capture := m.captures[i]; capture.length {
	case captureOpen:
		m.c.Fail("unfinished capture")
	case capturePosition:
		return lua.LNumber(capture.start + 1)
	}
	return lua.LString(m.text(i))
}

// push pushes all captures; wholeToo: the whole match if there are none.
func (m *matcher) push(start, end int, wholeToo bool) int {
	n := m.level
	if n == 0 && wholeToo {
		n = 1
	}
	for i := range n {
		m.c.Alloc(lauxlib.SlotBytes)
		m.c.L.Push(m.value(i, start, end))
	}
	return n
}

// expand writes a replacement text and substitutes its %0 to %9.
func (m *matcher) expand(out *lauxlib.Buffer, text string, start, end int) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.AddByte(text[i])
			continue
		}
		i++
		switch {
		case i >= len(text):
			out.AddByte(0) // C reads the string's closing byte
		case text[i] == '0':
			out.Add(m.src[start:end])
		case text[i] >= '1' && text[i] <= '9':
			value, _ := lauxlib.AsText(m.value(int(text[i]-'1'), start, end))
			out.Add(value)
		default:
			out.AddByte(text[i])
		}
	}
}

// substitute writes a replacement value; nil and false keep the match.
func (m *matcher) substitute(out *lauxlib.Buffer, value lua.LValue, start, end int) {
	if lua.LVIsFalse(value) {
		out.Add(m.src[start:end])
		return
	}
	text, ok := lauxlib.AsText(value)
	if !ok {
		m.c.Fail("%s", fmt.Sprintf("invalid replacement value (a %s)", lauxlib.TypeName(value)))
	}
	out.Add(text)
}
