package lib

import (
	"strconv"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// jsonToken is one token of the text.
type jsonToken struct {
	kind  jsonKind
	at    int        // where it begins, for errors
	value lua.LValue // of a string, number, boolean or null
}

type jsonKind string

// The kinds of token, in the words of the original's errors.
const (
	jsonObjectBegin jsonKind = "T_OBJ_BEGIN"
	jsonObjectEnd   jsonKind = "T_OBJ_END"
	jsonArrayBegin  jsonKind = "T_ARR_BEGIN"
	jsonArrayEnd    jsonKind = "T_ARR_END"
	jsonString      jsonKind = "T_STRING"
	jsonNumber      jsonKind = "T_NUMBER"
	jsonBoolean     jsonKind = "T_BOOLEAN"
	jsonNull        jsonKind = "T_NULL"
	jsonColon       jsonKind = "T_COLON"
	jsonComma       jsonKind = "T_COMMA"
	jsonEnd         jsonKind = "T_END"
)

// The kinds of token that are errors.
const (
	jsonBadToken   jsonKind = "invalid token"
	jsonBadNumber  jsonKind = "invalid number"
	jsonBadEscape  jsonKind = "invalid escape code"
	jsonBadUnicode jsonKind = "invalid unicode escape code"
	jsonOpenString jsonKind = "unexpected end of string"
)

// jsonReader decodes. Beyond the end of data it reads NUL, which ends the text anywhere, as in C.
type jsonReader struct {
	c lauxlib.Call
	*cjsonSettings
	data string
	pos  int
}

func cjsonDecode(c lauxlib.Call, s *cjsonSettings) int {
	r := &jsonReader{c: c, cjsonSettings: s, data: c.Arg(1).Text()}
	if len(r.data) >= 2 && (r.data[0] == 0 || r.data[1] == 0) {
		c.Fail("JSON parser does not support UTF-16 or UTF-32")
	}
	v := r.value(r.next(), 0, 1)
	if t := r.next(); t.kind != jsonEnd {
		r.refuse("the end", t)
	}
	c.L.Push(v)
	return 1
}

func (r *jsonReader) refuse(want string, found jsonToken) {
	r.c.Fail("Expected %s but found %s at character %d", want, string(found.kind), found.at+1)
}

func (r *jsonReader) byteAt(i int) byte {
	if i < len(r.data) {
		return r.data[i]
	}
	return 0
}

// value reads the value that begins with token t. depth and used are as in
// jsonWriter.value.
func (r *jsonReader) value(t jsonToken, depth, used int) lua.LValue {
	switch t.kind {
	case jsonString, jsonNumber, jsonBoolean, jsonNull:
		return t.value
	case jsonObjectBegin:
		return r.object(depth+1, used)
	case jsonArrayBegin:
		return r.array(depth+1, used)
	}
	r.refuse("value", t)
	return lua.LNil
}

func (r *jsonReader) descend(depth, used, slots int) {
	if depth > r.decodeDepthMax || used+slots > lauxlib.CStackMax {
		r.c.Fail("Found too many nested data structures (%d) at character %d", depth, r.pos)
	}
}

func (r *jsonReader) object(depth, used int) lua.LValue {
	r.descend(depth, used, 3)
	object := lauxlib.NewTable(r.c)
	t := r.next()
	if t.kind == jsonObjectEnd {
		return object.Table()
	}
	for {
		if t.kind != jsonString {
			r.refuse("object key string", t)
		}
		key := t.value
		if t = r.next(); t.kind != jsonColon {
			r.refuse("colon", t)
		}
		object.Set(key, r.value(r.next(), depth, used+2))
		if t = r.next(); t.kind == jsonObjectEnd {
			return object.Table()
		}
		if t.kind != jsonComma {
			r.refuse("comma or object end", t)
		}
		t = r.next()
	}
}

func (r *jsonReader) array(depth, used int) lua.LValue {
	r.descend(depth, used, 2)
	array := lauxlib.NewTable(r.c)
	t := r.next()
	if t.kind == jsonArrayEnd {
		return array.Table()
	}
	for i := 1; ; i++ {
		array.Set(lua.LNumber(i), r.value(t, depth, used+1))
		if t = r.next(); t.kind == jsonArrayEnd {
			return array.Table()
		}
		if t.kind != jsonComma {
			r.refuse("comma or array end", t)
		}
		t = r.next()
	}
}

// next reads a token.
func (r *jsonReader) next() jsonToken {
	start := r.pos
	for r.pos < len(r.data) && strings.IndexByte(" \t\n\r", r.data[r.pos]) >= 0 {
		r.pos++
	}
	r.c.Touch(r.pos - start)
	t := jsonToken{at: r.pos}
	b := r.byteAt(r.pos)
	switch b {
	case '{':
		t.kind = jsonObjectBegin
	case '}':
		t.kind = jsonObjectEnd
	case '[':
		t.kind = jsonArrayBegin
	case ']':
		t.kind = jsonArrayEnd
	case ',':
		t.kind = jsonComma
	case ':':
		t.kind = jsonColon
	case 0:
		t.kind = jsonEnd
		return t
	case '"':
		return r.string()
	default:
		return r.word(t, b)
	}
	r.pos++
	return t
}

// word reads a number or a name.
func (r *jsonReader) word(t jsonToken, b byte) jsonToken {
	rest := r.data[r.pos:]
	switch {
	case b == '-' || libc.IsDigit(b):
		if r.decodeInvalid == 0 && jsonOddNumber(rest) {
			t.kind = jsonBadNumber
			return t
		}
		return r.number(t, rest)
	case strings.HasPrefix(rest, "true"):
		return r.name(t, jsonBoolean, "true", lua.LTrue)
	case strings.HasPrefix(rest, "false"):
		return r.name(t, jsonBoolean, "false", lua.LFalse)
	case strings.HasPrefix(rest, "null"):
		return r.name(t, jsonNull, "null", cjsonNull)
	case strings.IndexByte("fiInNt+", b) >= 0 && r.decodeInvalid != 0 && jsonOddNumber(rest):
		return r.number(t, rest)
	}
	t.kind = jsonBadToken
	return t
}

func (r *jsonReader) name(t jsonToken, kind jsonKind, name string, v lua.LValue) jsonToken {
	t.kind, t.value = kind, v
	r.pos += len(name)
	return t
}

func (r *jsonReader) number(t jsonToken, rest string) jsonToken {
	f, size := libc.ScanNumber(rest)
	r.c.Touch(size)
	if size == 0 {
		t.kind = jsonBadNumber
		return t
	}
	r.c.ChargeTiny(f, rest[:size])
	t.kind, t.value = jsonNumber, lua.LNumber(f)
	r.pos += size
	return t
}

// jsonOddNumber recognises numbers that strtod accepts and JSON does not.
func jsonOddNumber(s string) bool {
	if s[0] == '+' {
		return true
	}
	s = strings.TrimPrefix(s, "-")
	if len(s) > 1 && s[0] == '0' {
		return s[1]|0x20 == 'x' || libc.IsDigit(s[1])
	}
	return len(s) >= 3 && (strings.EqualFold(s[:3], "inf") || strings.EqualFold(s[:3], "nan"))
}

// string reads a quoted string.
func (r *jsonReader) string() jsonToken {
	bad := func(kind jsonKind) jsonToken { return jsonToken{kind: kind, at: r.pos} }
	at := r.pos
	r.pos++
	out := lauxlib.Buffer{C: r.c}
	for {
		run := r.pos
		for r.pos < len(r.data) && r.data[r.pos] != '"' && r.data[r.pos] != '\\' && r.data[r.pos] != 0 {
			r.pos++
		}
		out.Add(r.data[run:r.pos])
		switch r.byteAt(r.pos) {
		case 0:
			return bad(jsonOpenString)
		case '"':
			r.pos++
			return jsonToken{kind: jsonString, at: at, value: lua.LString(out.Bytes)}
		}
		esc := r.byteAt(r.pos + 1)
		if esc == 'u' {
			if !r.unicode(&out) {
				return bad(jsonBadUnicode)
			}
			continue
		}
		i := strings.IndexByte(`"\/btnfr`, esc)
		if i < 0 {
			return bad(jsonBadEscape)
		}
		out.AddByte("\"\\/\b\t\n\f\r"[i])
		r.pos += 2
	}
}

// unicode reads \u and four hex digits, or two of them that are a surrogate pair, as UTF-8.
func (r *jsonReader) unicode(out *lauxlib.Buffer) bool {
	code, ok := r.hex4(r.pos + 2)
	size := 6
	if ok && code&0xf800 == 0xd800 {
		low, lowOK := r.hex4(r.pos + 8)
		if code&0x400 != 0 || r.byteAt(r.pos+6) != '\\' || r.byteAt(r.pos+7) != 'u' || !lowOK || low&0xfc00 != 0xdc00 {
			return false
		}
		code = (code&0x3ff)<<10 | low&0x3ff + 0x10000
		size = 12
	}
	if !ok {
		return false
	}
	out.Add(string(code))
	r.pos += size
	return true
}

func (r *jsonReader) hex4(at int) (rune, bool) {
	if at+4 > len(r.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(r.data[at:at+4], 16, 32)
	return rune(n), err == nil
}
