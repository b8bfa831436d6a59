package compiler

import (
	"fmt"
	"strings"

	"lockd/luavm/libc"
)

// eoz is the value of current past the end of the source.
const eoz = -1

// syntaxError is the panic value of the lexer and the parser: the message as luaL_loadbuffer gives it.
type syntaxError struct{ message string }

// caught turns a panic with a syntaxError into its message; it is deferred.
func caught(message *string) {
	if r := recover(); r != nil {
		e, ok := r.(syntaxError)
		if !ok {
			panic(r)
		}
		*message = e.message
	}
}

type lexer struct {
	chunkname string // as shown in messages
	source    string
	pos       int // of current
	line      int
	lastLine  int // of the last token that was consumed

	tok       token
	text      string  // of a name; the value of a string
	num       float64 // of a number
	tiny      int     // count of numbers that took long to read
	near      string  // the token as messages show it: a string with its escapes read
	ahead     token   // look-ahead token; tokEOS means none
	aheadText string
	aheadNum  float64
}

func newLexer(chunkname, source string) *lexer {
	return &lexer{chunkname: chunkname, source: source, line: 1, lastLine: 1, ahead: tokEOS}
}

func (x *lexer) current() int {
	if x.pos < len(x.source) {
		return int(x.source[x.pos])
	}
	return eoz
}

// fail raises a syntax error near the token t; 0 means no position.
func (x *lexer) fail(message string, t token) {
	message = fmt.Sprintf("%s:%d: %s", x.chunkname, x.line, message)
	if t != 0 {
		near := t.String()
		if t == tokName || t == tokString || t == tokNumber {
			near = libc.CString(x.near)
		}
		message += " near '" + near + "'"
	}
	panic(syntaxError{message})
}

func (x *lexer) syntaxError(message string) { x.fail(message, x.tok) }

// next moves to the next token.
func (x *lexer) next() {
	x.lastLine = x.line
	if x.ahead != tokEOS {
		x.tok, x.text, x.num, x.ahead = x.ahead, x.aheadText, x.aheadNum, tokEOS
		return
	}
	x.tok = x.scan()
}

// peek looks one token ahead.
func (x *lexer) peek() token {
	tok, text, num := x.tok, x.text, x.num
	x.ahead = x.scan()
	x.aheadText, x.aheadNum = x.text, x.num
	x.tok, x.text, x.num = tok, text, num
	return x.ahead
}

func (x *lexer) newline() {
	first := x.current()
	x.pos++
	if c := x.current(); (c == '\n' || c == '\r') && c != first {
		x.pos++
	}
	x.line++
}

// scan reads one token.
func (x *lexer) scan() token {
	for {
		c := x.current()
		switch {
		case c == '\n' || c == '\r':
			x.newline()
		case c == '-':
			x.pos++
			if x.current() != '-' {
				return '-'
			}
			x.comment()
		case c == '[':
			from := x.pos
			level := x.separator()
			x.near = x.source[from:x.pos]
			if level >= 0 {
				x.text = x.longString(level, "unfinished long string")
				x.near = x.source[from:x.pos]
				return tokString
			} else if level == -1 {
				return '['
			}
			x.fail("invalid long string delimiter", tokString)
		case c == '"' || c == '\'':
			x.text = x.quoted(byte(c))
			return tokString
		case c == eoz:
			return tokEOS
		case digit(c) || c == '.' && x.pos+1 < len(x.source) && digit(int(x.source[x.pos+1])):
			x.number()
			return tokNumber
		case letter(c):
			return x.word()
		case c != ' ' && c < 0x80 && strings.IndexByte(libc.Space, byte(c)) >= 0, c == ' ':
			x.pos++
		default:
			return x.symbol()
		}
	}
}

func digit(c int) bool { return c >= '0' && c <= '9' }

func letter(c int) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// symbol reads an operator or any other single byte.
func (x *lexer) symbol() token {
	rest := x.source[x.pos:]
	for _, t := range [...]token{tokDots, tokConcat, tokEq, tokGe, tokLe, tokNe} {
		if name := t.String(); strings.HasPrefix(rest, name) {
			x.pos += len(name)
			return t
		}
	}
	x.pos++
	return token(rest[0])
}

