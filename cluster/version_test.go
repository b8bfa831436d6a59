package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lockd/cluster/membership"
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
	machine, clock := newTestMachine(), NewSystemClock()
	c := newCore(Config{Machine: machine, Clock: clock})
	n := newState(c, machine, newMembers(c))
	if err := n.restore(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if n.applied != 42 || !reflect.DeepEqual(n.members.roster.Load(), sampleRoster()) {
		t.Errorf("image.bin: applied %d, roster %+v", n.applied, n.members.roster.Load())
	}
	res := machine.View(resp.Stamp{}, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", "a"}}}})
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

// The same of the entries of version 3.
func TestVersion3Opens(t *testing.T) {
	for i, want := range thirdEntries() {
		b, err := os.ReadFile(filepath.Join("testdata", "v3", fmt.Sprintf("entry%d.bin", i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}

// Before version 4 a request asked for a Trace by a command at its end, which had to be
// there beside another one.
func TestOldEntryWithTrace(t *testing.T) {
	get, tracked := resp.Cmd{Args: resp.Args{"GET", "k"}}, resp.Cmd{Args: resp.Args{"tracked"}}
	for version, want := range map[byte]resp.Request{
		2: {Cmds: []resp.Cmd{get}, Trace: true}, 3: {Cmds: []resp.Cmd{get}, Trace: true}, 4: {Cmds: []resp.Cmd{get, tracked}},
	} {
		e := entry{kind: entryBatch, reqs: []resp.Request{{Cmds: []resp.Cmd{get, tracked}}}}
		b := appendEntry(nil, &e)
		if version == 2 { // no digest, no sessions, no origin
			b = append(b[:9], append([]byte{1}, resp.AppendRequest(nil, e.reqs[0])...)...)
		}
		b[4] = version
		got, err := decodeEntry(sealEntry(b[4:]))
		if err != nil || !reflect.DeepEqual(got.reqs, []resp.Request{want}) {
			t.Errorf("version %d: %+v, %v, want %+v", version, got.reqs, err, want)
		}
	}
}

// Before version 4 steps of blocking commands were commands.
func TestOldEntryWithSteps(t *testing.T) {
	request := func(lines ...string) (req resp.Request) {
		for _, line := range lines {
			req.Cmds = append(req.Cmds, resp.Cmd{DB: 3, Args: strings.Fields(line)})
		}
		return req
	}
	id := func(session, number uint64) resp.BlockID { return resp.BlockID{Session: session, Number: number} }
	for lines, want := range map[string]resp.Request{
		"block open":                 resp.BlockOpening("", 0),
		"block ask 1 2 30 BLPOP k 0": resp.BlockAsking(id(1, 2), 30, resp.Cmd{DB: 3, Args: resp.Args{"BLPOP", "k", "0"}}),
		"block keep 1 2":             resp.BlockTending([]uint64{1, 2}, nil),
		"block keep 1|block cancel 1 9|block cancel 2 8": resp.BlockTending([]uint64{1}, []resp.BlockID{id(1, 9), id(2, 8)}),
		"block cancel 1 9":            resp.BlockTending(nil, []resp.BlockID{id(1, 9)}),
		"block close 4 5":             resp.BlockClosing([]uint64{4, 5}),
		"block ask 1 x 30 BLPOP k 0":  request("block ask 1 x 30 BLPOP k 0"),
		"block ask 1 2 30":            request("block ask 1 2 30"),
		"block cancel 1|block keep 1": request("block cancel 1", "block keep 1"),
		"block cancel 1 2|GET k":      request("block cancel 1 2", "GET k"),
		"block":                       request("block"),
	} {
		e := entry{kind: entryBatch, reqs: []resp.Request{request(strings.Split(lines, "|")...)}}
		b := appendEntry(nil, &e)
		b[4] = 3
		got, err := decodeEntry(sealEntry(b[4:]))
		if err != nil || !reflect.DeepEqual(got.reqs, []resp.Request{want}) {
			t.Errorf("%s: %+v, %v, want %+v", lines, got.reqs, err, want)
		}
	}
}

// The same of the entries of version 4.
func TestVersion4Opens(t *testing.T) {
	for i, want := range fourthEntries() {
		b, err := os.ReadFile(filepath.Join("testdata", "v4", fmt.Sprintf("entry%d.bin", i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}

// The same of the entries of versions 5 and 6: only what they are applied to differs.
func TestVersions5And6Open(t *testing.T) {
	for i, want := range fifthEntries() {
		for _, version := range []string{"v5", "v6"} {
			b, err := os.ReadFile(filepath.Join("testdata", version, fmt.Sprintf("entry%d.bin", i)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeEntry(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s/entry%d.bin: got %+v, %v\nwant %+v", version, i, got, err, want)
			}
		}
	}
}

// The same of the entries of version 7, which are written today.
func TestVersion7Opens(t *testing.T) {
	for i, want := range seventhEntries() {
		b, err := os.ReadFile(filepath.Join("testdata", "v7", fmt.Sprintf("entry%d.bin", i)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(appendEntry(nil, &want), b) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}

func sampleRoster() *membership.Roster {
	m := membership.Member{ID: "n1", Incarnation: "abc", PeerAddr: "a:1", ClientAddrs: []string{"a:2", "b:2"}, Arch: "amd64"}
	r := membership.Empty.With(membership.Change{Cluster: "c", Upsert: []membership.Member{m}})
	return r.With(membership.Change{Remove: []string{"n0"}})
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
