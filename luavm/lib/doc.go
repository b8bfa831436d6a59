// Package lib implements the libraries of Redis's Lua that need neither Redis nor access to the Lua state: string,
// math, bit, struct, cjson and cmsgpack. Each function charges the run's budget for its work in advance (lauxlib).
//
// A file calls those after it: cjson, cjsonencode, cjsondecode, cmsgpack, struct, strlib, strformat, match;
// bit and mathlib stand alone.
package lib
