package track

import (
	"math"

	"lockd/resp"
)

// Limits of the changes that are kept while a request of a client is on its way.
const (
	recentChangesMax = 1 << 16  // their number
	recentBytesMax   = 16 << 20 // bytes of their keys
	answerChangesMax = 1 << 12  // their number that an answer looks at
)

// place is a place in the order of all changes: after pos changes of the entry index. The next entry's changes follow
// all of these.
type place struct {
	index uint64
	pos   int64
}

// afterAll is later than every change.
var afterAll = place{index: math.MaxUint64, pos: math.MaxInt64}

func (p place) after(q place) bool {
	return p.index > q.index || p.index == q.index && p.pos > q.pos
}

// Span is a range of changes of one entry of the log: those after number From, up to number To, counted from 1.
type Span struct {
	Index    uint64
	From, To int64
}

func (s Span) has(at place) bool { return s.Index == at.index && s.From < at.pos && at.pos <= s.To }

// change is a change with its place: it is number at.pos of its entry.
type change struct {
	resp.Change
	at place
}

// recent keeps the latest changes while any request is on its way: the keys that a request has read are known only
// when its answer arrives. Changes are numbered consecutively.
type recent struct {
	requests int // on their way
	first    uint64
	flushed  uint64   // number of the last change of everything, which covers those before
	list     []change // list[0] has the number first
	bytes    int
}

// next returns the number of the next change.
func (r *recent) next() uint64 { return r.first + uint64(len(r.list)) }

func (r *recent) add(ch change) {
	if r.requests == 0 {
		return
	}
	if ch.Kind == resp.ChangeAll {
		r.flushed = r.next()
	}
	r.list = append(r.list, ch)
	if r.bytes += len(ch.Key); len(r.list) > recentChangesMax || r.bytes > recentBytesMax {
		r.forget(len(r.list)/2 + 1)
	}
}

func (r *recent) forget(n int) {
	for i := range r.list[:n] {
		r.bytes -= len(r.list[i].Key)
	}
	r.first += uint64(n)
	r.list = append([]change(nil), r.list[n:]...)
}

// begin and end bracket a request.
func (r *recent) begin() { r.requests++ }

func (r *recent) end() {
	if r.requests--; r.requests == 0 {
		r.first, r.bytes = r.next(), 0
		clear(r.list)
		r.list = r.list[:0]
	}
}

// since lists the changes from number n on, without those that a flush after them covers. ok is false if some of them
// are forgotten, or they are too many: any key may have changed then.
func (r *recent) since(n uint64) (list []change, ok bool) {
	n = max(n, r.flushed)
	if n < r.first || r.next()-n > answerChangesMax {
		return nil, false
	}
	return r.list[n-r.first:], true
}
