package keyspace

import (
	"math"
	"slices"
	"strconv"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// emit adds a message to those of the entry.
func (m *Machine) emit(msg resp.Message) { m.messages = append(m.messages, msg) }

// notify sends the notifications of an event, if the settings ask for its class.
// A running script's are taken back with its writes.
func (m *Machine) notify(db int, class notifyClass, event, key string) {
	asked := m.settings.notify
	if asked&class == 0 {
		return
	}
	m.spend(2 * (value.FindWork + value.CopyWork*int64(len(key))))
	at := "@" + strconv.Itoa(db) + "__:"
	if asked&notifyKeyspace != 0 {
		m.emit(resp.Message{Channel: "__keyspace" + at + key, Payload: event})
	}
	if asked&notifyKeyevent != 0 {
		m.emit(resp.Message{Channel: "__keyevent" + at + event, Payload: key})
	}
}

// What CLIENT TRACKING needs from the machine. Every entry of the log reports to every node which keys
// it changed, in order, whether or not a client listens. The Result of a request whose session
// tracks has a Trace: the position of each of its commands in that order, and the keys that scripts
// read. The session compares the two, on whichever node it is.

// trackChange records that a key was stored or deleted. The name is the entry's own, not the
// argument, which may be part of a much larger buffer.
func (m *Machine) trackChange(_ *cause, of store.Change) {
	e := of.Next
	if e == nil {
		e = of.Was
	}
	c := resp.Change{Key: e.Key()}
	if m.serving {
		c.Kind = resp.ChangeServed // the waiter's change, not that of the command that made the key ready
	}
	m.changed = append(m.changed, c)
}

// trackExpiry marks the last change as an expiry, which no command made.
func (m *Machine) trackExpiry() { m.changed[len(m.changed)-1].Kind = resp.ChangeExpired }

// outputMark is a position in the entry's output: the number of messages and of changes before it.
type outputMark struct{ messages, changes int }

func (m *Machine) outputMark() outputMark { return outputMark{len(m.messages), len(m.changed)} }

// emitChanges inserts the changes since its last call before the messages since then. So a client
// that both tracks and subscribes drops what it cached before it learns why.
func (m *Machine) emitChanges() {
	if changes := m.changed[m.emitted.changes:]; len(changes) > 0 {
		m.messages = slices.Insert(m.messages, m.emitted.messages,
			resp.Message{Kind: resp.MessageChanges, Index: m.index, From: m.emitted.changes, Changes: changes})
	}
	m.emitted = m.outputMark()
}

// emitServed emits that a blocking command was executed. The message goes before everything emitted
// since began: the client gets its reply first, and then the effects of its command.
func (m *Machine) emitServed(end resp.BlockEnd, began outputMark) {
	messages, changes := slices.Clone(m.messages[began.messages:]), m.changed
	m.messages, m.changed = m.messages[:began.messages], m.changed[:began.changes]
	m.emitChanges()
	end.How = resp.BlockServed
	m.emit(resp.Message{Kind: resp.MessageBlock, Block: &end})
	m.emitted = m.outputMark()
	m.messages, m.changed = append(m.messages, messages...), changes
}

// position is the number of changes that the entry has made so far. A read comes after all changes
// of the last entry.
func (m *Machine) position() int64 {
	if !m.applying {
		return math.MaxInt32
	}
	return int64(len(m.changed))
}

// readsMax bounds the recorded reads of one request. A request with more has no Trace; its session
// then invalidates everything.
const readsMax = 1 << 14

// readLog gathers the Trace of a request. A nil readLog records nothing.
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

// endCommand records the position at which a command of the request ended.
func (l *readLog) endCommand(at int64) {
	if l != nil {
		l.Marks = append(l.Marks, at)
		clear(l.last)
	}
}

// record records the keys that a command of a script has read. It skips a key that was read before
// with no change in between.
func (l *readLog) record(spec *resp.Spec, args resp.Args, at int64) {
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

// trace returns the Trace of a request that has ended; nil if it read too much.
func (l *readLog) trace(index uint64) *resp.Trace {
	if l == nil || len(l.Reads) > readsMax {
		return nil
	}
	l.Index = index
	return &l.Trace
}

// len and truncate remove the reads of an undone script.
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
