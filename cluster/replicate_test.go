package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
		got, err := decodeReplicate(appendReplicate(nil, req))
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
			if text, err := decodeReplicateAnswer(appendReplicateAnswer(nil, &want, said), &got); err != nil || text != fails || !reflect.DeepEqual(got, want) {
				t.Errorf("answer %+v, %q, error %v; want %+v, %q", got, text, err, want, fails)
			}
		}
	}
}

// What is cut short, too long, or too much is an error, and never half a request.
func TestReplicateMalformed(t *testing.T) {
	whole := appendReplicate(nil, replicateRequest())
	for cut := range whole {
		if _, err := decodeReplicate(whole[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes pass for a request", cut, len(whole))
		}
	}
	if _, err := decodeReplicate(append(whole, 0)); err == nil {
		t.Error("a byte too many passes")
	}
	many := replicateRequest()
	for len(many.Entries) <= appendEntriesMax {
		many.Entries = append(many.Entries, &raft.Log{Index: 1})
	}
	if _, err := decodeReplicate(appendReplicate(nil, many)); err == nil || !strings.Contains(err.Error(), "too many entries") {
		t.Errorf("%d entries: error %v", len(many.Entries), err)
	}
	strange := replicateRequest()
	strange.Entries[0].Type = raft.LogConfiguration + 1
	if _, err := decodeReplicate(appendReplicate(nil, strange)); err == nil || !strings.Contains(err.Error(), "unknown type") {
		t.Errorf("an entry of an unknown type: error %v", err)
	}
	answer := appendReplicateAnswer(nil, &raft.AppendEntriesResponse{Term: 300, Success: true}, errors.New("no"))
	for cut := range answer {
		if _, err := decodeReplicateAnswer(answer[:cut], &raft.AppendEntriesResponse{}); err == nil {
			t.Fatalf("the first %d of %d bytes pass for an answer", cut, len(answer))
		}
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	go theirs.Write(binary.BigEndian.AppendUint32(nil, replicateBytesMax+1))
	if _, err := newLogConn(ours).receive(); !errors.Is(err, peer.ErrFrame) {
		t.Errorf("a message of more than %d bytes: error %v", replicateBytesMax, err)
	}
}

func FuzzReplicate(f *testing.F) {
	small := replicateRequest()
	small.Entries = small.Entries[:2]
	f.Add(appendReplicate(nil, small))
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 255, 255, 3})
	f.Fuzz(func(t *testing.T, body []byte) {
		var resp raft.AppendEntriesResponse
		_, _ = decodeReplicateAnswer(body, &resp)
		req, err := decodeReplicate(body)
		if err != nil {
			return
		}
		again, err := decodeReplicate(appendReplicate(nil, req))
		if err != nil || !reflect.DeepEqual(again, req) {
			t.Errorf("%+v became %+v, error %v", req, again, err)
		}
	})
}

