package keyspace

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/value"
	"lockd/resp"
)

// eventLog is what has become of locks, the newest events of it. An event is a record of bytes in a
// chunk, which is only appended to, so a snapshot shares the chunks. It is state, but for how the
// records are divided into chunks.
type eventLog struct {
	first, next uint64 // the number of the oldest event, and that of the next one
	sinceMs     int64  // the wall clock when it began
	begun       bool
	whole       bool // nothing that has happened since it began is missing

	chunks []*eventChunk
	bytes  int64 // of all events; derived
}

// eventChunk has events in their order, from a number on.
type eventChunk struct {
	first uint64
	heads []eventHead
	text  []byte // the records; room for them is made when the chunk is
}

// eventHead is where a record ends, and the hash of its key; 0: it is about a whole database.
type eventHead struct{ hash, end uint32 }

// Limits of the log.
const (
	lockHistoryMax       = 1_000_000 // events
	lockHistoryEachBytes = 512       // which each of the events may take, of those that are allowed
	eventChunkBytes      = 32 << 10
	eventOverheadBytes   = 16 // what an event counts for beside its record
)

// eventKind says what an event is.
type eventKind uint8

// The kinds of event. Their numbers are in images.
const (
	eventNone        eventKind = iota
	eventGranted               // a token got the lock
	eventReleased              // a token gave it up
	eventExpired               // its lease ended
	eventDeleted               // somebody deleted the key
	eventOverwritten           // somebody stored something else
	eventForced                // LOCKS FORCE
	eventMoved                 // RENAME, MOVE: the key has another name now
	eventFlushed               // FLUSHALL, FLUSHDB: all locks of the database
	eventSwapped               // SWAPDB: all locks of the database are in another one
	eventGaveUp                // the time of a wait was over
	eventLeft                  // a wait was ended by UNLOCK
	eventGone                  // the client that waited was gone
	eventReplaced              // another connection waits with the token
	eventRefused               // a wait ended with an error

	eventsEnd
)

var eventNames = [eventsEnd]string{
	"", "granted", "released", "expired", "deleted", "overwritten", "forced", "moved", "flushed", "swapped",
	"gave-up", "left", "gone", "replaced", "refused",
}

// ends reports whether a token lost the lock by such an event.
func (k eventKind) ends() bool { return k >= eventReleased && k <= eventSwapped }

// lockEvent is one event. Fields that its kind does not have are zero.
type lockEvent struct {
	number       uint64 // in the log; not in the record
	kind         eventKind
	db           int
	tick, wallMs int64
	key, token   string
	owner, note  string
	fence        uint64
	permits      int64       // -1: SHARED; 0: exclusive
	by           string      // the command, in lower case; "": none
	script       bool        // that a script called
	client       resp.Sender // that sent it, if that is known
	reason       string      // of LOCKS FORCE; the error of a wait
	waitedMs     int64       // of a grant, or a wait
	heldMs       int64       // how long the token had it
	leaseMs      int64       // as it was last begun
	renewals     uint64
	renewedMs    int64 // when it was begun anew, the last time, since 1970; 0: never
	otherDB      int   // eventSwapped
}

// The flags of a record.
const (
	eventScript = 1 << iota
	eventHasClient
)

// size is no less than the bytes of the record.
func (e *lockEvent) size() int {
	return 2 + 19*binary.MaxVarintLen64 + len(e.key) + len(e.token) + len(e.owner) + len(e.note) + len(e.by) + len(e.reason) +
		len(e.client)
}

// appendEvent writes a record: kind and flags, a byte each; varints and texts.
func appendEvent(dst []byte, e *lockEvent) []byte {
	flags := byte(0)
	if e.script {
		flags |= eventScript
	}
	if e.client != "" {
		flags |= eventHasClient
	}
	dst = append(dst, byte(e.kind), flags)
	for _, n := range [...]uint64{uint64(e.db), uint64(e.otherDB), e.fence, e.renewals} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, n := range [...]int64{e.tick, e.wallMs, e.permits, e.waitedMs, e.heldMs, e.leaseMs, e.renewedMs} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, s := range [...]string{e.key, e.token, e.owner, e.note, e.by, e.reason} {
		dst = resp.AppendText(dst, s)
	}
	return append(dst, e.client...)
}

