package stats

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"lockd/resp"
)

// Slowlog keeps the last slow commands of a server.
type Slowlog struct {
	mu      sync.Mutex
	nextID  int64
	entries []slowEntry // oldest first
}

type slowEntry struct {
	id int64
	Slow
}

// Slow is a slow command, or a slow pipelined run: a run is one request, so it makes one entry, under its first
// command.
type Slow struct {
	Start      time.Time
	Micros     int64    // execution time
	Waited     int64    // microseconds of waiting besides
	Args       []string // as SlowArgs returns them
	More       int      // further commands of the same run
	Addr, Name string   // of the client
}

// Add adds an entry, and keeps the newest keep entries.
func (l *Slowlog) Add(e Slow, keep int64) {
	if e.More > 0 {
		e.Args = append(e.Args, "... ("+strconv.Itoa(e.More)+" more commands in the same run)")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, slowEntry{l.nextID, e})
	l.nextID++
	if extra := len(l.entries) - int(max(0, min(keep, slowlogLenMax))); extra > 0 {
		l.entries = append(l.entries[:0], l.entries[extra:]...)
		clear(l.entries[len(l.entries) : len(l.entries)+extra])
	}
}

// SlowArgs truncates arguments as Redis does, and copies them. It redacts those for which hides reports true.
func SlowArgs(args resp.Args, hides func(i int) bool) []string {
	var kept []string
	for i, a := range args {
		if i == slowlogArgsMax-1 && len(args) > slowlogArgsMax {
			return append(kept, "... ("+strconv.Itoa(len(args)-i)+" more arguments)")
		}
		switch {
		case hides(i):
			a = "(redacted)"
		case len(a) > slowlogArgBytesMax:
			a = a[:slowlogArgBytesMax] + "... (" + strconv.Itoa(len(a)-slowlogArgBytesMax) + " more bytes)"
		}
		kept = append(kept, strings.Clone(a))
	}
	return kept
}

// Newest returns up to n entries, the newest first; all if n is negative. With waits each ends with Waited. SLOWLOG
// GET must not have it: clients misread or refuse a seventh field.
func (l *Slowlog) Newest(n int64, waits bool) []resp.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.entries)) {
		n = int64(len(l.entries))
	}
	list := make([]resp.Reply, n)
	for i := range list {
		e := l.entries[len(l.entries)-1-i]
		list[i] = resp.Array(resp.Int(e.id), resp.Int(e.Start.Unix()), resp.Int(e.Micros), resp.Bulks(e.Args...),
			resp.Bulk(e.Addr), resp.Bulk(e.Name))
		if waits {
			list[i].Elems = append(list[i].Elems, resp.Int(e.Waited))
		}
	}
	return list
}

// Len returns the number of entries.
func (l *Slowlog) Len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.entries))
}

// Reset removes all entries.
func (l *Slowlog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
