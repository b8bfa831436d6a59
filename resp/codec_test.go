package resp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func sampleRequests() []Request {
	return []Request{
		{},
		{Cmds: []Cmd{{Args: Args{"PING"}}}},
		{Cmds: []Cmd{{DB: 15, Args: Args{"SET", "", "\x00\xff\r\n"}}, {Args: Args{""}}}},
		{Cmds: []Cmd{{DB: 3, Args: Args{"INCR", "k"}}}, Watch: &Watching{Check: []Watch{{DB: 3, Key: "k", Version: math.MaxUint64 &^ ofHolder}, {Key: ""}, {Version: 7, Holder: true}}}},
		{Cmds: []Cmd{{Args: Args{"SET", "k", strings.Repeat("v", 300)}}}, Multi: true},
		{Cmds: []Cmd{{Args: Args{"GET", "k"}}}, Trace: true},
		{Cmds: []Cmd{{Args: Args{"LOCK", "k"}}}, Sender: Client{ID: math.MaxUint64, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}.Sender()},
		{Cmds: []Cmd{{Args: Args{"LOCK", "k"}}}, Multi: true, Sender: Client{}.Sender()},
		{Cmds: []Cmd{{Args: Args{"EVAL", "", "0"}}}, User: "alice"},
		BlockOpening("", 0),
		BlockOpening("n1", 7),
		BlockSuspending([]uint64{3}, []BlockID{{Session: 1, Number: 2}, {}}),
		BlockClaiming([]BlockID{{Session: 1, Number: 2}}, []HeldLock{{DB: 1, Key: "k", Token: "t", Fence: 3}, {}}),
		{Block: &BlockStep{Kind: BlockTend, Resumed: []BlockID{{Session: 1, Number: 2}}, Settled: math.MaxUint64}},
		{Block: &BlockStep{Kind: BlockAsk, ID: BlockID{Session: 1, Number: 2}, Instead: BlockID{Session: 1, Number: 1}}, Cmds: []Cmd{{Args: Args{"LOCK"}}}},
		BlockAsking(BlockID{Session: math.MaxUint64, Number: 1}, math.MaxInt64, Cmd{DB: 1, Args: Args{"BLPOP", "k", "0"}}),
		BlockTending([]uint64{1, math.MaxUint64}, []BlockID{{Session: 1, Number: 2}, {}}),
		BlockTending(nil, []BlockID{{Session: 1, Number: 2}}),
		BlockClosing([]uint64{3}),
		{Watch: &Watching{Learn: []Key{{DB: 15, Name: "k"}, {}}, Check: []Watch{{Key: "k", Version: 1}}}, Multi: true},
	}
}

func sampleResults() []Result {
	trace := &Trace{Index: math.MaxUint64, From: 1, Marks: []int64{math.MaxInt64, 0}, Reads: []KeyRead{{Cmd: 1 << 20, Key: "k", At: 3}, {}}}
	return []Result{
		{}, {Watched: &Watched{Aborted: true}}, {Replies: sampleReplies()}, {Watched: &Watched{Versions: []uint64{0, math.MaxUint64}}},
		{Replies: []Reply{OK()}, Trace: trace}, {Watched: &Watched{}, Trace: &Trace{}},
		{Replies: []Reply{OK()}, Denied: []Denial{{"key", "k"}, {}}, Trace: trace}, {Denied: []Denial{{"command", "get"}}},
	}
}

func sampleReplies() []Reply {
	return []Reply{
		{}, OK(), Err("ERR x\r\ny"), Int(math.MinInt64), Int(math.MaxInt64), Bulk("\x00"), Bulk(""), Nil(), NilArray(), Array(),
		Array(Int(1), Array(Nil(), Bulk("x"))), Map(Bulk("k"), Bool(true)), Set(Bool(false)), Pairs(Bulk("f"), Double(0.5)), PairMap(Bulk("f"), Array(Int(1))),
		Double(math.Inf(1)), Double(math.NaN()), BigNumber("123"), Verbatim("text\n"), Push(Bulk("message"), Int(-1)),
	}
}

func sameRequest(a, b Request) bool {
	sameCmd := func(x, y Cmd) bool { return x.DB == y.DB && slices.Equal(x.Args, y.Args) }
	return a.Multi == b.Multi && a.Trace == b.Trace && slices.EqualFunc(a.Cmds, b.Cmds, sameCmd) &&
		reflect.DeepEqual(a.Watch, b.Watch) && reflect.DeepEqual(a.Block, b.Block) && a.Sender == b.Sender && a.User == b.User
}

