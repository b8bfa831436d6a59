package luavm

import (
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// Replies become Lua values, and the value of a script becomes a reply, by
// Redis's rules (script_lua.c).

// replyNestingMax bounds how deep tables and replies may be nested. Redis gives
// its error where Lua's stack ends, much deeper.
const replyNestingMax = 128

const nestedTooDeeply = "ERR reached lua stack limit"

// fromReply returns the Lua value for a command's reply, in the protocol that the script chose with redis.setresp.
func (v *VM) fromReply(c lauxlib.Call, r resp.Reply, depth int) lua.LValue {
	if depth > replyNestingMax {
		v.refuse(c, nestedTooDeeply)
	}
	v3 := v.proto >= 3
	switch r.Kind {
	case resp.KindStatus:
		return v.fieldTable(c, "ok", r.Str)
	case resp.KindError:
		return v.errorTable(c, "-"+r.Str)
	case resp.KindInt:
		return lauxlib.Number(float64(r.Int))
	case resp.KindBulk:
		return v.fromText(c, r.Str)
	case resp.KindNil, resp.KindNilArray:
		if v3 {
			return lua.LNil
		}
		return lua.LFalse
	case resp.KindDouble:
		if v3 {
			t := v.recordTable(c, 1)
			t.RawSetString("double", lua.LNumber(r.Float()))
			return t
		}
		return v.fromText(c, resp.FormatDouble(r.Float()))
	case resp.KindBool:
		if v3 {
			return lua.LBool(r.Int != 0)
		}
		return lua.LNumber(r.Int)
	case resp.KindBigNumber:
		if v3 {
			return v.fieldTable(c, "big_number", r.Str)
		}
		return v.fromText(c, r.Str)
	case resp.KindVerbatim:
		return v.fromVerbatim(c, r, v3)
	case resp.KindMap, resp.KindSet:
		if v3 {
			return v.fromKeyed(c, r, depth)
		}
	case resp.KindPairs:
		if v3 {
			return v.fromPairs(c, r, depth)
		}
	case resp.KindPairMap:
		if v3 {
			return v.fromKeyed(c, r, depth)
		}
		return v.fromPairs(c, r, depth)
	}
	return v.fromElems(c, r.Elems, depth)
}

func (v *VM) fromText(c lauxlib.Call, s string) lua.LValue {
	c.Need(len(s))
	return lua.LString(s)
}

func (v *VM) fromVerbatim(c lauxlib.Call, r resp.Reply, v3 bool) lua.LValue {
	if !v3 {
		return v.fromText(c, r.Str)
	}
	inner := v.fieldTable(c, "string", r.Str)
	inner.RawSetString("format", lua.LString("txt"))
	t := v.recordTable(c, 1)
	t.RawSetString("verbatim_string", inner)
	return t
}

// fromElems returns a table of the elements. A nil leaves a hole.
func (v *VM) fromElems(c lauxlib.Call, elems []resp.Reply, depth int) *lua.LTable {
	c.Need(lauxlib.TableBytes + len(elems)*lauxlib.SlotBytes)
	t := c.L.CreateTable(len(elems), 0)
	for i := range elems {
		if i+1 >= lauxlib.ArrayIndexMax {
			c.Need(lauxlib.EntryBytes)
		}
		t.RawSetInt(i+1, v.fromReply(c, elems[i], depth+1))
	}
	lauxlib.Trim(t)
	return t
}

// fromPairs returns a table of two-element tables.
func (v *VM) fromPairs(c lauxlib.Call, r resp.Reply, depth int) *lua.LTable {
	c.Need(lauxlib.TableBytes + len(r.Elems)/2*lauxlib.SlotBytes)
	t := c.L.CreateTable(len(r.Elems)/2, 0)
	for i := 0; i+1 < len(r.Elems); i += 2 {
		t.RawSetInt(i/2+1, v.fromElems(c, r.Elems[i:i+2], depth+1))
	}
	return t
}

// fromKeyed returns {map = {...}} or {set = {...}}.
func (v *VM) fromKeyed(c lauxlib.Call, r resp.Reply, depth int) *lua.LTable {
	outer := v.recordTable(c, 1)
	inner := v.recordTable(c, 0)
	if r.Kind == resp.KindSet {
		for i := range r.Elems {
			v.state.Tables.RawSet(c, inner, v.fromReply(c, r.Elems[i], depth+1), lua.LTrue)
		}
		outer.RawSetString("set", inner)
		return outer
	}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		key := v.fromReply(c, r.Elems[i], depth+1)
		v.state.Tables.RawSet(c, inner, key, v.fromReply(c, r.Elems[i+1], depth+1))
	}
	outer.RawSetString("map", inner)
	return outer
}

