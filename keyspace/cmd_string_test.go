package keyspace

import (
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/store"
	"lockd/resp"
)

// overlay is compared with the obvious way to write it.
func TestOverlay(t *testing.T) {
	naive := func(s string, offset int, patch string) string {
		b := make([]byte, max(len(s), offset+len(patch)))
		copy(b, s)
		copy(b[offset:], patch)
		return string(b)
	}
	for _, s := range []string{"", "a", "hello world", strings.Repeat("x", 5000)} {
		for _, offset := range []int{0, 1, 5, 11, 4095, 4096, 4097, 5000, 10000} {
			for _, patch := range []string{"p", "patch", strings.Repeat("y", 5000)} {
				if got, want := overlay(s, offset, patch), naive(s, offset, patch); got != want {
					t.Errorf("overlay(%d bytes, %d, %d bytes): %d bytes, want %d", len(s), offset, len(patch), len(got), len(want))
				}
			}
		}
	}
}

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