func sameReply(a, b Reply) bool {
	return a.Kind == b.Kind && a.Int == b.Int && a.Str == b.Str && slices.EqualFunc(a.Elems, b.Elems, sameReply)
}

func sameResult(a, b Result) bool {
	sameWatched := func(x, y *Watched) bool { return x.Aborted == y.Aborted && slices.Equal(x.Versions, y.Versions) }
	same := slices.EqualFunc(a.Replies, b.Replies, sameReply) && (a.Trace == nil) == (b.Trace == nil) &&
		(a.Watched == nil) == (b.Watched == nil) && (a.Watched == nil || sameWatched(a.Watched, b.Watched))
	if same = same && slices.Equal(a.Denied, b.Denied); !same || a.Trace == nil {
		return same
	}
	t, u := a.Trace, b.Trace
	return t.Index == u.Index && t.From == u.From && slices.Equal(t.Marks, u.Marks) && slices.Equal(t.Reads, u.Reads)
}

// A request comes back from its binary form as it was, and what follows it is left alone.
func TestRequestRoundTrip(t *testing.T) {
	for _, req := range sampleRequests() {
		b := AppendRequest([]byte("before"), req)[len("before"):]
		if len(b) > req.Size() {
			t.Errorf("%v: %d bytes, Size says at most %d", req, len(b), req.Size())
		}
		got, rest, err := decodeRequest(append(b, "after"...))
		if err != nil || string(rest) != "after" || !sameRequest(got, req) {
			t.Errorf("%v came back as %v, rest %q, error %v", req, got, rest, err)
		}
	}
}

// A result comes back from its binary form as it was, and what follows it is left alone.
func TestResultRoundTrip(t *testing.T) {
	for _, res := range sampleResults() {
		got, rest, err := decodeResult(append(AppendResult(nil, res), "after"...))
		if err != nil || string(rest) != "after" || !sameResult(got, res) {
			t.Errorf("%v came back as %v, rest %q, error %v", res, got, rest, err)
		}
	}
}

// Every truncation of a valid form is an error, never a panic or a shorter value.
func TestDecodeCutShort(t *testing.T) {
	for _, req := range sampleRequests() {
		b := AppendRequest(nil, req)
		for n := range b {
			if _, _, err := decodeRequest(b[:n]); !errors.Is(err, ErrBinary) {
				t.Errorf("request %v of %d bytes cut to %d: %v", req, len(b), n, err)
			}
		}
	}
	for _, res := range sampleResults() {
		b := AppendResult(nil, res)
		for n := range b {
			if _, _, err := decodeResult(b[:n]); !errors.Is(err, ErrBinary) {
				t.Errorf("result %v of %d bytes cut to %d: %v", res, len(b), n, err)
			}
		}
	}
}

