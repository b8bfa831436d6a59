// Package libc implements the functions of C's standard library that Lua uses on Linux: reading and writing numbers,
// casts, powers. Results are the same to the last bit on every processor, because every replica computes them.
//
// A file calls those after it: powers, fmod, printf, strtod, number, cast, wide, ctype.
package libc
