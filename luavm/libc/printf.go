package libc

import (
	"math"
	"strconv"
	"strings"
)

// Spec is one conversion of sprintf: %[flags][width][.precision]verb.
type Spec struct {
	Minus, Plus, Space, Alt, Zero bool
	Width                         int
	Precision                     int // -1: none
	Verb                          byte
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func (f Spec) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.Plus:
		return "+"
	case f.Space:
		return " "
	}
	return ""
}

// pad fills prefix+body up to the width.
func (f Spec) pad(body, prefix string) string {
	missing := f.Width - len(prefix) - len(body)
	switch {
	case missing <= 0:
		return prefix + body
	case f.Minus:
		return prefix + body + strings.Repeat(" ", missing)
	case f.Zero:
		return prefix + strings.Repeat("0", missing) + body
	}
	return strings.Repeat(" ", missing) + prefix + body
}

// Text writes s, padded to the width; the precision is the caller's.
func (f Spec) Text(s string) string {
	f.Zero = false
	return f.pad(s, "")
}

// Signed formats %d.
func (f Spec) Signed(n int64) string {
	return f.integer(strconv.FormatUint(magnitude(n), 10), f.sign(n < 0))
}

func (f Spec) integer(digits, prefix string) string {
	if f.Precision >= 0 {
		f.Zero = false
		if f.Precision == 0 && digits == "0" {
			digits = ""
		}
		digits = strings.Repeat("0", max(0, f.Precision-len(digits))) + digits
	}
	return f.pad(digits, prefix)
}

// Unsigned formats %u, %o, %x or %X.
func (f Spec) Unsigned(n uint64) string {
	base, prefix := 10, ""
	switch f.Verb {
	case 'o':
		base = 8
	case 'x', 'X':
		base = 16
	}
	digits := strconv.FormatUint(n, base)
	if f.Alt && n != 0 && base == 16 {
		prefix = "0x"
	}
	if f.Alt && base == 8 && digits[0] != '0' {
		digits = "0" + digits
	}
	if f.Verb == 'X' {
		digits, prefix = strings.ToUpper(digits), strings.ToUpper(prefix)
	}
	return f.integer(digits, prefix)
}

// Float formats %e, %f or %g, and %E or %G.
func (f Spec) Float(x float64) string {
	upper := f.Verb == 'E' || f.Verb == 'G'
	prefix := f.sign(math.Signbit(x))
	body, special := FormatSpecial(math.Abs(x))
	if math.IsNaN(x) {
		body, special = "nan", true
	}
	if special {
		f.Zero = false
	} else {
		body = f.digits(math.Abs(x))
	}
	if upper {
		body = strings.ToUpper(body)
	}
	return f.pad(body, prefix)
}

// digits writes a finite number that is not negative.
func (f Spec) digits(x float64) string {
	precision := f.Precision
	if precision < 0 {
		precision = 6
	}
	verb := f.Verb | 0x20
	if verb == 'g' {
		return f.general(x, max(precision, 1))
	}
	s := strconv.FormatFloat(x, verb, precision, 64)
	if f.Alt && precision == 0 {
		s = withPoint(s)
	}
	return s
}

// general formats %g: the shorter of %e and %f, without trailing zeros unless # demands them.
func (f Spec) general(x float64, precision int) string {
	scientific := strconv.FormatFloat(x, 'e', precision-1, 64)
	e := strings.IndexByte(scientific, 'e')
	exponent, _ := strconv.Atoi(scientific[e+1:])
	if exponent < -4 || exponent >= precision {
		if f.Alt {
			return withPoint(scientific)
		}
		return trimZeros(scientific[:e]) + scientific[e:]
	}
	s := strconv.FormatFloat(x, 'f', precision-1-exponent, 64)
	if f.Alt {
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

// withPoint adds the decimal point that # demands.
func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	if e := strings.IndexByte(s, 'e'); e >= 0 {
		return s[:e] + "." + s[e:]
	}
	return s + "."
}
