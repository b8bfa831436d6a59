package emit

import (
	"fmt"
	"slices"
	"testing"

	"lockd/resp"
)

// told writes messages in short: a letter for the kind, and what is in them.
func told(messages []resp.Message) (words []string) {
	for _, msg := range messages {
		switch msg.Kind {
		case resp.MessageChanges:
			word := fmt.Sprintf("changes from %d:", msg.From)
			for _, c := range msg.Changes {
				word += " " + c.Key
			}
			words = append(words, word)
		case resp.MessageBlock:
			words = append(words, "served")
		default:
			words = append(words, msg.Channel+" "+msg.Payload)
		}
	}
	return words
}

// Changes come before the messages that were emitted with them; of a command that a waiter is served, its reply comes
// before both.
func TestOrder(t *testing.T) {
	var o Output
	o.Begin(7, 2)
	o.Change(resp.Change{Key: "a"})
	o.Emit(resp.Message{Channel: "c", Payload: "1"})
	began := o.Mark()
	o.Change(resp.Change{Key: "b"})
	o.Emit(resp.Message{Channel: "c", Payload: "2"})
	o.EmitServed(resp.BlockEnd{}, began)
	undone := o.Mark()
	o.Change(resp.Change{Key: "gone"})
	o.Emit(resp.Message{Channel: "gone"})
	o.Truncate(undone)
	if at := o.Position(); at != 2 {
		t.Errorf("2 changes, and the position is %d", at)
	}
	o.EmitChanges()
	want := []string{"changes from 0: a", "c 1", "served", "changes from 1: b", "c 2"}
	if got := told(o.Messages()); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if o.End(); len(o.Messages()) != 0 || o.Position() < 1<<30 {
		t.Error("an entry that has ended emits, or a read comes before its changes")
	}
}

// The notifications of an event go to the channels that are asked for.
func TestNotify(t *testing.T) {
	asked, ok := ParseClasses("KEg")
	if !ok || asked&Generic == 0 || asked&String != 0 {
		t.Fatalf("%v, %v", asked, ok)
	}
	var o Output
	o.Notify(asked, 3, "del", "k")
	o.Notify(Keyevent, 0, "del", "k")
	want := []string{"__keyspace@3__:k del", "__keyevent@3__:del k", "__keyevent@0__:del k"}
	if got := told(o.Messages()); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
