package luavm

import (
	"math"
	"strconv"
	"strings"
)

// string.format, which is C's sprintf with Lua's limits.

// formatSpec is one conversion: %[flags][width][.precision]verb.
type formatSpec struct {
	minus, plus, space, alt, zero bool
	width                         int
	precision                     int // -1: none
	verb                          byte
}

func format(c libCall) int {
	text := c.text(1)
	c.touch(len(text))
	out := libBuffer{c: c}
	arg := 1
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.addByte(text[i])
			continue
		}
		if i++; i < len(text) && text[i] == '%' {
			out.addByte('%')
			continue
		}
		arg++
		if arg > c.L.GetTop() {
			c.argError(arg, "no value")
		}
		var spec formatSpec
		spec, i = parseSpec(c, text, i)
		convert(&out, spec, arg)
	}
	return out.push()
}

// Up to fastDigitsMax digits of a number are written fast; for more, strconv takes
// 20 microseconds where the number is small.
const fastDigitsMax, manyDigitsSteps = 17, 200

// parseSpec reads a conversion behind its %, and tells where its verb stands.
func parseSpec(c libCall, format string, i int) (formatSpec, int) {
	spec := formatSpec{precision: -1}
	from := i
	for ; i < len(format) && strings.IndexByte("-+ #0", format[i]) >= 0; i++ {
		switch format[i] {
		case '-':
			spec.minus = true
		case '+':
			spec.plus = true
		case ' ':
			spec.space = true
		case '#':
			spec.alt = true
		case '0':
			spec.zero = true
		}
	}
	if i-from >= len("-+ #0")+1 {
		c.fail("invalid format (repeated flags)")
	}
	spec.width, i = twoDigits(format, i)
	if i < len(format) && format[i] == '.' {
		spec.precision, i = twoDigits(format, i+1)
	}
	if i < len(format) && format[i] >= '0' && format[i] <= '9' {
		c.fail("invalid format (width or precision too long)")
	}
	if i < len(format) {
		spec.verb = format[i]
	}
	if spec.precision > fastDigitsMax {
		c.charge(manyDigitsSteps)
	}
	if spec.verb == 0 || strings.IndexByte("cdiouxXeEfgGqs", spec.verb) < 0 {
		// C shows the conversion up to the byte that it does not know.
		c.fail("invalid option '%%%s' to 'format'", cText(format[from:min(i+1, len(format))]))
	}
	return spec, i
}

func twoDigits(s string, i int) (n, end int) {
	for end = i; end < len(s) && end < i+2 && s[end] >= '0' && s[end] <= '9'; end++ {
		n = 10*n + int(s[end]-'0')
	}
	return n, end
}

// convert writes argument arg.
func convert(w *libBuffer, spec formatSpec, arg int) {
	c := w.c
	switch spec.verb {
	case 'c':
		w.add(cText(spec.text(string([]byte{byte(truncInt32(c.number(arg)))}))))
	case 'd', 'i':
		w.add(spec.signed(truncInt64(c.number(arg))))
	case 'o', 'u', 'x', 'X':
		w.add(spec.unsigned(truncUint64(c.number(arg))))
	case 'e', 'E', 'f', 'g', 'G':
		w.add(spec.float(c.number(arg)))
	case 'q':
		quote(w, c.text(arg))
	case 's':
		s := c.text(arg)
		if spec.precision < 0 && len(s) >= 100 {
			w.add(s) // too long to be formatted, and kept whole
			return
		}
		s = cText(s)
		if spec.precision >= 0 && len(s) > spec.precision {
			s = s[:spec.precision]
		}
		w.add(spec.text(s))
	}
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func (f formatSpec) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.plus:
		return "+"
	case f.space:
		return " "
	}
	return ""
}

// pad fills prefix+body up to the width.
func (f formatSpec) pad(body, prefix string) string {
	missing := f.width - len(prefix) - len(body)
	switch {
	case missing <= 0:
		return prefix + body
	case f.minus:
		return prefix + body + strings.Repeat(" ", missing)
	case f.zero:
		return prefix + strings.Repeat("0", missing) + body
	}
	return strings.Repeat(" ", missing) + prefix + body
}

// text writes s; it is no shorter than the width.
func (f formatSpec) text(s string) string {
	f.zero = false
	return f.pad(s, "")
}

func (f formatSpec) signed(n int64) string {
	return f.integer(strconv.FormatUint(magnitude(n), 10), f.sign(n < 0))
}

func (f formatSpec) integer(digits, prefix string) string {
	if f.precision >= 0 {
		f.zero = false
		if f.precision == 0 && digits == "0" {
			digits = ""
		}
		digits = strings.Repeat("0", max(0, f.precision-len(digits))) + digits
	}
	return f.pad(digits, prefix)
}

func (f formatSpec) unsigned(n uint64) string {
	base, prefix := 10, ""
	switch f.verb {
	case 'o':
		base = 8
	case 'x', 'X':
		base = 16
	}
	digits := strconv.FormatUint(n, base)
	if f.alt && n != 0 && base == 16 {
		prefix = "0x"
	}
	if f.alt && base == 8 && digits[0] != '0' {
		digits = "0" + digits
	}
	if f.verb == 'X' {
		digits, prefix = strings.ToUpper(digits), strings.ToUpper(prefix)
	}
	return f.integer(digits, prefix)
}

func (f formatSpec) float(x float64) string {
	upper := f.verb == 'E' || f.verb == 'G'
	prefix := f.sign(math.Signbit(x))
	body, special := formatSpecial(math.Abs(x))
	if math.IsNaN(x) {
		body, special = "nan", true
	}
	if special {
		f.zero = false
	} else {
		body = f.digits(math.Abs(x))
	}
	if upper {
		body = strings.ToUpper(body)
	}
	return f.pad(body, prefix)
}

// digits writes a finite number that is not negative.
func (f formatSpec) digits(x float64) string {
	precision := f.precision
	if precision < 0 {
		precision = 6
	}
	verb := f.verb | 0x20
	if verb == 'g' {
		return f.general(x, max(precision, 1))
	}
	s := strconv.FormatFloat(x, verb, precision, 64)
	if f.alt && precision == 0 {
		s = withPoint(s)
	}
	return s
}

// general is %g: the shorter of %e and %f, without trailing zeros unless # asks
// for them.
func (f formatSpec) general(x float64, precision int) string {
	scientific := strconv.FormatFloat(x, 'e', precision-1, 64)
	e := strings.IndexByte(scientific, 'e')
	exponent, _ := strconv.Atoi(scientific[e+1:])
	if exponent < -4 || exponent >= precision {
		if f.alt {
			return withPoint(scientific)
		}
		return trimZeros(scientific[:e]) + scientific[e:]
	}
	s := strconv.FormatFloat(x, 'f', precision-1-exponent, 64)
	if f.alt {
		return withPoint(s)
	}
	return trimZeros(s)
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// withPoint adds the decimal point that # asks for.
func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	if e := strings.IndexByte(s, 'e'); e >= 0 {
		return s[:e] + "." + s[e:]
	}
	return s + "."
}

// quote writes s as Lua source.
func quote(w *libBuffer, s string) {
	w.addByte('"')
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\\', '\n':
			w.addByte('\\')
			w.addByte(s[i])
		case '\r':
			w.add("\\r")
		case 0:
			w.add("\\000")
		default:
			w.addByte(s[i])
		}
	}
	w.addByte('"')
}
