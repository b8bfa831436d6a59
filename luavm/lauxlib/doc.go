// Package lauxlib is what a Go function that Lua calls is written against, as lauxlib.h is for C: it
// reads arguments, pushes results, raises errors in Lua 5.1's words, builds strings and tables, calls
// back into Lua, and pays for all of it from the run's Budget before it is done.
//
// The package knows neither Redis nor a single library function. A file calls those after it: table,
// measure, buffer, args, results, invoke, errors, call, budget.
package lauxlib
