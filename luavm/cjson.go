package luavm

import (
	"math"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// cjson is lua-cjson 2.1.0 as Redis has it. One difference is meant: in Redis a
// setting such as encode_max_depth stays for all scripts until the server is
// restarted, so that replicas of different age differ. Here it ends with the run
// that made it.

// cjsonNull is cjson.null. Like C's null pointer there is but one, for all VMs;
// nothing can change it.
var cjsonNull = &lua.LUserData{Metatable: lua.LNil}

// cjsonConfig holds one library table's settings.
type cjsonConfig struct {
	cjsonSettings
	run uint64 // the run of the budget that the settings belong to
}

type cjsonSettings struct {
	sparseConvert, keepBuffer    int // 0 off, 1 on
	sparseRatio, sparseSafe      int
	encodeDepthMax               int
	decodeDepthMax               int
	precision                    int
	encodeInvalid, decodeInvalid int // 0 off, 1 on; encodeInvalid 2: as null
}

var cjsonDefaults = cjsonSettings{
	sparseRatio: 2, sparseSafe: 10, encodeDepthMax: 1000, decodeDepthMax: 1000,
	precision: 14, keepBuffer: 1, decodeInvalid: 1,
}

// current returns the settings of this run.
func (cfg *cjsonConfig) current(b *budget) *cjsonSettings {
	if cfg.run != b.run {
		cfg.cjsonSettings, cfg.run = cjsonDefaults, b.run
	}
	return &cfg.cjsonSettings
}

// openCJSON makes the table of the library cjson.
func openCJSON(L *lua.LState, b *budget) *lua.LTable {
	cfg := &cjsonConfig{cjsonSettings: cjsonDefaults, run: b.run}
	// with gives a function the settings of the run, once it has few enough
	// arguments; one, once it has exactly one.
	with := func(args int, set func(c libCall, s *cjsonSettings) int) func(libCall) int {
		return func(c libCall) int {
			if c.L.GetTop() > args {
				c.argError(args+1, "found too many arguments")
			}
			return set(c, cfg.current(c.b))
		}
	}
	one := func(run func(c libCall, s *cjsonSettings) int) func(libCall) int {
		return func(c libCall) int {
			if c.L.GetTop() != 1 {
				c.argError(1, "expected 1 argument")
			}
			return run(c, cfg.current(c.b))
		}
	}
	t := newLibrary(L, b, []libFunc{
		{"encode", one(cjsonEncode)},
		{"decode", one(cjsonDecode)},
		{"encode_sparse_array", with(3, cjsonSparseArray)},
		{"encode_max_depth", with(1, func(c libCall, s *cjsonSettings) int {
			return intSetting(c, 1, &s.encodeDepthMax, 1, math.MaxInt32)
		})},
		{"decode_max_depth", with(1, func(c libCall, s *cjsonSettings) int {
			return intSetting(c, 1, &s.decodeDepthMax, 1, math.MaxInt32)
		})},
		{"encode_number_precision", with(1, func(c libCall, s *cjsonSettings) int {
			return intSetting(c, 1, &s.precision, 1, 14)
		})},
		{"encode_keep_buffer", with(1, func(c libCall, s *cjsonSettings) int {
			return enumSetting(c, 1, &s.keepBuffer, "off", "on")
		})},
		{"encode_invalid_numbers", with(1, func(c libCall, s *cjsonSettings) int {
			return enumSetting(c, 1, &s.encodeInvalid, "off", "on", "null")
		})},
		{"decode_invalid_numbers", with(1, func(c libCall, s *cjsonSettings) int {
			return enumSetting(c, 1, &s.decodeInvalid, "off", "on")
		})},
		{"new", func(c libCall) int {
			c.need(10 * (tableBytes + entryBytes))
			c.L.Push(openCJSON(c.L, c.b))
			return 1
		}},
	})
	t.RawSetString("null", cjsonNull)
	t.RawSetString("_NAME", lua.LString("cjson"))
	t.RawSetString("_VERSION", lua.LString("2.1.0"))
	return t
}

// intSetting takes argument n, if it is there, and pushes the setting. A value
// out of range is reported as argument 1, whichever it is, as in the original.
func intSetting(c libCall, n int, setting *int, least, most int) int {
	if c.L.Get(n) != lua.LNil {
		v := int(int32(c.integer(n)))
		if v < least || v > most {
			c.argError(1, "expected integer between "+strconv.Itoa(least)+" and "+strconv.Itoa(most))
		}
		*setting = v
	}
	c.L.Push(lua.LNumber(*setting))
	return 1
}

// enumSetting takes argument n, if it is there: a boolean or one of the words.
func enumSetting(c libCall, n int, setting *int, words ...string) int {
	switch v := c.L.Get(n).(type) {
	case *lua.LNilType:
	case lua.LBool:
		*setting = 0
		if v {
			*setting = 1
		}
	default:
		word, _, _ := strings.Cut(c.text(n), "\x00") // a C string
		i := slices.Index(words, word)
		if i < 0 {
			c.need(len(word))
			c.argError(n, "invalid option '"+word+"'")
		}
		*setting = i
	}
	if *setting < 2 {
		c.L.Push(lua.LBool(*setting == 1))
	} else {
		c.L.Push(lua.LString(words[*setting]))
	}
	return 1
}

func cjsonSparseArray(c libCall, s *cjsonSettings) int {
	c.L.SetTop(3) // missing arguments are nil, not the results pushed below
	enumSetting(c, 1, &s.sparseConvert, "off", "on")
	intSetting(c, 2, &s.sparseRatio, 0, math.MaxInt32)
	intSetting(c, 3, &s.sparseSafe, 0, math.MaxInt32)
	return 3
}

// jsonWriter encodes.
type jsonWriter struct {
	libBuffer
	*cjsonSettings
}

func cjsonEncode(c libCall, s *cjsonSettings) int {
	w := &jsonWriter{libBuffer{c: c}, s}
	w.value(c.L.Get(1), 0, 1)
	return w.push()
}

// value writes v. depth counts the tables around it, used what the original
// would have on its stack, which bounds the nesting when the depth is set higher.
func (w *jsonWriter) value(v lua.LValue, depth, used int) {
	switch v := v.(type) {
	case lua.LString:
		w.string(string(v))
	case lua.LNumber:
		w.number(float64(v))
	case lua.LBool:
		w.add(strconv.FormatBool(bool(v)))
	case *lua.LNilType:
		w.add("null")
	case *lua.LTable:
		w.table(v, depth+1, used)
	default:
		if v != cjsonNull {
			w.refuse(v, "type not supported")
		}
		w.add("null")
	}
}

func (w *jsonWriter) refuse(v lua.LValue, why string) {
	w.c.fail("Cannot serialise %s: %s", v.Type().String(), why)
}

func (w *jsonWriter) table(t *lua.LTable, depth, used int) {
	if depth > w.encodeDepthMax || used+3 > cStackMax {
		w.c.fail("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n := w.arrayLen(t); n > 0 {
		w.array(t, n, depth, used)
	} else {
		w.object(t, depth, used)
	}
}

// arrayLen is the greatest index of a table that has indices only, as the
// original computes it in C's int; -1 if the table is no array.
func (w *jsonWriter) arrayLen(t *lua.LTable) int {
	w.c.scan(t)
	most, items := 0, 0
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		f, ok := k.(lua.LNumber)
		if !ok || f < 1 || float64(f) != math.Floor(float64(f)) {
			return -1
		}
		if f > lua.LNumber(most) {
			most = int(truncInt32(float64(f)))
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
	w.addByte('[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			w.addByte(',')
		}
		w.value(t.RawGet(lua.LNumber(i)), depth, used+1)
	}
	w.addByte(']')
}

func (w *jsonWriter) object(t *lua.LTable, depth, used int) {
	w.c.scan(t)
	w.addByte('{')
	first := true
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !first {
			w.addByte(',')
		}
		first = false
		switch k := k.(type) {
		case lua.LNumber:
			w.addByte('"')
			w.number(float64(k))
			w.addByte('"')
		case lua.LString:
			w.string(string(k))
		default:
			w.refuse(k, "table key must be a number or string")
		}
		w.addByte(':')
		w.value(v, depth, used+2)
	}
	w.addByte('}')
}

func (w *jsonWriter) number(f float64) {
	finite := !math.IsInf(f, 0) && !math.IsNaN(f)
	switch {
	case finite && w.precision == 14:
		w.add(formatNumber(f))
	case finite:
		w.add(strconv.FormatFloat(f, 'g', w.precision, 64))
	case w.encodeInvalid == 0:
		w.refuse(lua.LNumber(f), "must not be NaN or Inf")
	case w.encodeInvalid == 2:
		w.add("null")
	case math.IsNaN(f):
		w.add("nan")
	default:
		w.add(formatNumber(f))
	}
}

// string writes s quoted. Bytes from 128 up pass as they are, valid or not.
func (w *jsonWriter) string(s string) {
	w.c.need(bufferPrice * (len(s) + 2))
	w.bytes = append(w.bytes, '"')
	for i := 0; i < len(s); i++ {
		if esc := jsonEscape(s[i]); esc != "" {
			w.add(esc)
		} else {
			w.bytes = append(w.bytes, s[i])
		}
	}
	w.bytes = append(w.bytes, '"')
}

// jsonEscape is how a byte is written that cannot stand for itself.
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

// jsonToken is what the text holds at one place.
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

// jsonReader decodes. Beyond the end of data it reads NUL, which ends the text
// wherever it stands, as in C.
type jsonReader struct {
	c libCall
	*cjsonSettings
	data string
	pos  int
}

func cjsonDecode(c libCall, s *cjsonSettings) int {
	r := &jsonReader{c: c, cjsonSettings: s, data: c.text(1)}
	if len(r.data) >= 2 && (r.data[0] == 0 || r.data[1] == 0) {
		c.fail("JSON parser does not support UTF-16 or UTF-32")
	}
	v := r.value(r.next(), 0, 1)
	if t := r.next(); t.kind != jsonEnd {
		r.refuse("the end", t)
	}
	c.L.Push(v)
	return 1
}

func (r *jsonReader) refuse(want string, found jsonToken) {
	r.c.fail("Expected %s but found %s at character %d", want, string(found.kind), found.at+1)
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
	if depth > r.decodeDepthMax || used+slots > cStackMax {
		r.c.fail("Found too many nested data structures (%d) at character %d", depth, r.pos)
	}
}

func (r *jsonReader) object(depth, used int) lua.LValue {
	r.descend(depth, used, 3)
	object := r.c.newTable()
	t := r.next()
	if t.kind == jsonObjectEnd {
		return object.table()
	}
	for {
		if t.kind != jsonString {
			r.refuse("object key string", t)
		}
		key := t.value
		if t = r.next(); t.kind != jsonColon {
			r.refuse("colon", t)
		}
		object.set(key, r.value(r.next(), depth, used+2))
		if t = r.next(); t.kind == jsonObjectEnd {
			return object.table()
		}
		if t.kind != jsonComma {
			r.refuse("comma or object end", t)
		}
		t = r.next()
	}
}

func (r *jsonReader) array(depth, used int) lua.LValue {
	r.descend(depth, used, 2)
	array := r.c.newTable()
	t := r.next()
	if t.kind == jsonArrayEnd {
		return array.table()
	}
	for i := 1; ; i++ {
		array.set(lua.LNumber(i), r.value(t, depth, used+1))
		if t = r.next(); t.kind == jsonArrayEnd {
			return array.table()
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
	r.c.touch(r.pos - start)
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
	case b == '-' || b >= '0' && b <= '9':
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
	f, size := scanNumber(rest)
	r.c.touch(size)
	if size == 0 {
		t.kind = jsonBadNumber
		return t
	}
	r.c.chargeTiny(f, rest[:size])
	t.kind, t.value = jsonNumber, lua.LNumber(f)
	r.pos += size
	return t
}

// jsonOddNumber recognises numbers that strtod takes and JSON does not have.
func jsonOddNumber(s string) bool {
	if s[0] == '+' {
		return true
	}
	s = strings.TrimPrefix(s, "-")
	if len(s) > 1 && s[0] == '0' {
		return s[1]|0x20 == 'x' || s[1] >= '0' && s[1] <= '9'
	}
	return len(s) >= 3 && (strings.EqualFold(s[:3], "inf") || strings.EqualFold(s[:3], "nan"))
}

// string reads a quoted string.
func (r *jsonReader) string() jsonToken {
	bad := func(kind jsonKind) jsonToken { return jsonToken{kind: kind, at: r.pos} }
	at := r.pos
	r.pos++
	out := libBuffer{c: r.c}
	for {
		run := r.pos
		for r.pos < len(r.data) && r.data[r.pos] != '"' && r.data[r.pos] != '\\' && r.data[r.pos] != 0 {
			r.pos++
		}
		out.add(r.data[run:r.pos])
		switch r.byteAt(r.pos) {
		case 0:
			return bad(jsonOpenString)
		case '"':
			r.pos++
			return jsonToken{kind: jsonString, at: at, value: lua.LString(out.bytes)}
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
		out.addByte("\"\\/\b\t\n\f\r"[i])
		r.pos += 2
	}
}

// unicode reads \u and four hex digits, or two of them that are a surrogate pair, as UTF-8.
func (r *jsonReader) unicode(out *libBuffer) bool {
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
	out.add(string(code))
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

// scanNumber reads a number at the start of s as C's strtod does, and says how
// many bytes it took; 0 if there is none.
func scanNumber(s string) (float64, int) {
	sign := 0
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign = 1
	}
	size := 0
	switch rest := s[sign:]; {
	case foldPrefix(rest, "infinity"):
		size = len("infinity")
	case foldPrefix(rest, "inf"):
		size = len("inf")
	case foldPrefix(rest, "nan"):
		size = len("nan") + nanPayload(rest[len("nan"):])
	case foldPrefix(rest, "0x"):
		size = scanDigits(rest[2:], isHexDigit, 'p')
		if size > 0 {
			size += len("0x")
		} else {
			size = 1 // the 0 before the x
		}
	default:
		size = scanDigits(rest, isDigit, 'e')
	}
	if size == 0 {
		return 0, 0
	}
	f, _ := parseNumber(s[:sign+size])
	return oneNaN(f), sign + size
}

// scanDigits is the length of digits, with one point in them, and an exponent; 0
// without digits.
func scanDigits(s string, digit func(byte) bool, exponent byte) int {
	i, digits, point := 0, 0, false
	for ; i < len(s); i++ {
		if digit(s[i]) {
			digits++
		} else if s[i] != '.' || point {
			break
		} else {
			point = true
		}
	}
	if digits == 0 {
		return 0
	}
	if i < len(s) && s[i]|0x20 == exponent {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		first := j
		for j < len(s) && isDigit(s[j]) {
			j++
		}
		if j > first {
			return j
		}
	}
	return i
}

// nanPayload is the length of "(letters)" behind nan, which strtod swallows.
func nanPayload(s string) int {
	if s == "" || s[0] != '(' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		if s[i] == ')' {
			return i + 1
		}
		if !isAlnum(s[i]) && s[i] != '_' {
			break
		}
	}
	return 0
}

func foldPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func isDigit(b byte) bool    { return b >= '0' && b <= '9' }
func isHexDigit(b byte) bool { return isDigit(b) || b|0x20 >= 'a' && b|0x20 <= 'f' }