// readEvent reads a record. Its strings alias it.
func readEvent(record []byte) (e lockEvent, err error) {
	d := resp.NewDecoder(record)
	e.kind = eventKind(d.Byte())
	flags := d.Byte()
	db, other := d.Uvarint(), d.Uvarint()
	e.fence, e.renewals = d.Uvarint(), d.Uvarint()
	for _, n := range [...]*int64{&e.tick, &e.wallMs, &e.permits, &e.waitedMs, &e.heldMs, &e.leaseMs, &e.renewedMs} {
		*n = d.Varint()
	}
	for _, s := range [...]*string{&e.key, &e.token, &e.owner, &e.note, &e.by, &e.reason} {
		*s = d.Text()
	}
	if e.script = flags&eventScript != 0; flags&eventHasClient != 0 {
		e.client = d.Sender()
	}
	if e.kind == eventNone || e.kind >= eventsEnd || flags >= 2*eventHasClient || db >= databases || other >= databases {
		d.Fail("an event that can not be")
	}
	e.db, e.otherDB = int(db), int(other)
	return e, d.End()
}

// eventHash is what a chunk knows of a key.
func eventHash(key string) uint32 { return max(uint32(xxh3.HashString(key)), 1) }

// add appends an event and returns its record.
func (l *eventLog) add(e *lockEvent) []byte {
	hash := uint32(0)
	if e.kind != eventFlushed && e.kind != eventSwapped {
		hash = eventHash(e.key)
	}
	c := l.chunkFor(e.size())
	at := len(c.text)
	c.text = appendEvent(c.text, e)
	l.added(c, hash, at)
	return c.text[at:]
}

// chunkFor is the newest chunk, with room for a record.
func (l *eventLog) chunkFor(bytes int) *eventChunk {
	if n := len(l.chunks); n > 0 && cap(l.chunks[n-1].text)-len(l.chunks[n-1].text) >= bytes {
		return l.chunks[n-1]
	}
	c := &eventChunk{first: l.next, text: make([]byte, 0, max(eventChunkBytes, bytes))}
	l.chunks = append(l.chunks, c)
	return c
}

// added completes an event whose record begins at a place of the newest chunk.
func (l *eventLog) added(c *eventChunk, hash uint32, at int) {
	c.heads = append(c.heads, eventHead{hash, uint32(len(c.text))})
	l.bytes += int64(len(c.text)-at) + eventOverheadBytes
	l.next++
}

// record is the i-th of a chunk.
func (c *eventChunk) record(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = c.heads[i-1].end
	}
	return c.text[from:c.heads[i].end:c.heads[i].end]
}

func (l *eventLog) count() int { return int(l.next - l.first) }

// copy is an event that stays: that of a visit is used again.
func (e *lockEvent) copy() *lockEvent {
	c := *e
	return &c
}

// each visits the events that may be about a key, and about whole databases, from the oldest; hash 0 is
// all.
func (l *eventLog) each(hash uint32, visit func(e *lockEvent)) {
	l.eachOf(func(h uint32) bool { return hash == 0 || h == hash || h == 0 }, visit)
}

// eachOf visits the events whose hashes are wanted, from the oldest.
func (l *eventLog) eachOf(wanted func(hash uint32) bool, visit func(e *lockEvent)) {
	var e lockEvent
	for _, c := range l.chunks {
		from := 0
		if c.first < l.first {
			from = int(l.first - c.first)
		}
		for i := from; i < len(c.heads); i++ {
			if wanted(c.heads[i].hash) {
				e, _ = readEvent(c.record(i)) // it was written here, or checked when the image was read
				e.number = c.first + uint64(i)
				visit(&e)
			}
		}
	}
}

