package luavm

import (
	lua "github.com/yuin/gopher-lua"
)

// The table library (ltablib.c).

func (st *State) tableFuncs() []libFunc {
	return []libFunc{
		{"concat", st.concat}, {"foreach", st.foreach}, {"foreachi", st.foreachi}, {"getn", st.getn}, {"insert", st.insert},
		{"maxn", st.maxn}, {"remove", st.remove}, {"setn", setn}, {"sort", st.sort},
	}
}

func (st *State) getn(c libCall) int { return c.pushNumber(float64(st.length(c, c.table(1)))) }

func setn(c libCall) int {
	c.table(1)
	c.fail("'setn' is obsolete")
	return 0
}

func (st *State) foreachi(c libCall) int {
	t := c.table(1)
	n := st.length(c, t)
	fn := c.function(2)
	for i := 1; i <= n; i++ {
		result := c.call(fn, lua.LNumber(i), t.RawGet(lua.LNumber(i)))
		if result != lua.LNil {
			return c.push(result)
		}
	}
	return 0
}

func (st *State) foreach(c libCall) int {
	t, fn := c.table(1), c.function(2)
	for key, value := st.nextKey(c, t, lua.LNil); key != lua.LNil; key, value = st.nextKey(c, t, key) {
		if result := c.call(fn, key, value); result != lua.LNil {
			return c.push(result)
		}
	}
	return 0
}

func (st *State) maxn(c libCall) int {
	t := c.table(1)
	most := lua.LNumber(0)
	for key, _ := st.nextKey(c, t, lua.LNil); key != lua.LNil; key, _ = st.nextKey(c, t, key) {
		c.charge(1)
		if n, ok := key.(lua.LNumber); ok && n > most {
			most = n
		}
	}
	return c.push(most)
}

// set is lua_rawseti on a table that may be read-only.
func (st *State) set(c libCall, t *lua.LTable, i int, value lua.LValue) {
	st.rawSet(c, t, lua.LNumber(i), value)
}

// writable refuses a table that scripts may not change.
func (st *State) writable(c libCall, t *lua.LTable) {
	if st.locked(t) {
		c.failBare(readonlyTable)
	}
}

func (st *State) insert(c libCall) int {
	t := c.table(1)
	end := st.length(c, t) + 1
	pos, value := end, c.L.Get(2)
	switch c.L.GetTop() {
	case 2:
	case 3:
		pos, value = c.small(2), c.L.Get(3)
		end = max(end, pos)
		st.writable(c, t)
		st.shiftUp(c, t, pos, end)
	default:
		c.fail("wrong number of arguments to 'insert'")
	}
	st.writable(c, t)
	st.set(c, t, pos, value)
	return 0
}

// shiftUp moves t[pos..end-1] one place up.
func (st *State) shiftUp(c libCall, t *lua.LTable, pos, end int) {
	chargeShift(c, pos, end)
	for i := end; i > pos; i-- {
		if i%1024 == 0 {
			c.charge(0)
		}
		st.set(c, t, i, t.RawGet(lua.LNumber(i-1)))
	}
}

// chargeShift pays for moving elements by one place. What lies beyond the array is in
// a Go map.
func chargeShift(c libCall, pos, end int) {
	if pos < end {
		c.charge((end - pos) / 2)
	}
	if beyond := max(pos, arrayIndexMax); beyond < end {
		c.charge(8 * (end - beyond))
	}
}

func (st *State) remove(c libCall) int {
	t := c.table(1)
	end := st.length(c, t)
	pos := c.optSmall(2, end)
	if pos < 1 || pos > end {
		return 0
	}
	st.writable(c, t)
	removed := t.RawGet(lua.LNumber(pos))
	chargeShift(c, pos, end)
	for ; pos < end; pos++ {
		st.set(c, t, pos, t.RawGet(lua.LNumber(pos+1)))
	}
	st.set(c, t, end, lua.LNil)
	return c.push(removed)
}

func (st *State) concat(c libCall) int {
	separator := ""
	if c.L.Get(2) != lua.LNil {
		separator = c.text(2)
	}
	t := c.table(1)
	first := c.optSmall(3, 1)
	var last int
	if c.L.Get(4) == lua.LNil {
		last = st.length(c, t)
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

func (st *State) sort(c libCall) int {
	t := c.table(1)
	n := st.length(c, t)
	s := sorter{st: st, c: c, t: t}
	if c.L.Get(2) != lua.LNil {
		s.before = c.function(2)
	}
	st.writable(c, t)
	s.sort(1, n)
	return 0
}

// sorter is Lua's own quicksort, step by step: what it makes of an order that is
// none, and the order of the calls of the comparison, show.
type sorter struct {
	st     *State
	c      libCall
	t      *lua.LTable
	before *lua.LFunction // nil: by <
}

func (s *sorter) get(i int) lua.LValue { return s.t.RawGet(lua.LNumber(i)) }

func (s *sorter) set(i, j int, a, b lua.LValue) {
	s.st.set(s.c, s.t, i, a)
	s.st.set(s.c, s.t, j, b)
}

func (s *sorter) less(a, b lua.LValue) bool {
	s.c.charge(2)
	if s.before != nil {
		return lua.LVAsBool(s.c.call(s.before, a, b))
	}
	if less, ok := plainLess(s.c, a, b); ok {
		return less
	}
	less, ok := s.st.compareBy(s.c, "__lt", a, b)
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