// A connection that was found broken takes those with it that have waited beside it, and the
// next call has a new one; those for heartbeats stay. What Raft says against a request breaks none.
func TestReplicasBroken(t *testing.T) {
	var servers []*logConn
	entries, heartbeats := lane{target: "a"}, lane{"a", true}
	r := &replicas{idle: map[lane][]*logConn{}, dial: func(raft.ServerAddress) (net.Conn, error) {
		ours, theirs := net.Pipe()
		c := newLogConn(theirs)
		servers = append(servers, c)
		go func() {
			for {
				if _, err := c.receive(); err != nil {
					return
				}
				_, _ = c.send(func(b []byte) []byte {
					return appendReplicateAnswer(b, &raft.AppendEntriesResponse{Term: 5}, errors.New("not now"))
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
		return r.call("a", replicateRequest(), &resp)
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
	r.close()
	if err := call(); !errors.Is(err, raft.ErrTransportShutdown) {
		t.Errorf("error %v after the end", err)
	}
}

// deafNetwork has connections that carry a message with deafTo pass nothing on from then on, as many
// as left says, and stay open.
type deafNetwork struct {
	peer.Network
	left *atomic.Int32
}

const deafTo = "swallowed"

func (d deafNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := d.Network.Dial(addr, timeout)
	return &deafConn{Conn: conn, left: d.left}, err
}

type deafConn struct {
	net.Conn
	left *atomic.Int32
	deaf atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(deafTo)) && c.left.Add(-1) >= 0 {
		c.deaf.Store(true)
	}
	if c.deaf.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A connection swallows an entry and stays open, and the third node is away: the entry goes on another
// connection after answerPatience, and the leader goes on leading.
func TestSwallowedEntryIsSentAgain(t *testing.T) {
	for swallows := range int32(3) {
		synctest.Test(t, func(t *testing.T) {
			left := &atomic.Int32{}
			c := startCluster(t, 3, func(cfg *Config) { cfg.Network = deafNetwork{cfg.Network, left} })
			defer c.close()
			lead := c.settle()
			term := lead.lead.Load().Term
			c.cut(c.others(lead)[1])
			time.Sleep(time.Second)
			left.Store(swallows)
			began := time.Now()
			c.expect(lead, "SET a "+deafTo, "+OK")
			if took := time.Since(began); took > time.Duration(swallows)*(answerPatience+replicatePause)+100*time.Millisecond {
				t.Errorf("swallowed %d times, and it took %s", swallows, took)
			}
			if left.Load() > 0 {
				t.Errorf("it was not swallowed: %d are left", left.Load())
			}
			lead.sameTerm(t, term)
		})
	}
}

// The larger a message is, the longer its answer may take.
func TestPatience(t *testing.T) {
	for size, want := range map[int]time.Duration{
		0: answerPatience, messageBytes / 4: 2 * time.Second, messageBytes: peerTimeout, replicateBytesMax: peerTimeout,
	} {
		if got := patience(size); got != want {
			t.Errorf("a message of %d bytes: %s, want %s", size, got, want)
		}
	}
}

// Disks that take their time, even those of all followers, cost time and no leader: nobody
// is left in doubt about a write, and reads go on.
func TestSlowDisksElectNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET a 1", "+OK")
		term := lead.raft.CurrentTerm()
		for _, o := range c.others(lead) {
			o.disk.gate.close()
		}
		reply := make(chan string, 1)
		go func() { reply <- lead.do("SET a 2") }()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			c.expect(lead, "GET a", "$1 1")
		}
		for _, o := range c.others(lead) {
			o.disk.gate.open(nil)
		}
		if got := <-reply; got != "+OK" {
			t.Errorf("the write was answered %q", got)
		}
		time.Sleep(2 * peer.HeartbeatDefault)
		if now := lead.raft.CurrentTerm(); !lead.lead.Held() || now != term {
			t.Errorf("the term was %d and is %d, and %s leads: %v", term, now, lead.id, lead.lead.Held())
		}
		c.agree()
	})
}

// Many large writes at a time, over slow links to slow disks, take their time and cost no
// leader; reads go on beside them.
func TestManyLargeWritesKeepTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		term := lead.raft.CurrentTerm()
		c.net.SetRate(4 << 20)
		for _, n := range c.others(nil) {
			n.disk.rate.Store(512 << 10)
		}
		const writes = 32
		value := strings.Repeat("x", 256<<10)
		replies := make(chan string, writes)
		for i := range writes {
			go func() { replies <- lead.do(fmt.Sprintf("SET k%d %s", i%4, value)) }()
			time.Sleep(20 * time.Millisecond)
		}
		for len(replies) < writes {
			if reply := lead.do("GET k"); reply != "_" {
				t.Fatalf("a read was answered %q", reply)
			}
			time.Sleep(100 * time.Millisecond)
		}
		got := map[string]int{}
		for range writes {
			got[<-replies]++
		}
		if got["+OK"] != writes || lead.raft.CurrentTerm() != term || !lead.lead.Held() {
			t.Errorf("the writes were answered %v; the term was %d and is %d", got, term, lead.raft.CurrentTerm())
		}
	})
}

// A member that is busy does not answer for another term: Raft itself does, when it can.
func TestHeartbeatOfAnotherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.leader()
		follower := c.others(lead)[0]
		follower.disk.gate.close()
		written := make(chan string, 1)
		go func() { written <- lead.do("SET a 1") }()
		time.Sleep(peer.HeartbeatDefault) // Raft's goroutine waits for the disk
		term := lead.raft.CurrentTerm()
		beat := func(term uint64) <-chan bool {
			success := make(chan bool, 1)
			answers := make(chan raft.RPCResponse, 1)
			go func() {
				req := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: term}
				a, _ := follower.trans.askHeartbeat(raft.RPC{Command: req, RespChan: answers}, answers)
				success <- a.Response.(*raft.AppendEntriesResponse).Success
			}()
			time.Sleep(peer.HeartbeatDefault)
			return success
		}
		old, present := beat(term-1), beat(term)
		if len(present) != 1 || !<-present {
			t.Error("the heartbeat of the leader is not answered")
		}
		if len(old) != 0 {
			t.Error("the heartbeat of an older term is answered while Raft is busy")
		}
		follower.disk.gate.open(nil)
		if <-old {
			t.Error("the heartbeat of an older term succeeds")
		}
		if got := <-written; got != "+OK" {
			t.Errorf("the write was answered %q", got)
		}
		if lead.raft.Follows(term) {
			t.Error("the leader answers as if it followed itself")
		}
	})
}

// A member that is far behind is sent what it can take in time.
func TestMessagesAreBounded(t *testing.T) {
	large, small := &raft.Log{Data: make([]byte, messageBytes/2)}, &raft.Log{Data: make([]byte, 10)}
	huge := &raft.Log{Data: make([]byte, 2*messageBytes)}
	for _, tt := range []struct {
		entries []*raft.Log
		want    int
	}{
		{nil, 0}, {[]*raft.Log{small, small}, 2}, {[]*raft.Log{huge, small}, 1}, {[]*raft.Log{small, huge}, 1},
		{[]*raft.Log{large, large, small}, 2}, {[]*raft.Log{large, small, large}, 2},
	} {
		if got := withinMessage(tt.entries); got != tt.want {
			t.Errorf("%d of %d entries, want %d", got, len(tt.entries), tt.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		away := c.others(lead)[0]
		c.cut(away)
		value := strings.Repeat("x", messageBytes/2)
		for i := range 8 {
			c.expect(lead, fmt.Sprintf("SET k%d %s", i, value), "+OK")
		}
		time.Sleep(time.Second)
		writes := away.disk.writes.Load()
		c.net.Heal()
		time.Sleep(10 * time.Second)
		c.agree()
		if n := away.disk.writes.Load() - writes; n < 4 {
			t.Errorf("16 MiB of entries came in %d messages", n)
		}
	})
}
