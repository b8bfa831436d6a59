package lib

import (
	"math"
	"strconv"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// jsonWriter encodes.
type jsonWriter struct {
	lauxlib.Buffer
	*cjsonSettings
}

func cjsonEncode(c lauxlib.Call, s *cjsonSettings) int {
	w := &jsonWriter{lauxlib.Buffer{C: c}, s}
	w.value(c.L.Get(1), 0, 1)
	return w.Push()
}

// value writes v. depth counts the tables around it; used counts the values on the original's stack, which bounds the
// nesting when the depth is set higher.
func (w *jsonWriter) value(v lua.LValue, depth, used int) {
	switch v := v.(type) {
	case lua.LString:
		w.string(string(v))
	case lua.LNumber:
		w.number(float64(v))
	case lua.LBool:
		w.Add(strconv.FormatBool(bool(v)))
	case *lua.LNilType:
		w.Add("null")
	case *lua.LTable:
		w.table(v, depth+1, used)
	default:
		if v != cjsonNull {
			w.refuse(v, "type not supported")
		}
		w.Add("null")
	}
}

func (w *jsonWriter) refuse(v lua.LValue, why string) {
	w.C.Fail("Cannot serialise %s: %s", v.Type().String(), why)
}

func (w *jsonWriter) table(t *lua.LTable, depth, used int) {
	if depth > w.encodeDepthMax || used+3 > lauxlib.CStackMax {
		w.C.Fail("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := w.arrayLen(t); n > 0 {
		w.array(t, n, depth, used)
	} else {
		w.object(t, depth, used)
	}
}

// arrayLen returns the greatest index of a table that has indices only, as the original computes it in C's int; -1 if
// the table is not an array.
func (w *jsonWriter) arrayLen(t *lua.LTable) int {
	w.C.Scan(t)
	most, items := 0, 0
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		f, ok := k.(lua.LNumber)
		if !ok || f < 1 || float64(f) != math.Floor(float64(f)) {
			return -1
		}
		if f > lua.LNumber(most) {
			most = int(libc.Int32(float64(f)))
		}
		items++
	}
	if w.sparseRatio > 0 && most > items*w.sparseRatio && most > w.sparseSafe {
		if w.sparseConvert == 0 {
			w.refuse(t, "excessively sparse array")
		}
		return -1
	}
	return most
}

func (w *jsonWriter) array(t *lua.LTable, n, depth, used int) {
	w.AddByte('[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			w.AddByte(',')
		}
		w.value(t.RawGet(lua.LNumber(i)), depth, used+1)
	}
	w.AddByte(']')
}

func (w *jsonWriter) object(t *lua.LTable, depth, used int) {
	w.C.Scan(t)
	w.AddByte('{')
	first := true
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !first {
			w.AddByte(',')
		}
		first = false
		switch k := k.(type) {
		case lua.LNumber:
			w.AddByte('"')
			w.number(float64(k))
			w.AddByte('"')
		case lua.LString:
			w.string(string(k))
		default:
			w.refuse(k, "table key must be a number or string")
		}
		w.AddByte(':')
		w.value(v, depth, used+2)
	}
	w.AddByte('}')
}

func (w *jsonWriter) number(f float64) {
	finite := !math.IsInf(f, 0) && !math.IsNaN(f)
	switch {
	case finite && w.precision == 14:
		w.Add(libc.FormatNumber(f))
	case finite:
		w.Add(strconv.FormatFloat(f, 'g', w.precision, 64))
	case w.encodeInvalid == 0:
		w.refuse(lua.LNumber(f), "must not be NaN or Inf")
	case w.encodeInvalid == 2:
		w.Add("null")
	case math.IsNaN(f):
		w.Add("nan")
	default:
		w.Add(libc.FormatNumber(f))
	}
}

// string writes s quoted. Bytes from 128 up pass as they are, valid or not.
func (w *jsonWriter) string(s string) {
	w.C.Need(lauxlib.BufferPrice * (len(s) + 2))
	w.Bytes = append(w.Bytes, '"')
	for i := 0; i < len(s); i++ {
		if esc := jsonEscape(s[i]); esc != "" {
			w.Add(esc)
		} else {
			w.Bytes = append(w.Bytes, s[i])
		}
	}
	w.Bytes = append(w.Bytes, '"')
}

// jsonEscape returns the escape of a byte; "" if the byte needs none.
func jsonEscape(b byte) string {
	switch b {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '/':
		return `\/`
	case '\b':
		return `\b`
	case '\t':
		return `\t`
	case '\n':
		return `\n`
	case '\f':
		return `\f`
	case '\r':
		return `\r`
	}
	if b < 32 || b == 127 {
		const hex = "0123456789abcdef"
		return `\u00` + string([]byte{hex[b>>4], hex[b&15]})
	}
	return ""
}
