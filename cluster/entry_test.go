package cluster

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"lockd/resp"
)

func sampleEntries() []entry {
	set := resp.Request{Cmds: []resp.Cmd{{DB: 3, Args: resp.Args{"SET", "k", "v\x00\xff"}}}, Watch: []resp.Watch{{DB: 1, Key: "w", Version: 9}}}
	get := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", ""}}, {Args: resp.Args{"PING"}}}}
	m := member{ID: "n1", Incarnation: "abc", PeerAddr: "a:1", ClientAddrs: []string{"a:2", "b:2"}, Arch: "amd64"}
	return []entry{
		{kind: entryBatch, term: 7, tick: 1 << 40, wall: -5, reqs: []resp.Request{set, get}},
		{kind: entryBatch, term: 1, reqs: []resp.Request{}},
		{kind: entryRoster, term: 2, tick: 5, change: rosterChange{cluster: "c", upsert: []member{m}, remove: []string{"n0"}}},
	}
}

// secondEntries are those of version 2, which knows transactions.
func secondEntries() []entry {
	multi := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"RPUSH", "k", "v"}}, {Args: resp.Args{"DEL", "k"}}}, Multi: true}
	return append(sampleEntries(), entry{kind: entryBatch, term: 3, tick: 9, wall: 8, reqs: []resp.Request{multi, {Cmds: multi.Cmds}}})
}

// thirdEntries are those of version 3, which carries a digest.
func thirdEntries() []entry {
	incr := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"INCR", "k"}}}}
	return append(secondEntries(), entry{kind: entryBatch, term: 3, tick: 9, wall: 8, checked: 300, digest: 1 << 63, reqs: []resp.Request{incr}})
}

// What is written is what is read.
func TestEntryRoundTrip(t *testing.T) {
	for _, e := range thirdEntries() {
		got, err := decodeEntry(appendEntry(nil, &e))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, e)
		}
	}
}

// An entry that was cut short, changed in one bit, lengthened, or written by a
// later version is refused with a reason, never misread.
func TestEntryDamage(t *testing.T) {
	for _, e := range thirdEntries() {
		good := appendEntry(nil, &e)
		for n := range good {
			if _, err := decodeEntry(good[:n]); err == nil {
				t.Fatalf("cut to %d of %d bytes: no error", n, len(good))
			}
			for bit := range 8 {
				bad := bytes.Clone(good)
				bad[n] ^= 1 << bit
				if _, err := decodeEntry(bad); err == nil {
					t.Fatalf("bit %d of byte %d flipped: no error", bit, n)
				}
			}
		}
		if _, err := decodeEntry(append(bytes.Clone(good), 0)); err == nil {
			t.Fatal("a byte too many: no error")
		}
	}
	_, err := decodeEntry(sealEntry([]byte{entryVersion + 1, 0, 1, 2, 3}))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %d is unknown to this version of lockd", entryVersion+1)) {
		t.Errorf("a later version: %v", err)
	}
}

// sealEntry puts a right checksum before a body.
func sealEntry(body []byte) []byte {
	b := append([]byte{0, 0, 0, 0}, body...)
	setCRC(b)
	return b
}

// Whatever the bytes of an entry, decoding neither panics nor allocates without
// bound, and what is read writes back to something that reads the same.
func FuzzEntryDecode(f *testing.F) {
	for _, e := range thirdEntries() {
		f.Add(appendEntry(nil, &e)[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := decodeEntry(sealEntry(body))
		if err != nil {
			return
		}
		again, err := decodeEntry(appendEntry(nil, &e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v\nbecame %+v, %v", e, again, err)
		}
	})
}
