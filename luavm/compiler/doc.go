// Package compiler compiles Lua 5.1 source to code for gopher-lua's machine.
//
//	source --lex, parse--> tree --lower--> tree of intrinsics --gopher-lua--> code
//
// Grammar, limits and error texts are Lua 5.1's. Where gopher-lua differs from Lua 5.1 or lacks a bound, the lowered
// tree calls an intrinsic, a function that the user of the machine provides (DESIGN.md of luavm). The package runs no
// code.
//
// A file calls those after it: compile; lower, lowerstmt, lowerexpr, variables, registers, constants, site;
// parser, parsestmt, parseexpr, scope, accept, lex, token; parsed. In both halves an expression that is a function
// calls back to the statements.
package compiler
