package emit

import (
	"strings"

	"lockd/resp"
)

// Classes is a set of classes of keyspace notifications, and of the two ways to name their channels (K, E).
type Classes uint32

// The classes, in Redis's letters. lockd has no modules and no eviction; the letters are accepted and kept all the
// same.
const (
	Keyspace Classes = 1 << iota // K: __keyspace@<db>__:<key>
	Keyevent                     // E: __keyevent@<db>__:<event>
	Generic                      // g
	String                       // $
	List                         // l
	Set                          // s
	Hash                         // h
	Zset                         // z
	Expired                      // x
	Evicted                      // e
	Stream                       // t
	KeyMiss                      // m
	Module                       // d
	New                          // n
)

// all has the classes that A stands for: everything but m and n.
const all = Generic | String | List | Set | Hash |
	Zset | Expired | Evicted | Stream | Module

// letters is in the order in which Redis writes the letters back.
var letters = []struct {
	letter byte
	class  Classes
}{
	{'g', Generic}, {'$', String}, {'l', List}, {'s', Set},
	{'h', Hash}, {'z', Zset}, {'x', Expired}, {'e', Evicted},
	{'t', Stream}, {'d', Module}, {'n', New}, {'K', Keyspace},
	{'E', Keyevent}, {'m', KeyMiss},
}

// ParseClasses reads the value of notify-keyspace-events.
func ParseClasses(value string) (Classes, bool) {
	var set Classes
next:
	for i := 0; i < len(value); i++ {
		if value[i] == 'A' {
			set |= all
			continue
		}
		for _, l := range letters {
			if l.letter == value[i] {
				set |= l.class
				continue next
			}
		}
		return 0, false
	}
	return set, true
}

// CheckClasses returns the value of notify-keyspace-events as it is kept, or says what is wrong with it.
func CheckClasses(value string) (kept string, err error) {
	if _, ok := ParseClasses(value); !ok {
		return "", resp.Error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
	}
	return value, nil
}

// String writes the classes as CONFIG GET shows them. As in Redis 7, n is not
// written beside A.
func (n Classes) String() string {
	var b strings.Builder
	hidden := Classes(0)
	if n&all == all {
		b.WriteByte('A')
		hidden = all | New
	}
	for _, l := range letters {
		if n&l.class&^hidden != 0 {
			b.WriteByte(l.letter)
		}
	}
	return b.String()
}
