// Package compiler makes code for gopher-lua's machine of a Lua 5.1 source.
//
//	source --lex, parse--> tree --lower--> tree of intrinsics --gopher-lua--> code
//
// Grammar, limits and error texts are Lua 5.1's. The lowered tree calls an intrinsic, a function that
// the machine's user provides, where gopher-lua does otherwise than Lua 5.1 or without a bound
// (DESIGN.md of luavm). The package runs nothing.
//
// A file calls those after it: compile; lower, lowerstmt, lowerexpr, variables, registers, constants, site;
// parse, parsestmt, parseexpr, scope, accept, lex, token; tree. In both halves an expression that is a
// function calls back to the statements.
package compiler
