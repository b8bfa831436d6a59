package cluster

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"lockd/cluster/membership"
	"lockd/resp"
)

func sampleEntries() []entry {
	set := resp.Request{Cmds: []resp.Cmd{{DB: 3, Args: resp.Args{"SET", "k", "v\x00\xff"}}}, Watch: &resp.Watching{Check: []resp.Watch{{DB: 1, Key: "w", Version: 9}}}}
	get := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", ""}}, {Args: resp.Args{"PING"}}}}
	m := membership.Member{ID: "n1", Incarnation: "abc", PeerAddr: "a:1", ClientAddrs: []string{"a:2", "b:2"}, Arch: "amd64"}
	return []entry{
		{kind: entryBatch, term: 7, tick: 1 << 40, wall: -5, reqs: []resp.Request{set, get}},
		{kind: entryBatch, term: 1, reqs: []resp.Request{}},
		{kind: entryRoster, term: 2, tick: 5, change: membership.Change{Cluster: "c", Upsert: []membership.Member{m}, Remove: []string{"n0"}}},
	}
}

// secondEntries are those of version 2, which knows transactions.
func secondEntries() []entry {
	multi := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"RPUSH", "k", "v"}}, {Args: resp.Args{"DEL", "k"}}}, Multi: true}
	return append(sampleEntries(), entry{kind: entryBatch, term: 3, tick: 9, wall: 8, reqs: []resp.Request{multi, {Cmds: multi.Cmds}}})
}

// thirdEntries are those of version 3, which carries a digest and knows where requests
// come from.
func thirdEntries() []entry {
	set := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "k", "v"}}}}
	from := []origin{{}, {session: 1 << 63, number: 1}, {session: 5, number: 1 << 40}, {session: 1 << 63, number: 300}, {}}
	return append(secondEntries(), entry{
		kind: entryBatch, term: 4, tick: 10, wall: 9, reqs: []resp.Request{set, set, set, set, set}, origins: from,
		checked: 300, digest: 1 << 63,
	})
}

// fourthEntries are those of version 4, whose requests say what they are.
func fourthEntries() []entry {
	set := resp.Cmd{Args: resp.Args{"SET", "k", "v"}}
	steps := []resp.Request{
		resp.BlockOpening("", 0), resp.BlockAsking(resp.BlockID{Session: 1, Number: 2}, 3, resp.Cmd{DB: 1, Args: resp.Args{"BLPOP", "k", "0"}}),
		resp.BlockTending([]uint64{1}, []resp.BlockID{{Session: 1, Number: 2}}), resp.BlockClosing([]uint64{1}),
	}
	for _, i := range []int{0, 2, 3} {
		steps[i].Cmds = []resp.Cmd{} // as they are decoded
	}
	return append(thirdEntries(), entry{
		kind: entryBatch, term: 5, tick: 11, wall: 10, checked: 1, digest: 2,
		reqs: []resp.Request{{Cmds: []resp.Cmd{set}, Trace: true}, {Cmds: []resp.Cmd{set, set}, Trace: true, Multi: true}, {Cmds: []resp.Cmd{set}}},
	}, entry{kind: entryBatch, term: 6, tick: 12, wall: 11, reqs: steps})
}

// fifthEntries are those of version 5, whose requests may say who their client is.
func fifthEntries() []entry {
	client := resp.Client{ID: 300, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}.Sender()
	set := []resp.Cmd{{Args: resp.Args{"SET", "k", "v", "NX"}}}
	wait := resp.BlockAsking(resp.BlockID{Session: 1, Number: 2}, 3, resp.Cmd{Args: resp.Args{"LOCK", "k", "v", "PX", "1", "WAIT", "1"}})
	wait.Sender = resp.Client{ID: 1, Addr: "a:1"}.Sender()
	return append(fourthEntries(), entry{
		kind: entryBatch, term: 7, tick: 13, wall: 12, reqs: []resp.Request{{Cmds: set, Sender: client}, {Cmds: set}, wait},
	})
}

// seventhEntries are those of version 7, whose requests may say whose rights their scripts have.
func seventhEntries() []entry {
	eval := []resp.Cmd{{Args: resp.Args{"EVAL", "return 1", "0"}}}
	return append(fifthEntries(), entry{
		kind: entryBatch, term: 7, tick: 14, wall: 13, reqs: []resp.Request{{Cmds: eval, User: "alice"}},
	})
}

// What is written is what is read.
func TestEntryRoundTrip(t *testing.T) {
	for _, e := range seventhEntries() {
		got, err := decodeEntry(appendEntry(nil, &e))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, e)
		}
	}
}

// The origin of a request costs its entry a few bytes, however many there are.
func TestOriginIsShort(t *testing.T) {
	e := entry{kind: entryBatch, reqs: make([]resp.Request, 1000)}
	for i := range e.reqs {
		e.reqs[i] = resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET"}}}}
	}
	plain := len(appendEntry(nil, &e))
	for i := range e.reqs {
		e.origins = append(e.origins, origin{session: 1<<63 + uint64(i%3), number: 1_000_000 + uint64(i)})
	}
	if more := len(appendEntry(nil, &e)) - plain; more > 24+3*len(e.reqs) {
		t.Errorf("%d bytes more for %d requests", more, len(e.reqs))
	}
}

// An origin that cannot be is refused.
func TestBadOrigin(t *testing.T) {
	head := []byte{3, entryBatch, 1, 2, 2, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 1} // no digest, one session, one request
	request := resp.AppendRequest(nil, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", "a"}}}})
	for from, want := range map[[2]byte]string{{0, 0}: "", {1, 9}: "", {2, 9}: "bad origin", {0, 9}: "bad origin", {1, 0}: "bad origin"} {
		_, err := decodeEntry(sealEntry(append(append(bytes.Clone(head), from[:]...), request...)))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("origin %v: %v", from, err)
		}
	}
	if _, err := decodeEntry(sealEntry([]byte{3, entryBatch, 1, 2, 2, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8})); err == nil {
		t.Error("more sessions than bytes: no error")
	}
}

// An entry that was cut short, changed in one bit, lengthened, or written by a
// later version is refused with a reason, never misread.
func TestEntryDamage(t *testing.T) {
	for _, e := range seventhEntries() {
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
	for _, e := range seventhEntries() {
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
