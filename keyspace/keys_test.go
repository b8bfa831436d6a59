package keyspace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
)

// Two keys of one position, found by a search: all that tells them apart is the key in
// their entries.
const (
	twinA = "WoSCQF3Wm"
	twinB = "eqBn82ISl"
)

// Keys that share a position are keys of their own: for every command, in a scan, in a
// script that is taken back, in an image, and for one who is not there.
func TestKeysThatShareAPosition(t *testing.T) {
	if value.Position(twinA) != value.Position(twinB) || twinA >= twinB {
		t.Fatal("these keys prove nothing")
	}
	m := New(fakeScripts{})
	for i := range 200 { // so that the tree has more than a root
		do(m, 1, fmt.Sprintf("SET filler%d v", i))
	}
	play(t, m, []turn{
		{1, "SET " + twinB + " b NX PX 1000", "OK"},
		{1, "EXISTS " + twinA, "0"},
		{1, "DEL " + twinA, "0"},
		{1, "SET " + twinA + " a NX PX 1000", "OK"},
		{1, "SET " + twinA + " x NX", "(nil)"},
		{1, "SET " + twinB + " x NX", "(nil)"},
		{1, "GET " + twinA, "a"},
		{1, "GET " + twinB, "b"},
		{1, "DBSIZE", "202"},
	})
	keys := func(m *Machine) (found []string) {
		m.state.Keys.DBs[0].Keys.Scan(value.Position(twinA), 1, func(e *store.Entry) { found = append(found, e.Key()) })
		return found
	}
	if got := keys(m); !slices.Equal(got, []string{twinA, twinB}) {
		t.Errorf("the scan of a position returned %q", got)
	}
	if got := keys(restored(t, image(t, m))); !slices.Equal(got, []string{twinA, twinB}) {
		t.Errorf("the restored one returned %q", got)
	}
	play(t, m, []turn{
		{2, "EVAL 'DEL " + twinA + "\nSET " + twinB + " x\nlimit' 0", "ERR script limit"},
		{2, "MGET " + twinA + " " + twinB, "a b"},
		{2, "DEL " + twinA, "1"},
		{2, "GET " + twinB, "b"},
		{2, "SET " + twinA + " again", "OK"},
		{2000, "EXISTS " + twinB, "0"},
		{2000, "GET " + twinA, "again"},
		{2000, "DBSIZE", "201"},
	})
}

// A stored entry is replaced and never changed; one that is not in one piece passes on
// its key and what it holds.
func TestEntriesAreReplaced(t *testing.T) {
	m := New(fakeScripts{})
	for _, value := range []string{"token", strings.Repeat("long", 100)} {
		do(m, 1, "SET lock "+value)
		was, _ := m.state.Keys.DBs[0].Keys.Get("lock")
		do(m, 1, "PEXPIRE lock 1000")
		next, _ := m.state.Keys.DBs[0].Keys.Get("lock")
		if next == was || was.Deadline().IsSet() || !next.Deadline().IsSet() {
			t.Error("a stored entry was changed, or not replaced")
		}
		shared := unsafe.StringData(next.Key()) == unsafe.StringData(was.Key()) && unsafe.StringData(next.Str()) == unsafe.StringData(was.Str())
		if shared != (len(value) > store.InlineMax) {
			t.Errorf("key and value, of %d bytes, are shared: %v", len(value), shared)
		}
	}
}

// A copy is as it was, whatever becomes of the tree and of the entries in it.
func TestKeyTreeCopy(t *testing.T) {
	m := New(fakeScripts{})
	for i := range 500 {
		do(m, 1, fmt.Sprintf("SET key%d before PX 1000", i))
	}
	frozen := m.state.Keys.DBs[0].Keys.Copy()
	listed := func() (all []string) {
		frozen.Each(func(e *store.Entry) bool {
			all = append(all, fmt.Sprint(e.Key(), e.Str(), e.Deadline(), e.Fence, e.Version))
			return true
		})
		return all
	}
	before := listed()
	for i := range 500 {
		do(m, 1, fmt.Sprintf("SET key%d after", i))
		do(m, 1, fmt.Sprintf("DEL key%d", i/2))
		do(m, 1, fmt.Sprintf("SET new%d x", i))
	}
	if !slices.Equal(before, listed()) {
		t.Error("the copy has changed")
	}
	checkDerived(t, m)
}

// Entries that are replaced while an image of them is being written are in it as they
// were; the race detector watches.
func TestEntriesAreReplacedWhileAnImageIsWritten(t *testing.T) {
	m := New(fakeScripts{})
	for i := range 1000 {
		do(m, 1, fmt.Sprintf("SET key%d before PX 1000", i))
	}
	want := image(t, m)
	write, done := m.Snapshot(), make(chan []byte)
	go func() {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Error(err)
		}
		done <- b.Bytes()
	}()
	for i := range 1000 {
		do(m, 1, fmt.Sprintf("SET key%d after PX 2000", i))
		do(m, 1, fmt.Sprintf("PEXPIRE key%d 3000", i/2))
		do(m, 1, fmt.Sprintf("GET key%d", i))
	}
	if !bytes.Equal(<-done, want) {
		t.Error("the image is not the one of its moment")
	}
}
