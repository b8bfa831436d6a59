// Package libc computes what C's standard library computes for Lua on Linux: it reads and writes
// numbers, casts them and raises them to powers. Results are the same to the last bit on every
// processor, because every replica computes them.
//
// A file calls those after it: powers, fmod, printf, scan, number, cast, wide, ctype.
package libc
