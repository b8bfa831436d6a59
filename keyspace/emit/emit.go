// Package emit keeps what an entry of the log emits beside its replies: messages, and which keys it has changed.
//
//	emit.go     messages and changes, in their order
//	classes.go  the classes of keyspace notifications
//	reads.go    what the session of a client that tracks keys learns of its request
package emit

import (
	"math"
	"slices"
	"strconv"

	"lockd/keyspace/value"
	"lockd/resp"
)

// Output gathers what the running entry emits.
//
// CLIENT TRACKING needs the changes: every entry of the log reports to every node which keys it changed, in order,
// whether or not a client listens. The Result of a request whose session tracks has a Trace: the position of each of
// its commands in that order, and the keys that scripts read. The session compares the two, on whichever node it is.
type Output struct {
	index    uint64 // of the entry
	open     bool   // an entry is being applied
	messages []resp.Message
	changed  []resp.Change // the entry's changes, in order
	emitted  Mark          // the changes before it are in messages
}

// Mark is a position in the output: the number of messages and of changes before it.
type Mark struct{ messages, changes int }

// Begin begins the output of an entry with some requests.
func (o *Output) Begin(index uint64, requests int) {
	*o = Output{
		index: index, open: true,
		messages: make([]resp.Message, 0, requests+1), // changes, and what becomes of a lock for each
		changed:  make([]resp.Change, 0, requests),
	}
}

// End ends the output: nothing of it is kept.
func (o *Output) End() { *o = Output{} }

// Messages returns the messages so far.
func (o *Output) Messages() []resp.Message { return o.messages }

// Since returns the messages since a mark.
func (o *Output) Since(mark Mark) []resp.Message { return o.messages[mark.messages:] }

// Emit adds a message.
func (o *Output) Emit(msg resp.Message) { o.messages = append(o.messages, msg) }

// NotifyWork returns the work of the notifications of an event.
func NotifyWork(key string) int64 { return 2 * (value.FindWork + value.CopyWork*int64(len(key))) }

// Notify adds the notifications of an event in the ways that are asked for.
func (o *Output) Notify(asked Classes, db int, event, key string) {
	at := "@" + strconv.Itoa(db) + "__:"
	if asked&Keyspace != 0 {
		o.Emit(resp.Message{Channel: "__keyspace" + at + key, Payload: event})
	}
	if asked&Keyevent != 0 {
		o.Emit(resp.Message{Channel: "__keyevent" + at + event, Payload: key})
	}
}

// Change adds a change. Its key is the entry's own, not an argument, which may be part of a much larger buffer.
func (o *Output) Change(c resp.Change) { o.changed = append(o.changed, c) }

// MarkExpired marks the last change as an expiry, which no command made.
func (o *Output) MarkExpired() { o.changed[len(o.changed)-1].Kind = resp.ChangeExpired }

// Mark returns the present position.
func (o *Output) Mark() Mark { return Mark{len(o.messages), len(o.changed)} }

// Truncate takes back what was added since a mark.
func (o *Output) Truncate(to Mark) {
	o.messages, o.changed = o.messages[:to.messages], o.changed[:to.changes]
}

// EmitChanges inserts the changes since its last call before the messages since then. So a client that both tracks and
// subscribes drops what it cached before it learns why.
func (o *Output) EmitChanges() {
	if changes := o.changed[o.emitted.changes:]; len(changes) > 0 {
		o.messages = slices.Insert(o.messages, o.emitted.messages,
			resp.Message{Kind: resp.MessageChanges, Index: o.index, From: o.emitted.changes, Changes: changes})
	}
	o.emitted = o.Mark()
}

// EmitServed emits that a blocking command was executed. The message goes before everything emitted since began: the
// client gets its reply first, and then the effects of its command.
func (o *Output) EmitServed(end resp.BlockEnd, began Mark) {
	messages, changes := slices.Clone(o.messages[began.messages:]), o.changed
	o.messages, o.changed = o.messages[:began.messages], o.changed[:began.changes]
	o.EmitChanges()
	end.How = resp.BlockServed
	o.Emit(resp.Message{Kind: resp.MessageBlock, Block: &end})
	o.emitted = o.Mark()
	o.messages, o.changed = append(o.messages, messages...), changes
}

// Position returns the number of changes that the entry has made so far. A read comes after all changes of the last
// entry.
func (o *Output) Position() int64 {
	if !o.open {
		return math.MaxInt32
	}
	return int64(len(o.changed))
}
