package keyspace

import (
	"encoding/json"
	"strconv"

	"lockd/resp"
)

// lockNews reads a record: for subscribers the messages of the channels __lock@<db>__:<key>, for the nodes whose
// clients hold locks what they are to be told.
type lockNews struct{ whole bool } // whole: tokens are shown so

var newsWhole, newsPrefix = &lockNews{whole: true}, &lockNews{}

func newsOf(whole bool) *lockNews {
	if whole {
		return newsWhole
	}
	return newsPrefix
}

// News is an event for those who hold locks. A grant is one if it answers LOCK, to a client that is known: what a
// script takes is the script's affair.
func (*lockNews) News(event []byte) (n resp.LockNews) {
	e, _ := readEvent(event)
	if e.kind.ends() || e.kind == eventGranted && e.by == lockCommand && !e.script && e.client != "" {
		n.How = eventNames[e.kind]
	}
	n.HeldLock = resp.HeldLock{DB: e.db, Key: e.key, Token: e.token, Fence: e.fence}
	n.LeaseMs, n.Script, n.Client = e.leaseMs, e.script, e.client
	return n
}

// Channel is the channel of an event. What becomes of a whole database has one without a key.
func (*lockNews) Channel(event []byte) string {
	e, _ := readEvent(event)
	return "__lock@" + strconv.Itoa(e.db) + "__:" + e.key
}

// Payload is an event as one line of JSON: an object with the fields of LOCKS HISTORY that are known.
func (n *lockNews) Payload(event []byte) string {
	e, _ := readEvent(event)
	fields := replyFields{}.text("key", e.key)
	fields = append(fields, describeEvent(&e, n.whole)...)
	line := []byte{'{'}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1].IsNil() {
			continue
		}
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = append(appendJSON(line, fields[i].Str), ':')
		if fields[i+1].Kind == resp.KindInt {
			line = strconv.AppendInt(line, fields[i+1].Int, 10)
		} else {
			line = appendJSON(line, fields[i+1].Str)
		}
	}
	return string(append(line, '}'))
}

// appendJSON writes a text as JSON does. Bytes that are no UTF-8 become U+FFFD.
func appendJSON(line []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string always has a form
	return append(line, text...)
}
