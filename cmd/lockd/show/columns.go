package show

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Column is a column of a table.
type Column struct {
	Title string
	Right bool // numbers and times stand at the right
	// Min is the least width of the column if the table is too wide; 0: as wide as its cells.
	Min    int
	Middle bool // a cell that is too long is cut in its middle, not at its end
}

// Table is rows of escaped texts, each as long as there are columns.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// columnGap is the space between two columns.
const columnGap = 2

// Lines are the table's lines, titles first, in a width. A column that is empty in all rows is left out,
// and the widest that may become narrower does, until all fit.
func (t *Table) Lines(width int) []string {
	columns, widths := t.layOut(width)
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	lines := []string{t.line(titles, columns, widths, width)}
	for _, row := range t.Rows {
		lines = append(lines, t.line(row, columns, widths, width))
	}
	return lines
}

// layOut chooses the columns that are shown, and their widths.
func (t *Table) layOut(width int) (columns, widths []int) {
	total := -columnGap
	for i, c := range t.Columns {
		most := 0
		for _, row := range t.Rows {
			most = max(most, Width(row[i]))
		}
		if most > 0 {
			columns = append(columns, i)
			widths = append(widths, max(most, Width(c.Title)))
			total += widths[len(widths)-1] + columnGap
		}
	}
	for ; total > width; total-- {
		widest := -1
		for i, at := range columns {
			least := t.Columns[at].Min
			if least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return columns, widths
}

func (t *Table) line(row []string, columns, widths []int, width int) string {
	var b strings.Builder
	for i, at := range columns {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		cut := Cut
		if t.Columns[at].Middle {
			cut = CutMiddle
		}
		b.WriteString(Pad(cut(row[at], widths[i]), widths[i], t.Columns[at].Right))
	}
	return strings.TrimRight(Cut(b.String(), width), " ")
}

// wrapMin is the least part of a line that Wrap uses, however narrow the width.
const wrapMin = 10

// Wrap is an escaped text in lines of a width, broken at spaces, and within a word that is longer than a
// line. The first line begins with first, the others with rest, which are counted.
func Wrap(s, first, rest string, width int) (lines []string) {
	room := max(width, Width(first)+wrapMin, Width(rest)+wrapMin)
	line, empty := first, true
	for _, word := range strings.Fields(s) {
		for {
			joined := line + word
			if !empty {
				joined = line + " " + word
			}
			if Width(joined) <= room {
				line, empty = joined, false
				break
			}
			if empty {
				part := displaywidth.TruncateString(word, room-Width(line), "")
				line, word = line+part, word[len(part):]
			}
			lines = append(lines, line)
			line, empty = rest, true
		}
	}
	if empty {
		return lines
	}
	return append(lines, line)
}
