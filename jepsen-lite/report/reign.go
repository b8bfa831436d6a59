package report

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/history"
)

// Reign is a time in which a node took itself for the leader. A node that was cut off or paused may do so for a while
// beside its successor.
type Reign struct {
	Node, Term string
	Start, End int64 // ns, as in the history
}

// What a line of a node's log tells: when it was written, and the node's role from then on.
var (
	timedLine = regexp.MustCompile(`^time=(\S+) `)
	roleLine  = regexp.MustCompile(` msg="?(this node leads|this node does not lead|this node follows|there is no ` +
		`leader)\b.* term=(\d+)`)
)

// startLine begins what a process says in its log, and lineBytesMax bounds a line of it.
const (
	startLine    = "---- start "
	lineBytesMax = 1 << 20
)

// Reigns reads from the logs of nodes, NODE.log in dir, which node led when. began is time 0 of the history.
func Reigns(dir string, began time.Time, h *history.History) (all []Reign) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // its only error is a bad pattern
	for _, path := range logs {
		all = append(all, reignsOf(path, began, h)...)
	}
	slices.SortStableFunc(all, func(a, b Reign) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

func reignsOf(path string, began time.Time, h *history.History) (reigns []Reign) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	node := strings.TrimSuffix(filepath.Base(path), ".log")
	var leads *Reign
	end := func(at int64) {
		if leads != nil && at > 0 && leads.Start < h.End {
			reigns = append(reigns, Reign{node, leads.Term, max(leads.Start, 0), min(at, h.End)})
		}
		leads = nil
	}
	last := int64(0) // the time of the last line
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, lineBytesMax)
	for scan.Scan() {
		if strings.HasPrefix(scan.Text(), startLine) && leads != nil {
			end(diedAfter(h, node, leads.Start, last))
		}
		if timed := timedLine.FindStringSubmatch(scan.Text()); timed != nil {
			if at, err := time.Parse(time.RFC3339, timed[1]); err == nil {
				last = at.Sub(began).Nanoseconds()
			}
		}
		if role := roleLine.FindStringSubmatch(scan.Text()); role != nil {
			end(last)
			if role[1] == "this node leads" {
				leads = &Reign{Term: role[2], Start: last}
			}
		}
	}
	if leads != nil {
		end(diedAfter(h, node, leads.Start, h.End))
	}
	return reigns
}

// diedAfter is when the process of a node ended that ran at a time, or otherwise.
func diedAfter(h *history.History, node string, at, otherwise int64) int64 {
	for _, m := range h.Marks {
		if m.Op == history.Down && m.Node == node && m.Time > at {
			return m.Time
		}
	}
	return otherwise
}
