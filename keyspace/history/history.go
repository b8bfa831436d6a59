// Package history logs what happens to locks. The log is part of the replicated state; the package also writes an event
// for replies and for subscribers. It reads no key of the machine: the code that changes a lock adds the event.
package history

import (
	"slices"
	"sort"

	"lockd/keyspace/value"
)

// Log has the newest events of all locks. An event is a record of bytes in a chunk. Chunks are only appended to, so a
// snapshot shares them. The log is replicated state, but its division into chunks is not.
type Log struct {
	first, next uint64 // the number of the oldest event, and that of the next one
	sinceMs     int64  // the wall clock when it began
	begun       bool
	whole       bool // nothing that has happened since it began is missing

	chunks []*chunk
	bytes  int64 // of all events; derived
}

// chunk has consecutive events, beginning with a number.
type chunk struct {
	first uint64
	heads []head
	text  []byte // the records; room for them is made when the chunk is
}

// head has the end of a record, and the hash of its key; hash 0: the event is about a whole database.
type head struct{ hash, end uint32 }

// Limits of the log.
const (
	EventsMax     = 1_000_000 // that a log may be set to keep
	EventBytesMax = 512       // which each of the events may take, of those that are allowed
	chunkBytes    = 32 << 10
	overheadBytes = 16 // what an event counts for beside its record
)

// Add appends an event, if the log has begun, and returns its record.
func (l *Log) Add(e *Event) []byte {
	if !l.begun {
		return Append(make([]byte, 0, e.size()), e)
	}
	c := l.chunkFor(e.size())
	at := len(c.text)
	c.text = Append(c.text, e)
	l.added(c, e.hash(), at)
	return c.text[at:]
}

// chunkFor returns the newest chunk, or a new one if it has no room for a record.
func (l *Log) chunkFor(bytes int) *chunk {
	if n := len(l.chunks); n > 0 && cap(l.chunks[n-1].text)-len(l.chunks[n-1].text) >= bytes {
		return l.chunks[n-1]
	}
	c := &chunk{first: l.next, text: make([]byte, 0, max(chunkBytes, bytes))}
	l.chunks = append(l.chunks, c)
	return c
}

// added completes an event whose record begins at a place of the newest chunk.
func (l *Log) added(c *chunk, hash uint32, at int) {
	c.heads = append(c.heads, head{hash, uint32(len(c.text))})
	l.bytes += int64(len(c.text)-at) + overheadBytes
	l.next++
}

// record returns the i-th record of a chunk.
func (c *chunk) record(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = c.heads[i-1].end
	}
	return c.text[from:c.heads[i].end:c.heads[i].end]
}

// Count returns the number of events.
func (l *Log) Count() int { return int(l.next - l.first) }

// Bytes returns the bytes that all events count for.
func (l *Log) Bytes() int64 { return l.bytes }

// Each visits the events that may be about a key, and about whole databases, from the oldest, until visit returns
// false; hash 0 is all.
func (l *Log) Each(hash uint32, visit func(e *Event) bool) {
	var e Event
	for _, c := range l.chunks {
		from := l.kept(c)
		for i, h := range c.heads[from:] {
			if h.hash == hash || h.hash == 0 || hash == 0 { // not by EachOf: a call takes longer than CompareWork
				if c.read(from+i, &e); !visit(&e) {
					return
				}
			}
		}
	}
}

// At returns the event with a number, which must still be kept.
func (l *Log) At(number uint64) (e Event) {
	n := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].first > number }) - 1
	c := l.chunks[n]
	c.read(int(number-c.first), &e)
	return e
}

// EachOf visits the events whose hashes are wanted, from the oldest.
func (l *Log) EachOf(wanted func(hash uint32) bool, visit func(e *Event)) {
	var e Event
	for _, c := range l.chunks {
		from := l.kept(c)
		for i, h := range c.heads[from:] {
			if wanted(h.hash) {
				c.read(from+i, &e)
				visit(&e)
			}
		}
	}
}

