// Package lauxlib is the interface between Lua and Go functions, as lauxlib.h is for C: it reads arguments, pushes
// results, raises errors in Lua 5.1's words, builds strings and tables, calls back into Lua, and charges the run's
// Budget for all of it in advance.
//
// The package knows neither Redis nor a single library function. A file calls those after it: newtable, sizes, buffer,
// argument, results, invoke, raise, lauxlib, budget.
package lauxlib
