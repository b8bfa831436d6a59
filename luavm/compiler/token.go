package compiler

import (
	"fmt"
)

// The lexer is Lua 5.1's (llex.c), to the error texts, because gopher-lua's
// differs: there "goto" is a keyword, "\300" is a character and 3x two tokens.

// A token is one byte, or one of these.
type token int

const (
	tokAnd token = 257 + iota
	tokBreak
	tokDo
	tokElse
	tokElseif
	tokEnd
	tokFalse
	tokFor
	tokFunction
	tokIf
	tokIn
	tokLocal
	tokNil
	tokNot
	tokOr
	tokRepeat
	tokReturn
	tokThen
	tokTrue
	tokUntil
	tokWhile
	tokConcat
	tokDots
	tokEq
	tokGe
	tokLe
	tokNe
	tokNumber
	tokName
	tokString
	tokEOS
)

var tokenNames = [...]string{
	"and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
	"repeat", "return", "then", "true", "until", "while", "..", "...", "==", ">=", "<=", "~=",
	"<number>", "<name>", "<string>", "<eof>",
}

var reserved = func() map[string]token {
	words := map[string]token{}
	for t := tokAnd; t <= tokWhile; t++ {
		words[tokenNames[t-tokAnd]] = t
	}
	return words
}()

func (t token) String() string {
	switch {
	case t >= tokAnd:
		return tokenNames[t-tokAnd]
	case t < ' ' || t == 0x7f:
		return fmt.Sprintf("char(%d)", int(t))
	}
	return string([]byte{byte(t)})
}
