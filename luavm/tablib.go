package luavm

import (
	lua "github.com/yuin/gopher-lua"
)

// The table library (ltablib.c).

func (v *VM) tableFuncs() []libFunc {
	return []libFunc{
		{"concat", v.concat}, {"foreach", v.foreach}, {"foreachi", v.foreachi}, {"getn", v.getn}, {"insert", v.insert},
		{"maxn", v.maxn}, {"remove", v.remove}, {"setn", setn}, {"sort", v.sort},
	}
}

func (v *VM) getn(c libCall) int { return c.pushNumber(float64(v.length(c, c.table(1)))) }

func setn(c libCall) int {
	c.table(1)
	c.fail("'setn' is obsolete")
	return 0
}

func (v *VM) foreachi(c libCall) int {
	t := c.table(1)
	n := v.length(c, t)
	fn := c.function(2)
	for i := 1; i <= n; i++ {
		result := v.call(c.L, fn, lua.LNumber(i), t.RawGet(lua.LNumber(i)))
		if result != lua.LNil {
			return c.push(result)
		}
	}
	return 0
}

func (v *VM) foreach(c libCall) int {
	t, fn := c.table(1), c.function(2)
	for key, value := v.nextKey(c, t, lua.LNil); key != lua.LNil; key, value = v.nextKey(c, t, key) {
		if result := v.call(c.L, fn, key, value); result != lua.LNil {
			return c.push(result)
		}
	}
	return 0
}

func (v *VM) maxn(c libCall) int {
	t := c.table(1)
	most := lua.LNumber(0)
	for key, _ := v.nextKey(c, t, lua.LNil); key != lua.LNil; key, _ = v.nextKey(c, t, key) {
		c.b.charge(c.L, 1)
		if n, ok := key.(lua.LNumber); ok && n > most {
			most = n
		}
	}
	return c.push(most)
}

// set is lua_rawseti on a table that may be read-only.
func (v *VM) set(c libCall, t *lua.LTable, i int, value lua.LValue) {
	v.rawSet(c, t, lua.LNumber(i), value)
}

// writable refuses a table that scripts may not change.
func (v *VM) writable(c libCall, t *lua.LTable) {
	if v.locked(t) {
		c.failBare(readonlyTable)
	}
}

func (v *VM) insert(c libCall) int {
	t := c.table(1)
	end := v.length(c, t) + 1
	pos, value := end, c.L.Get(2)
	switch c.L.GetTop() {
	case 2:
	case 3:
		pos, value = c.small(2), c.L.Get(3)
		end = max(end, pos)
		v.writable(c, t)
		v.shiftUp(c, t, pos, end)
	default:
		c.fail("wrong number of arguments to 'insert'")
	}
	v.writable(c, t)
	v.set(c, t, pos, value)
	return 0
}

// shiftUp moves t[pos..end-1] one place up.
func (v *VM) shiftUp(c libCall, t *lua.LTable, pos, end int) {
	chargeShift(c, pos, end)
	for i := end; i > pos; i-- {
		if i%1024 == 0 {
			c.b.charge(c.L, 0)
		}
		v.set(c, t, i, t.RawGet(lua.LNumber(i-1)))
	}
}

// chargeShift pays for moving elements by one place. What lies beyond the array is in
// a Go map.
func chargeShift(c libCall, pos, end int) {
	if pos < end {
		c.b.charge(c.L, (end-pos)/2)
	}
	if beyond := max(pos, arrayIndexMax); beyond < end {
		c.b.charge(c.L, 8*(end-beyond))
	}
}

func (v *VM) remove(c libCall) int {
	t := c.table(1)
	end := v.length(c, t)
	pos := c.optSmall(2, end)
	if pos < 1 || pos > end {
		return 0
	}
	v.writable(c, t)
	removed := t.RawGet(lua.LNumber(pos))
	chargeShift(c, pos, end)
	for ; pos < end; pos++ {
		v.set(c, t, pos, t.RawGet(lua.LNumber(pos+1)))
	}
	v.set(c, t, end, lua.LNil)
	return c.push(removed)
}

func (v *VM) concat(c libCall) int {
	separator := ""
	if c.L.Get(2) != lua.LNil {
		separator = c.text(2)
	}
	t := c.table(1)
	first := c.optSmall(3, 1)
	var last int
	if c.L.Get(4) == lua.LNil {
		last = v.length(c, t)
	} else {
		last = c.small(4)
	}
	w := libBuffer{c: c}
	for i := first; i <= last; i++ {
		value := t.RawGet(lua.LNumber(i))
		text, ok := asText(value)
		if !ok {
			c.fail("invalid value (%s) at index %d in table for 'concat'", typeName(value), i)
		}
		w.add(text)
		if i < last {
			w.add(separator)
		}
	}
	return w.push()
}

func (v *VM) sort(c libCall) int {
	t := c.table(1)
	n := v.length(c, t)
	s := sorter{v: v, c: c, t: t}
	if c.L.Get(2) != lua.LNil {
		s.before = c.function(2)
	}
	v.writable(c, t)
	s.sort(1, n)
	return 0
}

// sorter is Lua's own quicksort, step by step: what it makes of an order that is
// none, and the order of the calls of the comparison, show.
type sorter struct {
	v      *VM
	c      libCall
	t      *lua.LTable
	before *lua.LFunction // nil: by <
}

func (s *sorter) get(i int) lua.LValue { return s.t.RawGet(lua.LNumber(i)) }

func (s *sorter) set(i, j int, a, b lua.LValue) {
	s.v.set(s.c, s.t, i, a)
	s.v.set(s.c, s.t, j, b)
}

func (s *sorter) less(a, b lua.LValue) bool {
	s.c.b.charge(s.c.L, 2)
	if s.before != nil {
		return lua.LVAsBool(s.v.call(s.c.L, s.before, a, b))
	}
	if less, ok := plainLess(s.c, a, b); ok {
		return less
	}
	less, ok := s.v.compareBy(s.c, "__lt", a, b)
	if !ok {
		s.c.failBare(compareMessage(typeName(a), typeName(b)))
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

// partition moves what is less than the pivot to the left and returns its place.
func (s *sorter) partition(l, u int, pivot lua.LValue) int {
	i, j := l, u-1
	for {
		var a, b lua.LValue
		for i++; ; i++ {
			if a = s.get(i); !s.less(a, pivot) {
				break
			}
			if i > u {
				s.c.fail("invalid order function for sorting")
			}
		}
		for j--; ; j-- {
			if b = s.get(j); !s.less(pivot, b) {
				break
			}
			if j < l {
				s.c.fail("invalid order function for sorting")
			}
		}
		if j < i {
			return i
		}
		s.set(i, j, b, a)
	}
}
