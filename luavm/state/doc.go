// Package state is a Lua state: gopher-lua's machine with the operators, tables, basic functions and
// error messages of Lua 5.1, within a budget. It knows no
// command and no reply.
//
// What a script computes, how many steps and bytes it takes, and which error ends it depend on its
// source alone. The maps of a State are read by their keys, never in their order.
//
// A file calls those after it: state, base, load, tablib, sort, intrinsics, operators, run, minuszero, errors, tables,
// walk, chains, locks.
package state
