package resp

import (
	"math"
	"strconv"
	"strings"
)

// AppendTo appends r to dst in the given protocol version (2 or 3) and returns
// the extended slice. It is the one switch between RESP2 and RESP3: whatever a
// command answers, the fallback for older clients is decided here.
func (r Reply) AppendTo(dst []byte, proto int) []byte {
	v3 := proto >= 3
	switch r.Kind {
	case KindNone:
		return dst
	case KindStatus:
		return appendLine(dst, '+', r.Str)
	case KindError:
		return appendLine(dst, '-', r.Str)
	case KindInt:
		return appendNumber(dst, ':', r.Int)
	case KindBulk:
		return appendBulk(dst, r.Str)
	case KindNil:
		if v3 {
			return append(dst, "_\r\n"...)
		}
		return append(dst, "$-1\r\n"...)
	case KindNilArray:
		if v3 {
			return append(dst, "_\r\n"...)
		}
		return append(dst, "*-1\r\n"...)
	case KindArray:
		return r.appendElems(appendNumber(dst, '*', int64(len(r.Elems))), proto)
	case KindMap:
		if v3 {
			return r.appendElems(appendNumber(dst, '%', int64(len(r.Elems)/2)), proto)
		}
		return r.appendElems(appendNumber(dst, '*', int64(len(r.Elems))), proto)
	case KindSet:
		return r.appendElems(appendNumber(dst, pick(v3, '~', '*'), int64(len(r.Elems))), proto)
	case KindPush:
		return r.appendElems(appendNumber(dst, pick(v3, '>', '*'), int64(len(r.Elems))), proto)
	case KindPairs:
		if v3 {
			return r.appendPairs(dst, proto)
		}
		return r.appendElems(appendNumber(dst, '*', int64(len(r.Elems))), proto)
	case KindPairMap:
		if v3 {
			return r.appendElems(appendNumber(dst, '%', int64(len(r.Elems)/2)), proto)
		}
		return r.appendPairs(dst, proto)
	case KindDouble:
		text := FormatDouble(r.Float())
		if v3 {
			return append(append(append(dst, ','), text...), '\r', '\n')
		}
		return appendBulk(dst, text)
	case KindBool:
		if v3 {
			return append(append(dst, '#', pick(r.Int != 0, 't', 'f')), '\r', '\n')
		}
		return appendNumber(dst, ':', r.Int)
	case KindBigNumber:
		if v3 {
			return appendLine(dst, '(', r.Str)
		}
		return appendBulk(dst, r.Str)
	case KindVerbatim:
		if v3 {
			dst = appendNumber(dst, '=', int64(len(r.Str)+len("txt:")))
			return append(append(append(dst, "txt:"...), r.Str...), '\r', '\n')
		}
		return appendBulk(dst, r.Str)
	}
	panic("resp: reply of unknown kind " + strconv.Itoa(int(r.Kind)))
}

func (r Reply) appendElems(dst []byte, proto int) []byte {
	for i := range r.Elems {
		dst = r.Elems[i].AppendTo(dst, proto)
	}
	return dst
}

func (r Reply) appendPairs(dst []byte, proto int) []byte {
	dst = appendNumber(dst, '*', int64(len(r.Elems)/2))
	for i := 0; i+1 < len(r.Elems); i += 2 {
		dst = append(dst, "*2\r\n"...)
		dst = r.Elems[i].AppendTo(dst, proto)
		dst = r.Elems[i+1].AppendTo(dst, proto)
	}
	return dst
}

// doubleIntMax bounds the whole numbers that FormatDouble writes as integers.
const doubleIntMax = 1 << 62

// Size returns an upper bound, in bytes, of what AppendTo appends. It counts without encoding, so that a reply too
// large to send is refused before it is built.
func (r Reply) Size() int64 {
	const frame = 32 // mark, length or number, line breaks
	size := int64(frame + len(r.Str))
	for i := range r.Elems {
		size += r.Elems[i].Size()
	}
	return size
}

// FormatDouble writes f as Redis 7.2 does in a double reply: whole numbers as integers, others with the shortest
// digits that read back as f, with an exponent only where that is much shorter; "inf", "-inf" and "nan" otherwise.
func FormatDouble(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	case f == 0 && math.Signbit(f):
		return "-0"
	case f == math.Trunc(f) && math.Abs(f) <= doubleIntMax:
		return strconv.FormatInt(int64(f), 10)
	case f < 0:
		return "-" + formatDigits(-f)
	}
	return formatDigits(f)
}

// formatDigits writes a positive number in the layout of fpconv, which Redis
// uses: f is digits * 10^scale.
func formatDigits(f float64) string {
	mantissa, power, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	exp, _ := strconv.Atoi(power)
	scale := exp - len(digits) + 1
	switch {
	case scale >= 0 && exp < len(digits)+7:
		return digits + strings.Repeat("0", scale)
	case scale < 0 && exp < 0 && (scale > -7 || exp > -4):
		return "0." + strings.Repeat("0", -exp-1) + digits
	case scale < 0 && exp >= 0 && (scale > -7 || exp < 4):
		return digits[:exp+1] + "." + digits[exp+1:]
	case exp < 0:
		return mantissa + "e" + strconv.Itoa(exp)
	}
	return mantissa + "e+" + strconv.Itoa(exp)
}

// AppendCommand appends a command as a client sends it: an array of bulk strings.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = appendNumber(dst, '*', int64(len(args)))
	for _, a := range args {
		dst = appendBulk(dst, a)
	}
	return dst
}

// appendLine writes a one-line reply. A line break inside the text would let a
// client's input forge a reply, so it becomes a space, as in Redis.
func appendLine(dst []byte, mark byte, text string) []byte {
	dst = append(dst, mark)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\r', '\n')
}

func appendNumber(dst []byte, mark byte, n int64) []byte {
	dst = append(dst, mark)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

func appendBulk(dst []byte, s string) []byte {
	dst = appendNumber(dst, '$', int64(len(s)))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

func pick(cond bool, yes, no byte) byte {
	if cond {
		return yes
	}
	return no
}
