// Package arg reads arguments that commands of several families have: numbers, counts, the options of scans, patterns.
// Its errors are in Redis's words. It knows nothing of the machine.
package arg

import (
	"math"
	"strings"

	"lockd/resp"
)

// The error texts of arguments that several families of commands have.
const (
	ErrNotPositive   = "ERR value is out of range, must be positive"
	ErrCountRange    = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
	ErrNumKeys       = "ERR numkeys should be greater than 0"
	ErrLimitNegative = "ERR LIMIT can't be negative"
	errCountZero     = "ERR count should be greater than 0"
)

// Positive reads a number that may not be negative.
func Positive(number string) (n int64, err error) {
	return AtLeast(0, number, ErrNotPositive)
}

// AtLeast reads a number of at least least; text is the error for anything else.
func AtLeast(least int64, number, text string) (n int64, err error) {
	n, ok := resp.ParseInt(number)
	if !ok || n < least {
		return 0, resp.Error(text)
	}
	return n, nil
}

// Count counts the elements that a command takes: 1 unless it is Given.
type Count struct {
	Given bool
	N     int64
}

// OptionalCount reads the count that may follow the key of a command.
func OptionalCount(args resp.Args) (c Count, err error) {
	switch len(args) {
	case 2:
		return Count{N: 1}, nil
	case 3:
		c.Given = true
		c.N, err = Positive(args[2])
		return c, err
	}
	return c, resp.Error(resp.ErrSyntax)
}

// DatabaseIndex reads the number of a database, which is below databases.
func DatabaseIndex(number string, databases int64) (db int, err error) {
	n, isInt := resp.ParseInt(number)
	switch {
	case !isInt:
		return 0, resp.Error(resp.ErrNotInteger)
	case n != int64(int32(n)):
		return 0, resp.Error("ERR value is out of range, value must between -2147483648 and 2147483647")
	case n < 0 || n >= databases:
		return 0, resp.Error(resp.ErrDBIndex)
	}
	return int(n), nil
}

// FlushMode reports whether the arguments end with nothing, ASYNC or SYNC, which all mean the same here: the garbage
// collector frees the database.
func FlushMode(args resp.Args) bool {
	return len(args) == 1 || (len(args) == 2 && (resp.Is(args[1], "ASYNC") || resp.Is(args[1], "SYNC")))
}

// FromEnd returns the position of an index among n elements: a negative index counts from the end, and one before the
// first element means the first.
func FromEnd(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return max(i, 0)
}

// DrawsMax bounds the draws of one HRANDFIELD with a negative count, which may draw a field many times. Redis has no
// such bound.
const DrawsMax = 1 << 20

// DrawCount reads the count, and the word with, which may follow it, in the order of Redis's checks.
func DrawCount(args resp.Args, with string) (count int64, withValues bool, err error) {
	count, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return 0, false, resp.Error(resp.ErrNotInteger)
	case count < -math.MaxInt64:
		return 0, false, resp.Error(ErrCountRange)
	case len(args) > 4 || len(args) == 4 && !resp.Is(args[3], with):
		return 0, false, resp.Error(resp.ErrSyntax)
	}
	withValues = len(args) == 4
	if withValues && (count > math.MaxInt64/2 || count < -math.MaxInt64/2) || count < -DrawsMax {
		return 0, false, resp.Error(resp.ErrOutOfRange)
	}
	return count, withValues, nil
}

// Pop has the arguments of LMPOP and ZMPOP.
type Pop struct {
	Keys  []string
	End   int // of which elements are taken: 0 or 1, the place of its word
	Count int64
}

// ParsePop reads numkeys key [key ...] <first | last> [COUNT count].
func ParsePop(args resp.Args, first, last string) (o Pop, err error) {
	n, err := AtLeast(1, args[0], ErrNumKeys)
	if err != nil {
		return o, err
	}
	args = args[1:]
	if n >= int64(len(args)) {
		return o, resp.Error(resp.ErrSyntax)
	}
	o.Keys, args = args[:n], args[n:]
	switch {
	case resp.Is(args[0], first):
	case resp.Is(args[0], last):
		o.End = 1
	default:
		return o, resp.Error(resp.ErrSyntax)
	}
	if len(args) == 1 {
		o.Count = 1
		return o, nil
	}
	if len(args) == 2 || !resp.Is(args[1], "COUNT") {
		return o, resp.Error(resp.ErrSyntax)
	}
	o.Count, err = AtLeast(1, args[2], errCountZero)
	if err == nil && len(args) > 3 {
		err = resp.Error(resp.ErrSyntax)
	}
	return o, err
}

// CText returns a text up to its first NUL, as C prints it.
func CText(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}
