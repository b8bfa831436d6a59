package compiler

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// The parser is Lua 5.1's (lparser.c): its grammar, scoping, limits and error texts. It makes gopher-lua's syntax
// tree and, beside it, records what the tree lacks: the variable that each name refers to, and how each variable is
// used.

// Limits of a script's source. All but the first two and the last two are Lua's own.
const (
	SourceBytesMax     = 64 << 10
	expressionDepthMax = 1000 // operators and calls in a row; Lua has no such limit
	syntaxLevelsMax    = 200
	localsMax          = 200
	upvaluesMax        = 60
	nameBytesMax       = 1024
	functionsMax       = 1000 // gopher-lua's compiler takes 12 KiB for each
)

// parser parses by recursive descent. It has a method for each production of the grammar, so it has many.
type parser struct {
	lex    *lexer
	tree   *parsed
	fn     *function
	levels int
	count  int // functions
}

// parse reads a chunk. message is the error of luaL_loadbuffer, "" if there is none.
func parse(chunkname, source string) (tree *parsed, message string) {
	if len(source) > SourceBytesMax {
		return nil, fmt.Sprintf("%s:1: script longer than %d bytes", chunkname, SourceBytesMax)
	}
	lex := newLexer(chunkname, source)
	main := &function{lex: lex, vararg: true, upvals: map[*variable]bool{}}
	p := &parser{lex: lex, fn: main, tree: &parsed{
		main: main, uses: map[*ast.IdentExpr]*variable{}, decls: map[ast.PositionHolder][]*variable{},
		funcs: map[*ast.FunctionExpr]*function{}, localFunc: map[*ast.LocalAssignStmt]bool{},
	}}
	defer caught(&message)
	lex.next()
	p.tree.body = p.chunk()
	lex.check(tokEOS)
	return p.tree, ""
}

func (p *parser) enter() {
	if p.levels++; p.levels > syntaxLevelsMax {
		p.lex.fail("chunk has too many syntax levels", 0)
	}
}

func (p *parser) leave() { p.levels-- }