// kept returns the index of the first event of a chunk that is still kept.
func (l *Log) kept(c *chunk) int {
	if c.first < l.first {
		return int(l.first - c.first)
	}
	return 0
}

// read reads the i-th event of a chunk.
func (c *chunk) read(i int, e *Event) {
	*e, _ = Read(c.record(i)) // it was written here, or checked when the image was read
	e.Number = c.first + uint64(i)
}

// Work returns the work of Each.
func (l *Log) Work(hash uint32) int64 {
	each := int64(value.FarWork)
	if hash != 0 {
		each = value.CompareWork
	}
	return each * int64(l.Count())
}

// KnownSinceMs returns the wall time since which no event is missing.
func (l *Log) KnownSinceMs() int64 {
	if l.whole || l.Count() == 0 {
		return l.sinceMs
	}
	c := l.chunks[0]
	e, _ := Read(c.record(int(l.first - c.first)))
	return e.WallMs
}

// Begin begins the log, if it has not begun.
func (l *Log) Begin(wallMs int64) {
	if !l.begun {
		l.begun, l.whole, l.sinceMs = true, true, wallMs
	}
}

// Trim forgets the oldest events until at most a number is left.
func (l *Log) Trim(most int64) {
	if most == 0 {
		*l = Log{first: l.next, next: l.next}
		return
	}
	for n := int64(l.Count()); n > most || n > 1 && l.bytes > most*EventBytesMax; n-- {
		c := l.chunks[0]
		i := int(l.first - c.first)
		l.bytes -= int64(len(c.record(i))) + overheadBytes
		l.first++
		l.whole = false
		if i+1 == len(c.heads) {
			l.chunks[0] = nil
			l.chunks = l.chunks[1:]
		}
	}
}

// Mark is a place in the log.
type Mark struct {
	next  uint64
	bytes int64
}

// Mark returns the end of the log.
func (l *Log) Mark() Mark { return Mark{l.next, l.bytes} }

// Truncate forgets the events since a mark. Nothing was trimmed since then.
func (l *Log) Truncate(to Mark) {
	l.next, l.bytes = to.next, to.bytes
	n := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].first >= to.next })
	clear(l.chunks[n:])
	if l.chunks = l.chunks[:n]; n == 0 {
		return
	}
	c := l.chunks[n-1]
	kept := int(to.next - c.first)
	c.text = c.text[:c.heads[kept-1].end]
	c.heads = c.heads[:kept]
}

// Copy returns the log as it is now. It shares all chunks except the newest, which grows.
func (l *Log) Copy() Log {
	next := *l
	next.chunks = slices.Clone(l.chunks)
	if n := len(next.chunks); n > 0 {
		c := *next.chunks[n-1]
		next.chunks[n-1] = &c
	}
	return next
}

// Write writes the log into an image.
func (l *Log) Write(w *value.Writer) {
	for _, n := range []uint64{l.first, l.next, uint64(l.sinceMs)} {
		w.U64(n)
	}
	w.Flag(l.begun)
	w.Flag(l.whole)
	for _, c := range l.chunks {
		for i := range c.heads {
			if c.first+uint64(i) >= l.first && w.OK() {
				record := c.record(i)
				w.U64(uint64(len(record)))
				w.Raw(string(record))
			}
		}
	}
}

// ReadLog reads a log from an image.
func ReadLog(r *value.Reader) Log {
	l := Log{first: r.U64()}
	end := r.U64()
	l.sinceMs, l.begun, l.whole = r.I64(), r.Flag(), r.Flag()
	if l.next = l.first; end < l.first || !l.begun && (end > l.first || l.whole || l.sinceMs != 0) {
		r.Fail("a history that can not be")
	}
	for l.next < end && r.OK() {
		record := []byte(r.Text())
		e, err := Read(record)
		if err != nil {
			r.Fail("an event of a lock: " + err.Error())
			break
		}
		c := l.chunkFor(len(record))
		at := len(c.text)
		c.text = append(c.text, record...)
		l.added(c, e.hash(), at)
	}
	return l
}
