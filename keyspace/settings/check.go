package settings

import (
	"math"
	"strconv"
	"strings"

	"lockd/resp"
)

// Check checks a value that CONFIG SET is given. It returns the value as it is kept, or what is wrong with it, in the
// words of Redis.
type Check func(value string) (kept string, err error)

// Text checks for a text of some bytes at most.
func Text(bytesMax int) Check {
	return func(value string) (string, error) {
		if len(value) > bytesMax {
			return "", resp.Errorf("argument may have %d bytes at most", bytesMax)
		}
		return value, nil
	}
}

// Number checks for a whole number.
func Number(least, most int64) Check {
	return func(value string) (string, error) {
		n, ok := resp.ParseInt(value)
		if !ok {
			return "", resp.Error("argument couldn't be parsed into an integer")
		}
		return within(n, least, most)
	}
}

func within(n, least, most int64) (kept string, err error) {
	if n < least || n > most {
		return "", resp.Errorf("argument must be between %d and %d inclusive", least, most)
	}
	return itoa(n), nil
}

// Memory checks for a number of bytes, also in units: 1k is 1000, 1kb is 1024, and so on.
func Memory(least int64) Check {
	return func(value string) (string, error) {
		n, ok := parseMemory(value)
		if !ok {
			return "", resp.Error("argument must be a memory value")
		}
		return within(n, least, math.MaxInt64)
	}
}

// MemoryOrPercent checks for a number of bytes, or a share of all memory as "50%".
func MemoryOrPercent(value string) (kept string, err error) {
	if digits, ok := strings.CutSuffix(value, "%"); ok {
		n, ok := resp.ParseInt(digits)
		switch {
		case !ok || n < 0:
			return "", resp.Error("argument must be a memory or percent value")
		case n > 100:
			return "", resp.Error("percentage argument must be less or equal to 100")
		case n > 0:
			return itoa(n) + "%", nil
		}
		return "0", nil
	}
	if n, ok := parseMemory(value); ok {
		return itoa(n), nil
	}
	return "", resp.Error("argument must be a memory or percent value")
}

func parseMemory(value string) (bytes int64, ok bool) {
	digits := strings.TrimRight(value, "bBkKmMgG")
	unit, known := memoryUnits[strings.ToLower(value[len(digits):])]
	if digits == "" {
		digits = "0" // as in Redis, where an empty value is 0
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || int64(n) > math.MaxInt64/unit {
		return 0, false
	}
	return int64(n) * unit, true
}

var memoryUnits = map[string]int64{
	"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1000 * 1000, "mb": 1 << 20,
	"g": 1000 * 1000 * 1000, "gb": 1 << 30,
}

// YesNo checks for yes or no, in any case.
func YesNo(value string) (kept string, err error) {
	switch {
	case strings.EqualFold(value, "yes"):
		return "yes", nil
	case strings.EqualFold(value, "no"):
		return "no", nil
	}
	return "", resp.Error("argument must be 'yes' or 'no'")
}

// OneOf checks for one of some words, in any case, and keeps the word in its own.
func OneOf(words ...string) Check {
	return func(value string) (string, error) {
		for _, w := range words {
			if strings.EqualFold(value, w) {
				return w, nil
			}
		}
		return "", resp.Error("argument(s) must be one of the following: " + strings.Join(words, ", "))
	}
}

// bufferClasses lists the classes of client-output-buffer-limit, in its order.
var bufferClasses = []string{"normal", "slave", "pubsub"}

// Buffers reads "class hard soft seconds ..." and leaves the classes that it
// does not name as they are in has.
func Buffers(has, value string) (kept string, err error) {
	words, limits := strings.Fields(value), strings.Fields(has)
	if len(words) == 0 || len(words)%4 != 0 {
		return "", resp.Error("Wrong number of arguments in buffer limit configuration.")
	}
	for i := 0; i < len(words); i += 4 {
		at := bufferClass(words[i])
		if at < 0 {
			return "", resp.Error("Invalid client class specified in buffer limit configuration.")
		}
		hard, ok1 := parseMemory(words[i+1])
		soft, ok2 := parseMemory(words[i+2])
		secs, ok3 := resp.ParseInt(words[i+3])
		if !ok1 || !ok2 || !ok3 || secs < 0 {
			return "", resp.Error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		copy(limits[4*at+1:], []string{itoa(hard), itoa(soft), itoa(secs)})
	}
	return strings.Join(limits, " "), nil
}

func bufferClass(word string) int {
	for i, class := range bufferClasses {
		if strings.EqualFold(word, class) || (class == "slave" && strings.EqualFold(word, "replica")) {
			return i
		}
	}
	return -1
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
