package record

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"lockd/cluster/membership"
	"lockd/resp"
)

// sampleEntries are entries of all kinds, with requests of all kinds.
func sampleEntries() []Entry {
	set := resp.Cmd{Args: resp.Args{"SET", "k", "v"}}
	watching := &resp.Watching{Check: []resp.Watch{{DB: 1, Key: "w", Version: 9}, {Key: "h", Version: 8, Holder: true}}}
	asks := []resp.Request{
		{Cmds: []resp.Cmd{{DB: 3, Args: resp.Args{"SET", "k", "v\x00\xff"}}}, Watch: watching},
		{Cmds: []resp.Cmd{{Args: resp.Args{"GET", ""}}, {Args: resp.Args{"PING"}}}},
		{Cmds: []resp.Cmd{set, {Args: resp.Args{"DEL", "k"}}}, Multi: true},
		{Cmds: []resp.Cmd{set}, Trace: true},
		{Cmds: []resp.Cmd{set}, Watch: &resp.Watching{Learn: []resp.Key{{DB: 15, Name: "k"}, {}}}},
		{Cmds: []resp.Cmd{set}, Sender: resp.Client{ID: 300, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}.Sender()},
		{Cmds: []resp.Cmd{{Args: resp.Args{"EVAL", "return 1", "0"}}}, User: "alice"},
	}
	from := []Origin{{}, {Session: 1 << 63, Number: 1}, {Session: 5, Number: 1 << 40}, {Session: 1 << 63, Number: 300}, {}, {}, {}}
	m := membership.Member{ID: "n1", Incarnation: "abc", PeerAddr: "a:1", ClientAddrs: []string{"a:2", "b:2"}, Arch: "amd64"}
	return []Entry{
		{Kind: Batch, Term: 7, Tick: 1 << 40, Wall: -5, Reqs: asks},
		{Kind: Batch, Term: 1, Reqs: []resp.Request{}},
		{Kind: Roster, Term: 2, Tick: 5, Change: membership.Change{Cluster: "c", Upsert: []membership.Member{m}, Remove: []string{"n0"}}},
		{Kind: Roster, Term: 2, Tick: 5, Change: membership.Change{Cluster: "c", Level: 2}},
		{Kind: Batch, Term: 4, Tick: 10, Wall: 9, Reqs: asks, Origins: from, Checked: 300, Digest: 1 << 63},
		{Kind: Batch, Term: 4, Tick: 10, Wall: 9, Reqs: asks[:1], Checked: 1, Digest: 2},
		{Kind: Batch, Term: 6, Tick: 12, Wall: 11, Reqs: sampleSteps()},
		{Kind: Batch, Term: 6, Tick: 12, Wall: 11, Reqs: []resp.Request{{Cmds: []resp.Cmd{}}}, Origins: []Origin{{Session: 7, Number: 9}}}, // a recall
	}
}

// sampleSteps are steps of blocking commands, of all kinds that are logged and with all parts that these have.
func sampleSteps() []resp.Request {
	id := func(number uint64) resp.BlockID { return resp.BlockID{Session: 1, Number: number} }
	wait := resp.BlockAsking(id(2), 3, resp.Cmd{Args: resp.Args{"LOCK", "k", "v", "PX", "1", "WAIT", "1"}})
	wait.Block.Instead, wait.Sender = id(1), resp.Client{ID: 1, Addr: "a:1"}.Sender()
	steps := []resp.Request{
		resp.BlockOpening("n1", 7), resp.BlockOpening("", 0), wait,
		resp.BlockAsking(id(3), 0, resp.Cmd{DB: 1, Args: resp.Args{"BLPOP", "k", "0"}}),
		{Block: &resp.BlockStep{
			Kind: resp.BlockTend, Sessions: []uint64{1, 300}, Cancelled: []resp.BlockID{id(2)}, Undelivered: []resp.BlockID{id(4)},
			Resumed: []resp.BlockID{id(1)}, Settled: 99,
		}},
		resp.BlockSuspending([]uint64{1}, []resp.BlockID{id(5)}),
		resp.BlockClosing([]uint64{1}),
	}
	for i := range steps {
		if steps[i].Cmds == nil {
			steps[i].Cmds = []resp.Cmd{} // as it is decoded
		}
	}
	return steps
}