// toReply returns the reply for a script's value.
func (v *VM) toReply(c lauxlib.Call, value lua.LValue, depth int) resp.Reply {
	if depth > replyNestingMax {
		return resp.Err(nestedTooDeeply)
	}
	c.Charge(1)
	switch x := value.(type) {
	case lua.LString:
		return resp.Bulk(string(x))
	case lua.LNumber:
		return resp.Int(libc.Int64(float64(x)))
	case lua.LBool:
		switch {
		case v.proto >= 3:
			return resp.Bool(bool(x))
		case bool(x):
			return resp.Int(1)
		}
	case *lua.LTable:
		if r, ok := v.toTyped(c, x, depth); ok {
			return r
		}
		return v.toArray(c, x, depth)
	}
	return resp.Nil()
}

// toTyped returns the reply for a table whose fields name its type: err, ok, double, map ...
func (v *VM) toTyped(c lauxlib.Call, t *lua.LTable, depth int) (resp.Reply, bool) {
	if lauxlib.HashKeys(t) == 0 {
		return resp.Reply{}, false
	}
	field := func(name string) (string, bool) {
		s, ok := t.RawGetString(name).(lua.LString)
		return string(s), ok
	}
	if s, ok := field("err"); ok {
		return resp.Err(strings.TrimRight(libc.CString(s), "\r\n")), true
	}
	if s, ok := field("ok"); ok {
		return resp.Status(libc.CString(s)), true
	}
	if f, ok := t.RawGetString("double").(lua.LNumber); ok {
		return resp.Double(float64(f)), true
	}
	if s, ok := field("big_number"); ok {
		return resp.BigNumber(s), true
	}
	if s, ok := verbatimText(t); ok {
		return resp.Verbatim(s), true
	}
	if m, ok := t.RawGetString("map").(*lua.LTable); ok {
		return resp.Map(v.toElems(c, m, true, depth)...), true
	}
	if m, ok := t.RawGetString("set").(*lua.LTable); ok {
		return resp.Set(v.toElems(c, m, false, depth)...), true
	}
	return resp.Reply{}, false
}

func verbatimText(t *lua.LTable) (string, bool) {
	inner, ok := t.RawGetString("verbatim_string").(*lua.LTable)
	if !ok {
		return "", false
	}
	_, hasFormat := inner.RawGetString("format").(lua.LString)
	s, hasText := inner.RawGetString("string").(lua.LString)
	return string(s), hasFormat && hasText
}

// replyBytes is the cost of an element of a reply.
const replyBytes = 64

// toElems lists the keys of a table, with their values if values is set.
func (v *VM) toElems(c lauxlib.Call, t *lua.LTable, values bool, depth int) []resp.Reply {
	var elems []resp.Reply
	for key, value := v.state.Tables.NextKey(c, t, lua.LNil); key != lua.LNil; key, value = v.state.Tables.NextKey(c, t, key) {
		c.Need(2 * replyBytes)
		elems = append(elems, v.toReply(c, key, depth+1))
		if values {
			elems = append(elems, v.toReply(c, value, depth+1))
		}
	}
	return elems
}

// toArray lists t[1], t[2] ... up to the first nil.
func (v *VM) toArray(c lauxlib.Call, t *lua.LTable, depth int) resp.Reply {
	var elems []resp.Reply
	for i := 1; ; i++ {
		value := t.RawGet(lua.LNumber(i))
		if value == lua.LNil {
			return resp.Array(elems...)
		}
		c.Need(2 * replyBytes)
		elems = append(elems, v.toReply(c, value, depth+1))
	}
}

// errorTable returns an error as redis.pcall returns it (luaPushErrorBuff). text may begin with '-' and a code;
// without a code it gets ERR.
func (v *VM) errorTable(c lauxlib.Call, text string) *lua.LTable {
	text = libc.CString(text)
	code, message := "ERR", text
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		message = rest
		if before, after, ok := strings.Cut(rest, " "); ok {
			code, message = before, after
		}
	}
	return v.fieldTable(c, "err", code+" "+strings.Trim(message, "\r\n"))
}

// fieldTable returns a table with one field.
func (v *VM) fieldTable(c lauxlib.Call, name, value string) *lua.LTable {
	t := v.recordTable(c, 1)
	c.Need(len(value))
	t.RawSetString(name, lua.LString(value))
	return t
}

// recordTable returns a table for a few named fields.
func (v *VM) recordTable(c lauxlib.Call, fields int) *lua.LTable {
	c.Need(lauxlib.TableBytes + fields*lauxlib.EntryBytes)
	return c.L.CreateTable(0, fields)
}

// refuse raises an error of the redis API itself.
func (v *VM) refuse(c lauxlib.Call, text string) { c.Raise(v.errorTable(c, text)) }
