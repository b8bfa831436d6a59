package lib

import (
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"
)

func format(c lauxlib.Call) int {
	text := c.Arg(1).Text()
	c.Touch(len(text))
	out := lauxlib.Buffer{C: c}
	arg := 1
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.AddByte(text[i])
			continue
		}
		if i++; i < len(text) && text[i] == '%' {
			out.AddByte('%')
			continue
		}
		arg++
		if arg > c.L.GetTop() {
			c.Arg(arg).Fail("no value")
		}
		var spec libc.Spec
		spec, i = parseSpec(c, text, i)
		convert(&out, spec, arg)
	}
	return out.Push()
}

// Up to fastDigitsMax digits strconv formats a number fast; for more, it takes far longer if the number is small.
const fastDigitsMax, manyDigitsSteps = 17, 200

// parseSpec parses a conversion after its %, and returns the place of its verb.
func parseSpec(c lauxlib.Call, format string, i int) (libc.Spec, int) {
	spec := libc.Spec{Precision: -1}
	from := i
	for ; i < len(format) && strings.IndexByte("-+ #0", format[i]) >= 0; i++ {
		switch format[i] {
		case '-':
			spec.Minus = true
		case '+':
			spec.Plus = true
		case ' ':
			spec.Space = true
		case '#':
			spec.Alt = true
		case '0':
			spec.Zero = true
		}
	}
	if i-from >= len("-+ #0")+1 {
		c.Fail("invalid format (repeated flags)")
	}
	spec.Width, i = twoDigits(format, i)
	if i < len(format) && format[i] == '.' {
		spec.Precision, i = twoDigits(format, i+1)
	}
	if i < len(format) && libc.IsDigit(format[i]) {
		c.Fail("invalid format (width or precision too long)")
	}
	if i < len(format) {
		spec.Verb = format[i]
	}
	if spec.Precision > fastDigitsMax {
		c.Charge(manyDigitsSteps)
	}
	if spec.Verb == 0 || strings.IndexByte("cdiouxXeEfgGqs", spec.Verb) < 0 {
		// C shows the conversion up to the byte that it does not know.
		c.Fail("invalid option '%%%s' to 'format'", libc.CString(format[from:min(i+1, len(format))]))
	}
	return spec, i
}

func twoDigits(s string, i int) (n, end int) {
	for end = i; end < len(s) && end < i+2 && libc.IsDigit(s[end]); end++ {
		n = 10*n + int(s[end]-'0')
	}
	return n, end
}

// convert writes argument arg.
func convert(w *lauxlib.Buffer, spec libc.Spec, arg int) {
	c := w.C
	switch spec.Verb {
	case 'c':
		w.Add(libc.CString(spec.Text(string([]byte{byte(libc.Int32(c.Arg(arg).Number()))}))))
	case 'd', 'i':
		w.Add(spec.Signed(libc.Int64(c.Arg(arg).Number())))
	case 'o', 'u', 'x', 'X':
		w.Add(spec.Unsigned(libc.Uint64(c.Arg(arg).Number())))
	case 'e', 'E', 'f', 'g', 'G':
		w.Add(spec.Float(c.Arg(arg).Number()))
	case 'q':
		quote(w, c.Arg(arg).Text())
	case 's':
		s := c.Arg(arg).Text()
		if spec.Precision < 0 && len(s) >= 100 {
			w.Add(s) // too long to be formatted, so it is kept whole
			return
		}
		s = libc.CString(s)
		if spec.Precision >= 0 && len(s) > spec.Precision {
			s = s[:spec.Precision]
		}
		w.Add(spec.Text(s))
	}
}

// quote writes s as Lua source.
func quote(w *lauxlib.Buffer, s string) {
	w.AddByte('"')
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\\', '\n':
			w.AddByte('\\')
			w.AddByte(s[i])
		case '\r':
			w.Add("\\r")
		case 0:
			w.Add("\\000")
		default:
			w.AddByte(s[i])
		}
	}
	w.AddByte('"')
}