// A written entry reads back equal.
func TestEntryRoundTrip(t *testing.T) {
	for _, e := range sampleEntries() {
		got, err := Decode(Append(nil, &e))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, e)
		}
	}
}

// The origin of a request costs its entry a few bytes, for any number of requests.
func TestOriginIsShort(t *testing.T) {
	e := Entry{Kind: Batch, Reqs: make([]resp.Request, 1000)}
	for i := range e.Reqs {
		e.Reqs[i] = resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET"}}}}
	}
	plain := len(Append(nil, &e))
	for i := range e.Reqs {
		e.Origins = append(e.Origins, Origin{Session: 1<<63 + uint64(i%3), Number: 1_000_000 + uint64(i)})
	}
	if more := len(Append(nil, &e)) - plain; more > 25+4*len(e.Reqs) {
		t.Errorf("%d bytes more for %d requests", more, len(e.Reqs))
	}
}

// An impossible origin is refused.
func TestBadOrigin(t *testing.T) {
	head := []byte{Version, Batch, byte(entryOrigins), 1, 2, 2, 1, 7, 0, 0, 0, 0, 0, 0, 0, 1} // one session, one request
	request := resp.AppendRequest(nil, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", "a"}}}})
	for from, want := range map[[2]byte]string{{0, 0}: "", {1, 9}: "", {2, 9}: "bad origin", {0, 9}: "bad origin", {1, 0}: "bad origin"} {
		_, err := Decode(sealEntry(append(append(bytes.Clone(head), from[:]...), request...)))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("origin %v: %v", from, err)
		}
	}
	if _, err := Decode(sealEntry([]byte{Version, Batch, byte(entryOrigins), 1, 2, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8})); err == nil {
		t.Error("more sessions than bytes: no error")
	}
}

// An entry that was cut short, changed in one bit, lengthened, or written by a
// later version is refused with a reason, never misread.
func TestEntryDamage(t *testing.T) {
	for _, e := range sampleEntries() {
		good := Append(nil, &e)
		for n := range good {
			if _, err := Decode(good[:n]); err == nil {
				t.Fatalf("cut to %d of %d bytes: no error", n, len(good))
			}
			for bit := range 8 {
				bad := bytes.Clone(good)
				bad[n] ^= 1 << bit
				if _, err := Decode(bad); err == nil {
					t.Fatalf("bit %d of byte %d flipped: no error", bit, n)
				}
			}
		}
		if _, err := Decode(append(bytes.Clone(good), 0)); err == nil {
			t.Fatal("a byte too many: no error")
		}
	}
	_, err := Decode(sealEntry([]byte{Version + 1, 0, 1, 2, 3}))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %d is unknown to this version of lockd", Version+1)) {
		t.Errorf("a later version: %v", err)
	}
}

// A record with a part that this lockd does not know is refused by the part's name.
func TestPartsToCome(t *testing.T) {
	head := []byte{Version, Batch, 0, 1, 2, 2, 1}
	for name, body := range map[string][]byte{
		"an entry":                     {Version, Batch, 1 << entryParts, 1, 2, 2, 0},
		"an entry, of the roster":      {Version, Roster, byte(entryChecked), 1, 2, 2},
		"a request":                    append(bytes.Clone(head), 1<<6, 0, 0),
		"a step of a blocking command": append(bytes.Clone(head), 1<<3, 0, 0, byte(resp.BlockTend), 0x80, 0x10),
		"a change of the members":      {Version, Roster, 0, 1, 2, 2, 2, 0, 0, 0},
		"a member":                     {Version, Roster, 0, 1, 2, 2, 0, 0, 1, 2, 0, 0, 0, 0, 0},
	} {
		record, _, _ := strings.Cut(name, ",")
		_, err := Decode(sealEntry(body))
		if err == nil || !strings.Contains(err.Error(), "unreadable log entry: ") || !strings.Contains(err.Error(), resp.NewerPart(record)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sealEntry prepends the right checksum to a body.
func sealEntry(body []byte) []byte {
	b := append([]byte{0, 0, 0, 0}, body...)
	setCRC(b)
	return b
}

// Decoding neither panics nor allocates without bound for any bytes, and a decoded entry encodes to one that decodes
// equal.
func FuzzEntryDecode(f *testing.F) {
	for _, e := range sampleEntries() {
		f.Add(Append(nil, &e)[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(sealEntry(body))
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, &e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v\nbecame %+v, %v", e, again, err)
		}
	})
}
