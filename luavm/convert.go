package luavm

import (
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
	"lockd/luavm/state"
	"lockd/resp"

	lua "github.com/yuin/gopher-lua"
)

// converter turns replies into Lua values, and the value of a script into a reply, by Redis's rules (script_lua.c). It
// charges the call c.
type converter struct {
	c      lauxlib.Call
	tables *state.Tables
	proto  int // of replies, as redis.setresp chose
}

// replyNestingMax bounds how deep tables and replies may be nested. Redis gives
// its error where Lua's stack ends, much deeper.
const replyNestingMax = 128

const nestedTooDeeply = "ERR reached lua stack limit"

// fromReply returns the Lua value for a command's reply, in the protocol that the script chose with redis.setresp.
func (v converter) fromReply(r resp.Reply, depth int) lua.LValue {
	if depth > replyNestingMax {
		refuse(v.c, nestedTooDeeply)
	}
	v3 := v.proto >= 3
	switch r.Kind {
	case resp.KindStatus:
		return fieldTable(v.c, "ok", r.Str)
	case resp.KindError:
		return errorTable(v.c, "-"+r.Str)
	case resp.KindInt:
		return lauxlib.Number(float64(r.Int))
	case resp.KindBulk:
		return fromText(v.c, r.Str)
	case resp.KindNil, resp.KindNilArray:
		if v3 {
			return lua.LNil
		}
		return lua.LFalse
	case resp.KindDouble:
		if v3 {
			t := recordTable(v.c, 1)
			t.RawSetString("double", lua.LNumber(r.Float()))
			return t
		}
		return fromText(v.c, resp.FormatDouble(r.Float()))
	case resp.KindBool:
		if v3 {
			return lua.LBool(r.Int != 0)
		}
		return lua.LNumber(r.Int)
	case resp.KindBigNumber:
		if v3 {
			return fieldTable(v.c, "big_number", r.Str)
		}
		return fromText(v.c, r.Str)
	case resp.KindVerbatim:
		return v.fromVerbatim(r, v3)
	case resp.KindMap, resp.KindSet:
		if v3 {
			return v.fromKeyed(r, depth)
		}
	case resp.KindPairs:
		if v3 {
			return v.fromPairs(r, depth)
		}
	case resp.KindPairMap:
		if v3 {
			return v.fromKeyed(r, depth)
		}
		return v.fromPairs(r, depth)
	}
	return v.fromElems(r.Elems, depth)
}

func fromText(c lauxlib.Call, s string) lua.LValue {
	c.Need(len(s))
	return lua.LString(s)
}

func (v converter) fromVerbatim(r resp.Reply, v3 bool) lua.LValue {
	if !v3 {
		return fromText(v.c, r.Str)
	}
	inner := fieldTable(v.c, "string", r.Str)
	inner.RawSetString("format", lua.LString("txt"))
	t := recordTable(v.c, 1)
	t.RawSetString("verbatim_string", inner)
	return t
}

// fromElems returns a table of the elements. A nil leaves a hole.
func (v converter) fromElems(elems []resp.Reply, depth int) *lua.LTable {
	v.c.Need(lauxlib.TableBytes + len(elems)*lauxlib.SlotBytes)
	t := v.c.L.CreateTable(len(elems), 0)
	for i := range elems {
		if i+1 >= lauxlib.ArrayIndexMax {
			v.c.Need(lauxlib.EntryBytes)
		}
		t.RawSetInt(i+1, v.fromReply(elems[i], depth+1))
	}
	lauxlib.Trim(t)
	return t
}

// fromPairs returns a table of two-element tables.
func (v converter) fromPairs(r resp.Reply, depth int) *lua.LTable {
	v.c.Need(lauxlib.TableBytes + len(r.Elems)/2*lauxlib.SlotBytes)
	t := v.c.L.CreateTable(len(r.Elems)/2, 0)
	for i := 0; i+1 < len(r.Elems); i += 2 {
		t.RawSetInt(i/2+1, v.fromElems(r.Elems[i:i+2], depth+1))
	}
	return t
}

// fromKeyed returns {map = {...}} or {set = {...}}.
func (v converter) fromKeyed(r resp.Reply, depth int) *lua.LTable {
	outer := recordTable(v.c, 1)
	inner := recordTable(v.c, 0)
	if r.Kind == resp.KindSet {
		for i := range r.Elems {
			v.tables.RawSet(v.c, inner, v.fromReply(r.Elems[i], depth+1), lua.LTrue)
		}
		outer.RawSetString("set", inner)
		return outer
	}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		key := v.fromReply(r.Elems[i], depth+1)
		v.tables.RawSet(v.c, inner, key, v.fromReply(r.Elems[i+1], depth+1))
	}
	outer.RawSetString("map", inner)
	return outer
}

// toReply returns the reply for a script's value.
func (v converter) toReply(value lua.LValue, depth int) resp.Reply {
	if depth > replyNestingMax {
		return resp.Err(nestedTooDeeply)
	}
	v.c.Charge(1)
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
		if r, ok := v.toTyped(x, depth); ok {
			return r
		}
		return v.toArray(x, depth)
	}
	return resp.Nil()
}

// toTyped returns the reply for a table whose fields name its type: err, ok, double, map ...
func (v converter) toTyped(t *lua.LTable, depth int) (resp.Reply, bool) {
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
		return resp.Map(v.toElems(m, true, depth)...), true
	}
	if m, ok := t.RawGetString("set").(*lua.LTable); ok {
		return resp.Set(v.toElems(m, false, depth)...), true
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
func (v converter) toElems(t *lua.LTable, values bool, depth int) []resp.Reply {
	var elems []resp.Reply
	for key, value := v.tables.NextKey(v.c, t, lua.LNil); key != lua.LNil; key, value = v.tables.NextKey(v.c, t, key) {
		v.c.Need(2 * replyBytes)
		elems = append(elems, v.toReply(key, depth+1))
		if values {
			elems = append(elems, v.toReply(value, depth+1))
		}
	}
	return elems
}

// toArray lists t[1], t[2] ... up to the first nil.
func (v converter) toArray(t *lua.LTable, depth int) resp.Reply {
	var elems []resp.Reply
	for i := 1; ; i++ {
		value := t.RawGet(lua.LNumber(i))
		if value == lua.LNil {
			return resp.Array(elems...)
		}
		v.c.Need(2 * replyBytes)
		elems = append(elems, v.toReply(value, depth+1))
	}
}

// errorTable returns an error as redis.pcall returns it (luaPushErrorBuff). text may begin with '-' and a code;
// without a code it gets ERR.
func errorTable(c lauxlib.Call, text string) *lua.LTable {
	text = libc.CString(text)
	code, message := "ERR", text
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		message = rest
		if before, after, ok := strings.Cut(rest, " "); ok {
			code, message = before, after
		}
	}
	return fieldTable(c, "err", code+" "+strings.Trim(message, "\r\n"))
}

// fieldTable returns a table with one field.
func fieldTable(c lauxlib.Call, name, value string) *lua.LTable {
	t := recordTable(c, 1)
	c.Need(len(value))
	t.RawSetString(name, lua.LString(value))
	return t
}

// recordTable returns a table for a few named fields.
func recordTable(c lauxlib.Call, fields int) *lua.LTable {
	c.Need(lauxlib.TableBytes + fields*lauxlib.EntryBytes)
	return c.L.CreateTable(0, fields)
}

// refuse raises an error of the redis API itself.
func refuse(c lauxlib.Call, text string) { c.Raise(errorTable(c, text)) }
