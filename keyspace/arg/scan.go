package arg

import (
	"strconv"
	"strings"

	"lockd/resp"
)

// Scan has the arguments of SCAN and HSCAN from the cursor on.
type Scan struct {
	Cursor uint64
	Count  int
	Match  *Glob  // nil: everything
	Kind   string // TYPE, "" without
}

// scanCountMax bounds COUNT: a larger one means everything anyway.
const scanCountMax = 1 << 30

// ParseScan reads the cursor and the options that follow it; withType allows TYPE.
func ParseScan(args resp.Args, withType bool) (o Scan, err error) {
	o.Count = 10
	var ok bool
	if o.Cursor, ok = ParseCursor(args[0]); !ok {
		return o, resp.Error(resp.ErrCursor)
	}
	for i := 1; i < len(args); i += 2 {
		last := i+1 == len(args)
		switch {
		case !last && resp.Is(args[i], "COUNT"):
			n, isInt := resp.ParseInt(args[i+1])
			if !isInt {
				return o, resp.Error(resp.ErrNotInteger)
			}
			if n < 1 {
				return o, resp.Error(resp.ErrSyntax)
			}
			o.Count = int(min(n, scanCountMax))
		case !last && resp.Is(args[i], "MATCH"):
			o.Match = NewGlob(args[i+1])
		case !last && withType && resp.Is(args[i], "TYPE"):
			o.Kind = args[i+1]
		default:
			return o, resp.Error(resp.ErrSyntax)
		}
	}
	return o, nil
}

// ParseCursor reads a cursor as C's strtoul does: a sign may precede the number, and an empty cursor is 0.
func ParseCursor(s string) (uint64, bool) {
	if s == "" {
		return 0, true
	}
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if negative {
		n = -n
	}
	return n, err == nil
}
