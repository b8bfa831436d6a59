package followers

import (
	"encoding/binary"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
)

func replicateRequest() *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("n1"), Addr: []byte("host:7001")},
		Term:      7, PrevLogEntry: 1 << 40, PrevLogTerm: 6, LeaderCommitIndex: 99,
		Entries: []*raft.Log{
			{Index: 1<<40 + 1, Term: 7, Type: raft.LogCommand, Data: []byte("data"), AppendedAt: time.Unix(1700000000, 123)},
			{Index: 1<<40 + 2, Term: 7, Type: raft.LogNoop, Extensions: []byte{0}},
			{Index: 1<<40 + 3, Term: 7, Type: raft.LogConfiguration, Data: make([]byte, 70000)},
		},
	}
}

// Requests and answers arrive as they were sent.
func TestReplicateForm(t *testing.T) {
	heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, Addr: []byte("a")}, Term: 1}
	for _, req := range []*raft.AppendEntriesRequest{replicateRequest(), heartbeat} {
		got, err := DecodeRequest(appendRequest(nil, req))
		if err != nil || !reflect.DeepEqual(got, req) {
			t.Errorf("request %+v, error %v; want %+v", got, err, req)
		}
	}
	for _, want := range []raft.AppendEntriesResponse{
		{}, {RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("n2"), Addr: []byte("b")}, Term: 1 << 50, LastLog: 3, Success: true},
		{Term: 2, NoRetryBackoff: true}, {Success: true, NoRetryBackoff: true},
	} {
		for _, fails := range []string{"", "it will not"} {
			var said error
			if fails != "" {
				said = errors.New(fails)
			}
			var got raft.AppendEntriesResponse
			if text, err := decodeAnswer(AppendAnswer(nil, &want, said), &got); err != nil || text != fails || !reflect.DeepEqual(got, want) {
				t.Errorf("answer %+v, %q, error %v; want %+v, %q", got, text, err, want, fails)
			}
		}
	}
}

// A truncated, too long or trailing message is an error, and never half a request.
func TestReplicateMalformed(t *testing.T) {
	whole := appendRequest(nil, replicateRequest())
	for cut := range whole {
		if _, err := DecodeRequest(whole[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes pass for a request", cut, len(whole))
		}
	}
	if _, err := DecodeRequest(append(whole, 0)); err == nil {
		t.Error("a byte too many passes")
	}
	many := replicateRequest()
	for len(many.Entries) <= EntriesMax {
		many.Entries = append(many.Entries, &raft.Log{Index: 1})
	}
	if _, err := DecodeRequest(appendRequest(nil, many)); err == nil || !strings.Contains(err.Error(), "too many entries") {
		t.Errorf("%d entries: error %v", len(many.Entries), err)
	}
	strange := replicateRequest()
	strange.Entries[0].Type = raft.LogConfiguration + 1
	if _, err := DecodeRequest(appendRequest(nil, strange)); err == nil || !strings.Contains(err.Error(), "unknown type") {
		t.Errorf("an entry of an unknown type: error %v", err)
	}
	answer := AppendAnswer(nil, &raft.AppendEntriesResponse{Term: 300, Success: true}, errors.New("no"))
	for cut := range answer {
		if _, err := decodeAnswer(answer[:cut], &raft.AppendEntriesResponse{}); err == nil {
			t.Fatalf("the first %d of %d bytes pass for an answer", cut, len(answer))
		}
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	go theirs.Write(binary.BigEndian.AppendUint32(nil, bytesMax+1))
	if _, err := NewConn(ours).Receive(); !errors.Is(err, peer.ErrFrame) {
		t.Errorf("a message of more than %d bytes: error %v", bytesMax, err)
	}
}

func FuzzReplicate(f *testing.F) {
	small := replicateRequest()
	small.Entries = small.Entries[:2]
	f.Add(appendRequest(nil, small))
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 255, 255, 3})
	f.Fuzz(func(t *testing.T, body []byte) {
		var resp raft.AppendEntriesResponse
		_, _ = decodeAnswer(body, &resp)
		req, err := DecodeRequest(body)
		if err != nil {
			return
		}
		again, err := DecodeRequest(appendRequest(nil, req))
		if err != nil || !reflect.DeepEqual(again, req) {
			t.Errorf("%+v became %+v, error %v", req, again, err)
		}
	})
}

// A broken connection takes idle ones along, and the next call has a new one; those for heartbeats stay. Raft's error
// about a request breaks none.
func TestReplicasBroken(t *testing.T) {
	var servers []*Conn
	entries, heartbeats := lane{target: "a"}, lane{"a", true}
	r := &Conns{idle: map[lane][]*Conn{}, dial: func(raft.ServerAddress) (net.Conn, error) {
		ours, theirs := net.Pipe()
		c := NewConn(theirs)
		servers = append(servers, c)
		go func() {
			for {
				if _, err := c.Receive(); err != nil {
					return
				}
				_, _ = c.Send(func(b []byte) []byte {
					return AppendAnswer(b, &raft.AppendEntriesResponse{Term: 5}, errors.New("not now"))
				})
			}
		}()
		return ours, nil
	}}
	first, err := r.take(entries)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.take(entries)
	if err != nil {
		t.Fatal(err)
	}
	r.put(entries, first)
	r.put(entries, second)
	beat, err := r.take(heartbeats)
	if err != nil {
		t.Fatal(err)
	}
	r.put(heartbeats, beat)
	call := func() error {
		var resp raft.AppendEntriesResponse
		return r.Call("a", replicateRequest(), &resp)
	}
	for range 3 {
		if err := call(); err == nil || err.Error() != "not now" {
			t.Fatalf("error %v, want Raft's", err)
		}
	}
	if len(servers) != 3 {
		t.Fatalf("%d connections were made, want 3", len(servers))
	}
	_ = servers[0].Close()
	_ = servers[1].Close()
	if err := call(); err == nil || err.Error() == "not now" {
		t.Fatalf("error %v on a broken connection", err)
	}
	if len(r.idle[entries]) != 0 {
		t.Errorf("%d connections to a process that is gone are kept", len(r.idle[entries]))
	}
	if kept := r.idle[heartbeats]; len(kept) != 1 || kept[0] != beat {
		t.Errorf("%d connections for heartbeats are kept, want that one", len(kept))
	}
	if err := call(); err == nil || err.Error() != "not now" || len(servers) != 4 {
		t.Errorf("error %v after %d connections, want Raft's on the fourth", err, len(servers))
	}
	r.Close()
	if err := call(); !errors.Is(err, raft.ErrTransportShutdown) {
		t.Errorf("error %v after the end", err)
	}
}

// The larger a message is, the longer its answer may take.
func TestPatience(t *testing.T) {
	for size, want := range map[int]time.Duration{
		0: AnswerPatience, MessageBytes / 4: 2 * time.Second, MessageBytes: Timeout, bytesMax: Timeout,
	} {
		if got := Patience(size); got != want {
			t.Errorf("a message of %d bytes: %s, want %s", size, got, want)
		}
	}
}
