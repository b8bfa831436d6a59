package keyspace

import (
	"math"
	"slices"

	"lockd/resp"
)

// What CLIENT TRACKING needs from the machine. Every entry of the log tells every
// node which keys it changed, in order, whoever listens. The Result of a request whose
// session tracks has a Trace: at which place of that order each of its commands stood, and
// which keys scripts read. The session compares the two, on whichever node it is.

// noteChange notes that a key was stored or deleted. The name is the entry's own,
// not the argument, which may be a part of something much larger.
func (m *Machine) noteChange(was, next *entry) {
	e := next
	if e == nil {
		e = was
	}
	c := resp.Change{Key: e.key()}
	if m.serving {
		c.Kind = resp.ChangeServed // it is not the doing of whoever made the key ready
	}
	m.changed = append(m.changed, c)
}

// noteExpiry says of the last change that it was no command's doing.
func (m *Machine) noteExpiry() { m.changed[len(m.changed)-1].Kind = resp.ChangeExpired }

// told is a place in what an entry has to tell: after so many messages and changes.
type told struct{ messages, changes int }

func (m *Machine) toldNow() told { return told{len(m.messages), len(m.changed)} }

// tellChanges puts what the entry has changed since it was last called before its
// messages since then: a client that both tracks and subscribes has let go of what it
// cached when it hears of the reason.
func (m *Machine) tellChanges() {
	if changes := m.changed[m.told.changes:]; len(changes) > 0 {
		m.messages = slices.Insert(m.messages, m.told.messages,
			resp.Message{Kind: resp.MessageChanges, Index: m.index, From: m.told.changes, Changes: changes})
	}
	m.told = m.toldNow()
}

// emitServed tells that a blocking command was executed, before all that has been told
// since it began: its client is answered first, and then hears what it did.
func (m *Machine) emitServed(id resp.BlockID, reply resp.Reply, began told) {
	messages, changes := slices.Clone(m.messages[began.messages:]), m.changed
	m.messages, m.changed = m.messages[:began.messages], m.changed[:began.changes]
	m.tellChanges()
	m.emitEnd(id, resp.BlockServed, reply)
	m.told = m.toldNow()
	m.messages, m.changed = append(m.messages, messages...), changes
}

// position is how many changes of the entry have been made by now. A read comes
// after all of the last entry.
func (m *Machine) position() int64 {
	if !m.applying {
		return math.MaxInt32
	}
	return int64(len(m.changed))
}

// readsMax bounds the reads that are noted of one request. Of one with more there is no
// Trace; the session then lets its client forget everything.
const readsMax = 1 << 14

// readLog gathers the Trace of a request. A nil one notes nothing.
type readLog struct {
	resp.Trace
	last map[string]int64 // position of the last read of a key
}

func (m *Machine) newReadLog(req resp.Request) *readLog {
	if !req.Trace {
		return nil
	}
	return &readLog{Trace: resp.Trace{From: m.position(), Marks: make([]int64, 0, len(req.Cmds))}}
}

// endCommand notes the position at which a command of the request has ended.
func (l *readLog) endCommand(at int64) {
	if l != nil {
		l.Marks = append(l.Marks, at)
		clear(l.last)
	}
}

// note notes the keys that a command of a script has read. To read a key again
// when nothing has changed in between is not worth a word.
func (l *readLog) note(spec *resp.Spec, args resp.Args, at int64) {
	if l == nil || !spec.ReadsKeys() {
		return
	}
	keys, _ := spec.Keys.Of(args)
	for _, key := range keys {
		if was, known := l.last[key]; known && was == at || len(l.Reads) > readsMax {
			continue
		}
		if l.last == nil {
			l.last = map[string]int64{}
		}
		l.last[key] = at
		l.Reads = append(l.Reads, resp.KeyRead{Cmd: len(l.Marks), Key: key, At: at})
	}
}

// trace is what there is to tell of a request that has ended; nil if too much was read.
func (l *readLog) trace(index uint64) *resp.Trace {
	if l == nil || len(l.Reads) > readsMax {
		return nil
	}
	l.Index = index
	return &l.Trace
}

// len and truncate take back what an undone script has read.
func (l *readLog) len() int {
	if l == nil {
		return 0
	}
	return len(l.Reads)
}

func (l *readLog) truncate(n int) {
	if l != nil {
		l.Reads = l.Reads[:n]
	}
}
