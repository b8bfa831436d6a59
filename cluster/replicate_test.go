package cluster

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/followers"
	"lockd/cluster/peer"
)

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
			if took := time.Since(began); took > time.Duration(swallows)*(followers.AnswerPatience+replicatePause)+100*time.Millisecond {
				t.Errorf("swallowed %d times, and it took %s", swallows, took)
			}
			if left.Load() > 0 {
				t.Errorf("it was not swallowed: %d are left", left.Load())
			}
			lead.sameTerm(t, term)
		})
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
	large, small := &raft.Log{Data: make([]byte, followers.MessageBytes/2)}, &raft.Log{Data: make([]byte, 10)}
	huge := &raft.Log{Data: make([]byte, 2*followers.MessageBytes)}
	for _, tt := range []struct {
		entries []*raft.Log
		want    int
	}{
		{nil, 0}, {[]*raft.Log{small, small}, 2}, {[]*raft.Log{huge, small}, 1}, {[]*raft.Log{small, huge}, 1},
		{[]*raft.Log{large, large, small}, 2}, {[]*raft.Log{large, small, large}, 2}, {[]*raft.Log{large, large}, 2},
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
		value := strings.Repeat("x", followers.MessageBytes/2)
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
