// Package luavm runs Redis's Lua scripts and functions on gopher-lua, within limits and with Redis's behaviour. Its
// law: a script's reply and the commands it calls are a pure function of its source, KEYS, ARGV, its limits and the
// replies it is given. No clock, no randomness, no pointer, no order of a Go map, and nothing that an earlier script
// did can reach them, because every replica runs every script (DESIGN.md).
//
// Every script is bounded: in steps, counted exactly, one for each instruction of the machine and more for library
// work; in bytes of memory; in recursion; in the size and nesting of its source. pcall cannot catch a limit, and the
// reply names it.
//
// The packages, each of which imports only those listed after it:
//
//	luavm      Redis: programs, replies, the table redis, libraries of functions
//	state      a Lua state: operators, tables, basic functions, errors
//	lib        string, math, bit, struct, cjson, cmsgpack
//	lauxlib    a call from Lua: arguments, results, errors, the budget
//	compiler   source to code
//	libc       C's numbers
//
// In each folder a file calls those after it: here functions, vm, programs, straight, straightcode, sandbox,
// loading, api, convert. A VM is used by one goroutine at a time and starts none.
package luavm
