package arg

import (
	"strconv"
	"strings"

	"lockd/resp"
)

const (
	secondMs = 1000
	minuteMs = 60 * secondMs
	hourMs   = 60 * minuteMs
	dayMs    = 24 * hourMs
)

// errTime is the error of ParseTime.
const errTime = "ERR a time is 14:03, 2026-11-22T14:03:07.212Z (both UTC) or -10m (s, m, h, d)"

// ParseTime reads a time, in milliseconds since 1970: a time of day in the 24 hours before nowMs, a date with a time,
// or a duration before nowMs.
func ParseTime(word string, nowMs int64) (ms int64, err error) {
	var ok bool
	date, clock, dated := strings.Cut(word, "T")
	switch {
	case strings.HasPrefix(word, "-"):
		ms, ok = parseAgo(word[1:])
		ms = nowMs - ms
	case dated:
		var days, of int64
		days, ok = parseDate(date)
		if ok {
			of, ok = parseClock(strings.TrimSuffix(clock, "Z"))
		}
		ms = days*dayMs + of
	default:
		ms, ok = parseClock(word)
		if ms += nowMs - floorMod(nowMs, dayMs); ms > nowMs {
			ms -= dayMs
		}
	}
	if !ok {
		return 0, resp.Error(errTime)
	}
	return ms, nil
}

// agoMax bounds a duration before now, in its unit; in days it is a few thousand years.
const agoMax = 1 << 20

func parseAgo(word string) (ms int64, ok bool) {
	if word == "" {
		return 0, false
	}
	units := map[byte]int64{'s': secondMs, 'm': minuteMs, 'h': hourMs, 'd': dayMs}
	unit := units[word[len(word)-1]]
	n, isInt := resp.ParseInt(word[:len(word)-1])
	return n * unit, isInt && n >= 0 && n <= agoMax && unit != 0
}

// parseClock reads 14:03, 14:03:07 or 14:03:07.212.
func parseClock(word string) (ms int64, ok bool) {
	word, fraction, pointed := strings.Cut(word, ".")
	parts := strings.Split(word, ":")
	if len(parts) < 2 || len(parts) > 3 || pointed && len(parts) < 3 {
		return 0, false
	}
	limits, unit := [...]int64{24, 60, 60}, int64(hourMs)
	for i, part := range parts {
		n, ok := digits(part, 2)
		if !ok || n >= limits[i] {
			return 0, false
		}
		ms += n * unit
		unit /= 60
	}
	if !pointed {
		return ms, true
	}
	n, ok := digits((fraction + "00")[:min(len(fraction)+2, 3)], 3)
	return ms + n, ok && len(fraction) >= 1 && len(fraction) <= 3
}

// parseDate reads 2026-11-22 as days since 1970.
func parseDate(word string) (days int64, ok bool) {
	parts := strings.Split(word, "-")
	if len(parts) != 3 {
		return 0, false
	}
	year, ok1 := digits(parts[0], 4)
	month, ok2 := digits(parts[1], 2)
	day, ok3 := digits(parts[2], 2)
	days = daysOf(year, month, day)
	y, m, d := dateOf(days)
	return days, ok1 && ok2 && ok3 && y == year && m == month && d == day
}

// digits reads a number of exactly n digits.
func digits(word string, n int) (number int64, ok bool) {
	if len(word) != n {
		return 0, false
	}
	for i := range n {
		if word[i] < '0' || word[i] > '9' {
			return 0, false
		}
		number = 10*number + int64(word[i]-'0')
	}
	return number, true
}

// FormatTime writes a time in milliseconds since 1970 as ParseTime reads it: 2026-11-22T14:03:07.212Z.
func FormatTime(ms int64) string {
	days, of := floorDiv(ms, dayMs), floorMod(ms, dayMs)
	year, month, day := dateOf(days)
	b := make([]byte, 0, len("2026-11-22T14:03:07.212Z"))
	b = append(appendDigits(b, year, 4), '-')
	b = append(appendDigits(b, month, 2), '-')
	b = append(appendDigits(b, day, 2), 'T')
	b = append(appendDigits(b, of/hourMs, 2), ':')
	b = append(appendDigits(b, of/minuteMs%60, 2), ':')
	b = append(appendDigits(b, of/secondMs%60, 2), '.')
	return string(append(appendDigits(b, of%secondMs, 3), 'Z'))
}

// appendDigits appends a number with at least a number of digits.
func appendDigits(b []byte, n int64, digits int) []byte {
	word := strconv.FormatInt(n, 10)
	for i := len(word); i < digits; i++ {
		b = append(b, '0')
	}
	return append(b, word...)
}

// The calendar has years that begin in March and eras of 400 years. eraDays are the days of an era, and epochDays those
// from the first day of era 0 to 1970.
const (
	eraDays   = 146097
	epochDays = 719468
)

// daysOf returns the days from 1970 to a date.
func daysOf(year, month, day int64) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(year, 400)
	ofEra := year - era*400
	ofYear := (153*((month+9)%12)+2)/5 + day - 1
	return era*eraDays + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - epochDays
}

// dateOf returns the date that is a number of days after 1970.
func dateOf(days int64) (year, month, day int64) {
	days += epochDays
	era := floorDiv(days, eraDays)
	of := days - era*eraDays
	ofEra := (of - of/1460 + of/36524 - of/146096) / 365
	ofYear := of - (365*ofEra + ofEra/4 - ofEra/100)
	march := (5*ofYear + 2) / 153
	day = ofYear - (153*march+2)/5 + 1
	if month = march + 3; month > 12 {
		month -= 12
	}
	if year = ofEra + era*400; month <= 2 {
		year++
	}
	return year, month, day
}

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func floorMod(a, b int64) int64 { return (a%b + b) % b }
