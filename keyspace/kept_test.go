package keyspace

import (
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/store"
	"lockd/resp"
)

// What the machine keeps shares no memory with the entry of the log that brought
// it: one short value would hold the whole of a large entry.
func TestNothingKeptAliasesItsEntry(t *testing.T) {
	m := newMachine()
	for i, line := range []string{
		"SET set vvvv", "APPEND append vvvv", "APPEND append wwww", "SETRANGE range 0 vvvv",
		"SETEX setex 1000 vvvv", "GETSET getset vvvv", "MSET mset vvvv mset2 vvvv", "MSETNX nx vvvv",
		"SETNX setnx vvvv", "INCR incr", "INCRBYFLOAT float 1.5", "SET again v GET", "SET again w XX KEEPTTL",
		"HSET hash field vvvv", "HSETNX hash other vvvv", "HINCRBY hash int 5", "HINCRBYFLOAT hash float 5",
		"RPUSH list vvvv wwww", "LPUSH list vvvv", "LSET list 0 zzzz", "LINSERT list AFTER wwww yyyy", "LMOVE list moved LEFT LEFT",
		"RENAME set renamed", "COPY renamed copied", "COPY hash copiedhash", "EXPIRE copied 1000",
		"SET long " + strings.Repeat("v", 300), "SETEX longer 1000 " + strings.Repeat("w", store.InlineMax), "SET " + strings.Repeat("k", 300) + " v",
		"SCRIPT LOAD return", "EVAL evaluated 1 key arg",
	} {
		entry := strings.Clone(line)
		var args resp.Args
		for rest := entry; rest != ""; {
			var word string
			word, rest, _ = strings.Cut(rest, " ")
			args = append(args, word)
		}
		at := resp.Stamp{Tick: int64(i), Index: uint64(i + 1)}
		m.Apply(at, []resp.Request{{Cmds: []resp.Cmd{{Args: args}}}})
		for _, kept := range keptStrings(m) {
			if inside(kept, entry) {
				t.Errorf("%s: %q is kept in the entry's memory", line, kept)
			}
		}
	}
}

// keptStrings lists every string of the keyspace.
func keptStrings(m *Machine) (kept []string) {
	for _, d := range m.state.Keys.DBs {
		d.Keys.Each(func(e *store.Entry) bool {
			kept = append(kept, e.Key(), e.Str())
			if e.Aggregate() != nil {
				kept = append(kept, keptOf[e.Aggregate().Kind()](e.Aggregate())...)
			}
			return true
		})
		d.Leases.Each(func(l store.Lease) bool {
			kept = append(kept, l.Of.Key())
			return true
		})
	}
	return kept
}

// inside reports whether s lies in the memory of whole.
func inside(s, whole string) bool {
	if s == "" {
		return false
	}
	from := uintptr(unsafe.Pointer(unsafe.StringData(whole)))
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	return at >= from && at < from+uintptr(len(whole))
}
