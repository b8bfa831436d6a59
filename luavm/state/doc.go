// Package state implements a Lua state: gopher-lua's machine with the operators, tables, basic functions and error
// messages of Lua 5.1, within a budget. It knows neither commands nor replies.
//
// The results of a script, the steps and bytes it takes, and the error that ends it depend on its source alone. The
// maps of a State are read by key, never in map order.
//
// A file calls those after it: state, base, loadstring, tablib, sort, intrinsics, operators, execute, minuszero,
// translate, tables, walk, chains, readonly.
package state
