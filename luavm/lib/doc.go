// Package lib has the libraries of Redis's Lua that need neither Redis nor a look into the Lua state:
// string, math, bit, struct, cjson and cmsgpack. Each function pays for its work from the run's budget
// before it does it (lauxlib).
package lib
