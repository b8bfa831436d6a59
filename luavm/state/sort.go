package state

import (
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

func (lib tableLib) sort(c lauxlib.Call) int {
	t := c.Arg(1).Table()
	n := lib.tables.length(c, t)
	s := sorter{tables: lib.tables, c: c, t: t}
	if c.L.Get(2) != lua.LNil {
		s.before = c.Arg(2).Function()
	}
	lib.tables.locks.writable(c, t)
	s.sort(1, n)
	return 0
}

// sorter is Lua's own quicksort, step by step: scripts see its results for an inconsistent comparison, and the order
// of the comparison's calls.
type sorter struct {
	tables *Tables
	c      lauxlib.Call
	t      *lua.LTable
	before *lua.LFunction // nil: by <
}

func (s *sorter) get(i int) lua.LValue { return s.t.RawGet(lua.LNumber(i)) }

func (s *sorter) set(i, j int, a, b lua.LValue) {
	s.tables.set(s.c, s.t, i, a)
	s.tables.set(s.c, s.t, j, b)
}

func (s *sorter) less(a, b lua.LValue) bool {
	s.c.Charge(2)
	if s.before != nil {
		return lua.LVAsBool(s.c.Call(s.before, a, b))
	}
	if less, ok := plainLess(s.c, a, b); ok {
		return less
	}
	less, ok := compareBy(s.c, "__lt", a, b)
	if !ok {
		s.c.FailBare(compareMessage(lauxlib.TypeName(a), lauxlib.TypeName(b)))
	}
	return less
}

func (s *sorter) sort(l, u int) {
	for l < u {
		if a, b := s.get(l), s.get(u); s.less(b, a) {
			s.set(l, u, b, a)
		}
		if u-l == 1 {
			return
		}
		i := (l + u) / 2
		if a, b := s.get(i), s.get(l); s.less(a, b) {
			s.set(i, l, b, a)
		} else if b := s.get(u); s.less(b, a) {
			s.set(i, u, b, a)
		}
		if u-l == 2 {
			return
		}
		pivot := s.get(i)
		s.set(i, u-1, s.get(u-1), pivot)
		i = s.partition(l, u, pivot)
		s.set(u-1, i, s.get(i), s.get(u-1))
		if i-l < u-i {
			s.sort(l, i-1)
			l = i + 1
		} else {
			s.sort(i+1, u)
			u = i - 1
		}
	}
}

// partition moves elements less than the pivot to the left and returns the pivot's index.
func (s *sorter) partition(l, u int, pivot lua.LValue) int {
	i, j := l, u-1
	for {
		var a, b lua.LValue
		for i++; ; i++ {
			if a = s.get(i); !s.less(a, pivot) {
				break
			}
			if i > u {
				s.c.Fail("invalid order function for sorting")
			}
		}
		for j--; ; j-- {
			if b = s.get(j); !s.less(pivot, b) {
				break
			}
			if j < l {
				s.c.Fail("invalid order function for sorting")
			}
		}
		if j < i {
			return i
		}
		s.set(i, j, b, a)
	}
}
