package keyspace

import (
	"strconv"
	"strings"

	"lockd/keyspace/value"
	"lockd/resp"
)

// notifyClass is a set of classes of keyspace notifications, and of the two ways
// to name their channels (K, E).
type notifyClass uint32

// The classes, in Redis's letters. lockd has no modules and no eviction; the letters are accepted and kept all the
// same.
const (
	notifyKeyspace notifyClass = 1 << iota // K: __keyspace@<db>__:<key>
	notifyKeyevent                         // E: __keyevent@<db>__:<event>
	notifyGeneric                          // g
	notifyString                           // $
	notifyList                             // l
	notifySet                              // s
	notifyHash                             // h
	notifyZset                             // z
	notifyExpired                          // x
	notifyEvicted                          // e
	notifyStream                           // t
	notifyKeyMiss                          // m
	notifyModule                           // d
	notifyNew                              // n
)

// notifyAll is what A stands for: everything but m and n.
const notifyAll = notifyGeneric | notifyString | notifyList | notifySet | notifyHash |
	notifyZset | notifyExpired | notifyEvicted | notifyStream | notifyModule

// notifyLetters is in the order in which Redis writes the letters back.
var notifyLetters = []struct {
	letter byte
	class  notifyClass
}{
	{'g', notifyGeneric}, {'$', notifyString}, {'l', notifyList}, {'s', notifySet},
	{'h', notifyHash}, {'z', notifyZset}, {'x', notifyExpired}, {'e', notifyEvicted},
	{'t', notifyStream}, {'d', notifyModule}, {'n', notifyNew}, {'K', notifyKeyspace},
	{'E', notifyKeyevent}, {'m', notifyKeyMiss},
}

// parseNotify reads the value of notify-keyspace-events.
func parseNotify(letters string) (notifyClass, bool) {
	var set notifyClass
next:
	for i := 0; i < len(letters); i++ {
		if letters[i] == 'A' {
			set |= notifyAll
			continue
		}
		for _, l := range notifyLetters {
			if l.letter == letters[i] {
				set |= l.class
				continue next
			}
		}
		return 0, false
	}
	return set, true
}

// String writes the classes as CONFIG GET shows them. As in Redis 7, n is not
// written beside A.
func (n notifyClass) String() string {
	var b strings.Builder
	hidden := notifyClass(0)
	if n&notifyAll == notifyAll {
		b.WriteByte('A')
		hidden = notifyAll | notifyNew
	}
	for _, l := range notifyLetters {
		if n&l.class&^hidden != 0 {
			b.WriteByte(l.letter)
		}
	}
	return b.String()
}

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
