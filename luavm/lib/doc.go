// Package lib has the libraries of Redis's Lua that need neither Redis nor a look into the Lua state:
// string, math, bit, struct, cjson and cmsgpack. Each function pays for its work from the run's budget
// before it does it (lauxlib).
//
// A file calls those after it: cjson, cjsonencode, cjsondecode, cmsgpack, struct, strlib, strformat, match;
// bit and mathlib stand alone.
package lib
