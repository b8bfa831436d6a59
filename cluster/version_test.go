package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"lockd/resp"
)

// What version 1 has written is read for ever. The files are never written again:
// a new version adds a folder of its own.
func TestVersion1Opens(t *testing.T) {
	for i, want := range sampleEntries() {
		b, err := os.ReadFile(filepath.Join("testdata", "v1", fmt.Sprintf("entry%d.bin", i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
	b, err := os.ReadFile(filepath.Join("testdata", "v1", "image.bin"))
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{machine: newTestMachine(), clock: NewSystemClock(), proposer: newProposer(nil)}
	n.roster.Store(emptyRoster)
	if err := n.restore(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if n.applied != 42 || !reflect.DeepEqual(n.roster.Load(), sampleRoster()) {
		t.Errorf("image.bin: applied %d, roster %+v", n.applied, n.roster.Load())
	}
	res := n.machine.View(resp.Stamp{}, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", "a"}}}})
	if got := res.Replies[0].Str; got != "1" {
		t.Errorf("image.bin: a is %q", got)
	}
}

// The same of the entries of version 2.
func TestVersion2Opens(t *testing.T) {
	for i, want := range secondEntries() {
		b, err := os.ReadFile(filepath.Join("testdata", "v2", fmt.Sprintf("entry%d.bin", i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}

// The same of the entries of version 3, which are written today.
func TestVersion3Opens(t *testing.T) {
	for i, want := range thirdEntries() {
		b, err := os.ReadFile(filepath.Join("testdata", "v3", fmt.Sprintf("entry%d.bin", i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(appendEntry(nil, &want), b) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}

func sampleRoster() *roster {
	m := member{ID: "n1", Incarnation: "abc", PeerAddr: "a:1", ClientAddrs: []string{"a:2", "b:2"}, Arch: "amd64"}
	r := emptyRoster.with(rosterChange{cluster: "c", upsert: []member{m}})
	return r.with(rosterChange{remove: []string{"n0"}})
}

func sampleImage() []byte {
	m := newTestMachine()
	m.vars["a"] = testVar{Value: "1"}
	var b bytes.Buffer
	if err := (&image{applied: 42, roster: sampleRoster(), write: m.Snapshot()}).writeTo(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A snapshot that was cut short, or changed in what cluster itself has written, is
// refused.
func TestImageDamage(t *testing.T) {
	good := sampleImage()
	head := len(good) - len(`{"Tick":0,"Conf":"","Vars":{"a":{"Value":"1","Deadline":0}}}`) - 1
	for i := range head {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, _, err := readImage(bytes.NewReader(bad)); err == nil {
				t.Fatalf("bit %d of byte %d flipped: no error", bit, i)
			}
		}
		if _, _, err := readImage(bytes.NewReader(good[:i])); err == nil {
			t.Fatalf("cut to %d bytes: no error", i)
		}
	}
}

// Whatever stands at the beginning of a snapshot, reading it neither panics nor
// allocates without bound.
func FuzzImage(f *testing.F) {
	f.Add(sampleImage())
	f.Fuzz(func(t *testing.T, b []byte) {
		applied, ros, err := readImage(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		i := &image{applied: applied, roster: ros, write: newTestMachine().Snapshot()}
		if err := i.writeTo(&again); err != nil {
			t.Fatal(err)
		}
		applied2, ros2, err := readImage(&again)
		if err != nil || applied2 != applied || !reflect.DeepEqual(ros2, ros) {
			t.Fatalf("%d %+v\nbecame %d %+v, %v", applied, ros, applied2, ros2, err)
		}
	})
}
