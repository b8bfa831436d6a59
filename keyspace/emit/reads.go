package emit

import "lockd/resp"

// ReadsMax bounds the recorded reads of one request. A request with more has no Trace; its session then invalidates
// everything.
const ReadsMax = 1 << 14

// Reads gathers the Trace of a request. A nil Reads records nothing.
type Reads struct {
	resp.Trace
	last map[string]int64 // position of the last read of a key
}

// NewReads begins the Trace of a request with some commands, at a position.
func NewReads(at int64, commands int) *Reads {
	return &Reads{Trace: resp.Trace{From: at, Marks: make([]int64, 0, commands)}}
}

// EndCommand records the position at which a command of the request ended.
func (l *Reads) EndCommand(at int64) {
	if l != nil {
		l.Marks = append(l.Marks, at)
		clear(l.last)
	}
}

// Record records the keys that a command of a script has read. It skips a key that was read before with no change in
// between.
func (l *Reads) Record(spec *resp.Spec, args resp.Args, at int64) {
	if l == nil || !spec.ReadsKeys() {
		return
	}
	keys, _ := spec.Keys.Of(args)
	for _, key := range keys {
		if was, known := l.last[key]; known && was == at || len(l.Reads) > ReadsMax {
			continue
		}
		if l.last == nil {
			l.last = map[string]int64{}
		}
		l.last[key] = at
		l.Reads = append(l.Reads, resp.KeyRead{Cmd: len(l.Marks), Key: key, At: at})
	}
}

// Done returns the Trace of a request that has ended, in the entry of an index; nil if it read too much.
func (l *Reads) Done(index uint64) *resp.Trace {
	if l == nil || len(l.Reads) > ReadsMax {
		return nil
	}
	l.Index = index
	return &l.Trace
}

// Len returns the number of recorded reads.
func (l *Reads) Len() int {
	if l == nil {
		return 0
	}
	return len(l.Reads)
}

// Truncate removes the reads of an undone script: all but the first n.
func (l *Reads) Truncate(n int) {
	if l != nil {
		l.Reads = l.Reads[:n]
	}
}
