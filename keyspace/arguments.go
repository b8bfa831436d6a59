package keyspace

import "lockd/resp"

// The error texts of arguments that several families of commands have.
const (
	errNotPositive   = "ERR value is out of range, must be positive"
	errCountRange    = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
	errNumKeys       = "ERR numkeys should be greater than 0"
	errLimitNegative = "ERR LIMIT can't be negative"
)

// parsePositive reads a number that may not be negative.
func parsePositive(number string) (n int64, err error) {
	return parseAtLeast(0, number, errNotPositive)
}

// parseAtLeast reads a number that may not be less; text is the error, also for what
// is no number.
func parseAtLeast(least int64, number, text string) (n int64, err error) {
	n, ok := resp.ParseInt(number)
	if !ok || n < least {
		return 0, resp.Error(text)
	}
	return n, nil
}

// databaseIndex reads the number of a database.
func databaseIndex(number string) (db int, err error) {
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

// flushMode checks ASYNC or SYNC, which mean the same here: a database is let go,
// and the collector takes it.
func flushMode(args resp.Args) bool {
	return len(args) == 1 || (len(args) == 2 && (resp.Is(args[1], "ASYNC") || resp.Is(args[1], "SYNC")))
}

// fromEnd is the position that an index means in a row of n; a negative one counts from the end, and what
// is before the first is the first.
func fromEnd(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	return max(i, 0)
}

// randomFieldsMax bounds the fields of one HRANDFIELD with a negative count, which
// may name a field again and again: Redis has no bound there but its memory.
const randomFieldsMax = 1 << 20

// randomCount reads the count and the word with that may follow it, in the order of
// Redis's checks.
func randomCount(args resp.Args, with string) (count int64, withValues bool, err error) {
	count, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return 0, false, resp.Error(resp.ErrNotInteger)
	case count < -maxInt:
		return 0, false, resp.Error(errCountRange)
	case len(args) > 4 || len(args) == 4 && !resp.Is(args[3], with):
		return 0, false, resp.Error(resp.ErrSyntax)
	}
	withValues = len(args) == 4
	if withValues && (count > maxInt/2 || count < -maxInt/2) || count < -randomFieldsMax {
		return 0, false, resp.Error(resp.ErrOutOfRange)
	}
	return count, withValues, nil
}
