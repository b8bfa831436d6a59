package stats

import (
	"strconv"

	"lockd/resp"
)

// Lines are the lines of a section of INFO.
type Lines []resp.Field

// Text adds a line.
func (l *Lines) Text(name, value string) { *l = append(*l, resp.Field{Name: name, Value: value}) }

// Number adds a line with an integer.
func (l *Lines) Number(name string, n int64) { l.Text(name, strconv.FormatInt(n, 10)) }

func decimals(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }

func ratio(part, whole int64) string { return decimals(float64(part)/float64(max(whole, 1)), 2) }

// human writes a size as Redis does: 1.23M.
func human(n int64) string {
	units := []string{"B", "K", "M", "G", "T"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatInt(n, 10) + "B"
	}
	return decimals(f, 2) + units[i]
}
