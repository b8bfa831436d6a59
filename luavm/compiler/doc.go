// Package compiler makes code for gopher-lua's machine of a Lua 5.1 source.
//
//	source --lex, parse--> tree --lower--> tree of intrinsics --gopher-lua--> code
//
// Grammar, limits and error texts are Lua 5.1's. The lowered tree calls an intrinsic, a function that
// the machine's user provides, where gopher-lua does otherwise than Lua 5.1 or without a bound
// (DESIGN.md of luavm). The package runs nothing.
package compiler