func (x *lexer) comment() {
	x.pos++
	if x.current() == '[' {
		if level := x.separator(); level >= 0 {
			x.longString(level, "unfinished long comment")
			return
		}
	}
	for c := x.current(); c != '\n' && c != '\r' && c != eoz; c = x.current() {
		x.pos++
	}
}

// separator reads "[==" and returns its number of equal signs, if a second bracket follows; otherwise a negative
// number.
func (x *lexer) separator() int {
	bracket := x.current()
	x.pos++
	count := 0
	for x.current() == '=' {
		x.pos++
		count++
	}
	if x.current() == bracket {
		return count
	}
	return -count - 1
}

func (x *lexer) longString(level int, unfinished string) string {
	x.pos++
	if c := x.current(); c == '\n' || c == '\r' {
		x.newline()
	}
	var b strings.Builder
	for {
		switch c := x.current(); c {
		case eoz:
			x.fail(unfinished, tokEOS)
		case ']':
			from := x.pos
			if x.separator() == level {
				x.pos++
				return b.String()
			}
			b.WriteString(x.source[from:x.pos])
		case '\n', '\r':
			b.WriteByte('\n')
			x.newline()
		default:
			b.WriteByte(byte(c))
			x.pos++
		}
	}
}

func (x *lexer) quoted(quote byte) string {
	x.pos++
	var b strings.Builder
	for {
		switch c := x.current(); {
		case c == eoz:
			x.fail("unfinished string", tokEOS)
		case c == '\n' || c == '\r':
			x.near = string(quote) + b.String()
			x.fail("unfinished string", tokString)
		case c == '\\':
			x.pos++
			x.near = string(quote) + b.String()
			x.escape(&b)
		case c == int(quote):
			x.pos++
			x.near = string(quote) + b.String() + string(quote)
			return b.String()
		default:
			b.WriteByte(byte(c))
			x.pos++
		}
	}
}

func (x *lexer) escape(b *strings.Builder) {
	c := x.current()
	const plain, meant = "abfnrtv", "\a\b\f\n\r\t\v"
	switch {
	case c == eoz:
		return // the string is found unfinished
	case c == '\n' || c == '\r':
		b.WriteByte('\n')
		x.newline()
		return
	case digit(c):
		x.decimalEscape(b)
		return
	}
	if i := strings.IndexByte(plain, byte(c)); i >= 0 {
		c = int(meant[i])
	}
	b.WriteByte(byte(c))
	x.pos++
}

func (x *lexer) decimalEscape(b *strings.Builder) {
	code := 0
	for i := 0; i < 3 && digit(x.current()); i++ {
		code = 10*code + x.current() - '0'
		x.pos++
	}
	if code > 255 {
		x.fail("escape sequence too large", tokString)
	}
	b.WriteByte(byte(code))
}

func (x *lexer) number() {
	from := x.pos
	for digit(x.current()) || x.current() == '.' {
		x.pos++
	}
	if c := x.current(); c == 'e' || c == 'E' {
		x.pos++
		if c := x.current(); c == '+' || c == '-' {
			x.pos++
		}
	}
	for digit(x.current()) || letter(x.current()) {
		x.pos++
	}
	x.near = x.source[from:x.pos]
	f, ok := libc.ParseNumber(x.near)
	if !ok {
		x.fail("malformed number", tokNumber)
	}
	if libc.IsTiny(f, x.near) {
		if x.tiny++; x.tiny > tinyNumbersMax {
			x.fail(fmt.Sprintf("more than %d numbers of less than 2^-1022", tinyNumbersMax), 0)
		}
	}
	x.num = f
}

// tinyNumbersMax bounds the numbers in a source that take long to read (IsTiny).
const tinyNumbersMax = 500

func (x *lexer) word() token {
	from := x.pos
	for digit(x.current()) || letter(x.current()) {
		x.pos++
	}
	x.text = x.source[from:x.pos]
	x.near = x.text
	if len(x.text) > nameBytesMax {
		x.fail(fmt.Sprintf("name longer than %d bytes", nameBytesMax), 0)
	}
	if t, ok := reserved[x.text]; ok {
		return t
	}
	return tokName
}