// Malformed forms are refused with the reason.
func TestDecodeMalformed(t *testing.T) {
	deep := bytes.Repeat([]byte{byte(KindArray), 1}, replyDepthMax+1)
	for _, c := range []struct {
		name, in, want string
		decode         func([]byte) error
	}{
		{"no name", "\x00\x01\x00\x00\x00", "a command without a name", requestError},
		{"too many commands", "\x00\xff\xff\x03\x00", "count exceeds the input", requestError},
		{"string too long", "\x00\x01\x00\x01\x09abc", "string exceeds the input", requestError},
		{"database out of range", "\x00\x01\xff\xff\xff\x7f\x01\x01a\x00", "number out of range", requestError},
		{"endless number", "\x00" + strings.Repeat("\xff", 11), "bad number", requestError},
		{"a part of a request to come", "\x40\x00\x00", "a request has a part that this lockd does not know: a newer one has written it", requestError},
		{"no user", "\x20\x00\x00\x00", "a user without a name", requestError},
		{"no keys", "\x04\x00\x00\x00", "no keys", requestError},
		{"step of no kind", "\x08\x00\x00\x07\x00", "a step of no kind", requestError},
		{"a part of a step to come", "\x08\x00\x00\x04\x80\x10", "a step of a blocking command has a part that this lockd does not know: a newer one has written it", requestError},
		{"ask for nothing", "\x08\x00\x00\x02\x01\x01\x01", "a step of no kind", requestError},
		{"open with a command", "\x08\x01\x00\x01\x01a\x00\x01\x00", "a step of no kind", requestError},
		{"a part of a result to come", "\x10", "a result has a part that this lockd does not know: a newer one has written it", resultError},
		{"aborted and more", "\x03\x00", "aborted, and more", resultError},
		{"no denials", "\x08\x00\x00", "no number of denials", resultError},
		{"far away", "\x04\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00", "number out of range", resultError},
		{"kind", "\x00\x01\x63", "unknown kind of reply", resultError},
		{"nested too deeply", "\x00\x01" + string(deep) + "\x05", "replies nested too deeply", resultError},
		{"odd map", "\x00\x01" + string([]byte{byte(KindMap), 1, byte(KindNil)}), "a key without a value", resultError},
		{"element of no kind", "\x00\x01" + string([]byte{byte(KindArray), 1, 0}), "an element without a value", resultError},
	} {
		err := c.decode([]byte(c.in))
		if !errors.Is(err, ErrBinary) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func decodeRequest(b []byte) (Request, []byte, error) {
	d := NewDecoder(b)
	return d.Request(), d.rest, d.err
}

func decodeResult(b []byte) (Result, []byte, error) {
	d := NewDecoder(b)
	return d.Result(), d.rest, d.err
}

func requestError(b []byte) error { _, _, err := decodeRequest(b); return err }
func resultError(b []byte) error  { _, _, err := decodeResult(b); return err }

// Counts inside counts cannot make the decoder allocate more than the input's
// size in items: each level claims bytes that no other may claim again.
func TestDecodeNestedCounts(t *testing.T) {
	const size = 1 << 16
	b := []byte{0, 1}
	for range replyDepthMax - 1 {
		b = append(b, byte(KindArray))
		b = binary.AppendUvarint(b, size-4*replyDepthMax)
	}
	b = append(b, make([]byte, size-len(b))...)
	if got, limit := allocated(func() { _ = resultError(b) }), uint64(100*size); got > limit {
		t.Errorf("%d bytes of input made the decoder allocate %d bytes", size, got)
	}
}

// Requests that are read one after the other share allocations, and nothing else: who appends to
// the slices of one does not write into another. What they take stays in proportion to the input.
func TestDecodeManyRequests(t *testing.T) {
	var b []byte
	var want []Request
	for i := range 200 {
		req := Request{Cmds: make([]Cmd, i%11)}
		for j := range req.Cmds {
			req.Cmds[j].Args = slices.Repeat(Args{"a"}, 1+(i+7*j)%13)
		}
		want, b = append(want, req), AppendRequest(b, req)
	}
	read := func() (got []Request) {
		d := NewDecoder(b)
		for range want {
			got = append(got, d.Request())
		}
		if err := d.End(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := read()
	for _, req := range got {
		for i := range req.Cmds {
			_ = append(req.Cmds[i].Args, "another's")
		}
		_ = append(req.Cmds, Cmd{DB: 1, Args: Args{"another's"}})
	}
	for i := range want {
		if !sameRequest(got[i], want[i]) {
			t.Errorf("request %d: %v, want %v", i, got[i], want[i])
		}
	}
	if got, limit := allocated(func() { read() }), uint64(50*len(b)); got > limit {
		t.Errorf("%d bytes of input made the decoder allocate %d bytes", len(b), got)
	}
}

// allocated measures the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Any bytes decode to an error or to a request that survives another round trip.
func FuzzDecodeRequest(f *testing.F) {
	for _, req := range sampleRequests() {
		f.Add(AppendRequest(nil, req))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req, rest, err := decodeRequest(b)
		if err != nil {
			return
		}
		items := len(req.watching().Check) + len(req.watching().Learn)
		for _, c := range req.Cmds {
			items += 1 + len(c.Args)
		}
		if items+len(rest) > len(b) {
			t.Fatalf("%d items from %d bytes", items, len(b))
		}
		again := AppendRequest(nil, req)
		got, rest, err := decodeRequest(again)
		if err != nil || len(rest) != 0 || !sameRequest(got, req) {
			t.Fatalf("%v came back as %v, error %v", req, got, err)
		}
		if len(again) > req.Size() {
			t.Fatalf("%d bytes, Size says at most %d", len(again), req.Size())
		}
	})
}

// Any bytes decode to an error or to a result that survives another round trip.
func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte{1})
	for _, r := range sampleReplies() {
		f.Add(AppendResult(nil, Result{Replies: []Reply{r}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		res, rest, err := decodeResult(b)
		if err != nil {
			return
		}
		if items := countReplies(res.Replies); items+len(rest) > len(b) {
			t.Fatalf("%d replies from %d bytes", items, len(b))
		}
		got, rest, err := decodeResult(AppendResult(nil, res))
		if err != nil || len(rest) != 0 || !sameResult(got, res) {
			t.Fatalf("%v came back as %v, error %v", res, got, err)
		}
	})
}

func countReplies(replies []Reply) int {
	n := len(replies)
	for _, r := range replies {
		n += countReplies(r.Elems)
	}
	return n
}
