package history

import (
	"encoding/json"
	"strconv"

	"lockd/resp"
)

// Form makes messages of records: for subscribers those of the channels __lock@<db>__:<key>, for nodes the news of the
// locks that their clients hold.
type Form struct{ whole bool } // whole: tokens are shown so

var formWhole, formPrefix = &Form{whole: true}, &Form{}

// FormOf returns the form that shows tokens whole, or their beginnings.
func FormOf(whole bool) *Form {
	if whole {
		return formWhole
	}
	return formPrefix
}

// News returns the news for the holder of a lock. A grant is news only if it answers LOCK to a client that is known:
// the script reports what it takes.
func (*Form) News(event []byte) (n resp.LockNews) {
	e, _ := Read(event)
	if e.Kind.Ends() || e.Kind == Granted && e.By == resp.LockCommand && !e.Script && e.Client != "" {
		n.How = e.Kind.String()
	}
	n.HeldLock = resp.HeldLock{DB: e.DB, Key: e.Key, Token: e.Token, Fence: e.Fence}
	n.LeaseMs, n.Script, n.Client = e.LeaseMs, e.Script, e.Client
	return n
}

// Channel returns the channel of an event; an event of a whole database has one without a key.
func (*Form) Channel(event []byte) string {
	e, _ := Read(event)
	return "__lock@" + strconv.Itoa(e.DB) + "__:" + e.Key
}

// Payload returns an event as one line of JSON: an object with the fields of LOCKS HISTORY that are known.
func (n *Form) Payload(event []byte) string {
	e, _ := Read(event)
	fields := Fields{}.Text("key", e.Key)
	fields = append(fields, e.Describe(n.whole)...)
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