// work is that of each.
func (l *eventLog) work(hash uint32) int64 {
	each := int64(value.FarWork)
	if hash != 0 {
		each = value.CompareWork
	}
	return each * int64(l.count())
}

// knownSinceMs is the wall time from which on nothing is missing.
func (l *eventLog) knownSinceMs() int64 {
	if l.whole || l.count() == 0 {
		return l.sinceMs
	}
	c := l.chunks[0]
	e, _ := readEvent(c.record(int(l.first - c.first)))
	return e.wallMs
}

// begin begins the log, if it has not begun and is wanted.
func (l *eventLog) begin(m *Machine) {
	if !l.begun && m.noting && m.settings.historyMax > 0 {
		l.begun, l.whole, l.sinceMs = true, true, m.wallUs/1000
	}
}

// trim forgets the oldest events, so that no more are left than may be.
func (l *eventLog) trim(most int64) {
	if most == 0 {
		*l = eventLog{first: l.next, next: l.next}
		return
	}
	for n := int64(l.count()); n > most || n > 1 && l.bytes > most*lockHistoryEachBytes; n-- {
		c := l.chunks[0]
		i := int(l.first - c.first)
		l.bytes -= int64(len(c.record(i))) + eventOverheadBytes
		l.first++
		l.whole = false
		if i+1 == len(c.heads) {
			l.chunks[0] = nil
			l.chunks = l.chunks[1:]
		}
	}
}

// eventMark is a place in the log.
type eventMark struct {
	next  uint64
	bytes int64
}

func (l *eventLog) mark() eventMark { return eventMark{l.next, l.bytes} }

// truncate forgets the events since a mark. Nothing was trimmed since then.
func (l *eventLog) truncate(to eventMark) {
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

// copy is the log as it is now. The chunks are shared, but for the newest, which grows.
func (l *eventLog) copy() eventLog {
	next := *l
	next.chunks = slices.Clone(l.chunks)
	if n := len(next.chunks); n > 0 {
		c := *next.chunks[n-1]
		next.chunks[n-1] = &c
	}
	return next
}

func (l *eventLog) write(w *value.Writer) {
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

func readEvents(r *value.Reader) eventLog {
	l := eventLog{first: r.U64()}
	end := r.U64()
	l.sinceMs, l.begun, l.whole = r.I64(), r.Flag(), r.Flag()
	if l.next = l.first; end < l.first || !l.begun && (end > l.first || l.whole || l.sinceMs != 0) {
		r.Fail("a history that can not be")
	}
	for l.next < end && r.OK() {
		record := []byte(r.Text())
		e, err := readEvent(record)
		if err != nil {
			r.Fail("an event of a lock: " + err.Error())
			break
		}
		hash := uint32(0)
		if e.kind != eventFlushed && e.kind != eventSwapped {
			hash = eventHash(e.key)
		}
		c := l.chunkFor(len(record))
		at := len(c.text)
		c.text = append(c.text, record...)
		l.added(c, hash, at)
	}
	return l
}

// clientOverheadBytes is what a client counts for beside its texts.
const clientOverheadBytes = 80

func clientBytes(s resp.Sender) int64 {
	if s == "" {
		return 0
	}
	c := s.Client()
	return clientOverheadBytes + int64(len(c.Name)+len(c.Addr)+len(c.Node))
}

func writeClient(w *value.Writer, s resp.Sender) {
	if w.Flag(s != ""); s != "" {
		c := s.Client()
		w.U64(c.ID)
		w.Text(c.Name)
		w.Text(c.Addr)
		w.Text(c.Node)
	}
}

func readClient(r *value.Reader) resp.Sender {
	if r.Version < 7 || !r.Flag() {
		return ""
	}
	c := resp.Client{ID: r.U64(), Name: r.Text(), Addr: r.Text(), Node: r.Text()}
	return c.Sender()
}
