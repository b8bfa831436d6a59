package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockd/resp"
	"lockd/resp/server/pubsub"
)

// ints is an array of numbers.
func ints(list ...int64) resp.Reply {
	elems := make([]resp.Reply, len(list))
	for i, n := range list {
		elems[i] = resp.Int(n)
	}
	return resp.Array(elems...)
}

// patternSum is the hash by which nodes recognize equal patterns.
func patternSum(glob string) string {
	sum := sha256.Sum256([]byte(glob))
	return string(sum[:16])
}

// inquiries are the questions that a fake backend was asked.
type inquiries struct {
	mu   sync.Mutex
	list []resp.Inquiry
}

// take returns the questions since it was called the last time.
func (q *inquiries) take() []resp.Inquiry {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.list = nil }()
	return q.list
}

// otherNodes has a fake backend answer for two other nodes, and notes the questions.
func (f *fakeBackend) otherNodes(answers map[string][]resp.Reply, err error) *inquiries {
	asked := &inquiries{}
	f.others.Lock()
	defer f.others.Unlock()
	f.members, f.ask = 2, func(q resp.Inquiry) ([]resp.Reply, error) {
		asked.mu.Lock()
		defer asked.mu.Unlock()
		asked.list = append(asked.list, q)
		return answers[q.Args[0]], err
	}
	return asked
}

// What other nodes answer is added to this node's, or united with it. Each question is asked once.
func TestCountsWithOthers(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	asked := fake.otherNodes(map[string][]resp.Reply{
		pubsub.NumSub: {ints(2, 0), ints(3, 1)}, pubsub.ShardNumSub: {ints(7)}, pubsub.Patterns: {resp.Bulks("x"), resp.Bulks(patternSum("p*"), "x")},
		pubsub.Channels: {resp.Bulks("zz", "a"), resp.Bulks("b")}, pubsub.ShardChannels: {resp.Bulks("s")},
		"receivers": {ints(4, 5, 6), ints(1), resp.Err("ERR busy")},
	}, nil)
	sub, c := dial(t, addr), dial(t, addr)
	sub.send("PSUBSCRIBE p*\r\nSUBSCRIBE a\r\n")
	sub.want("*3\r\n$10\r\npsubscribe\r\n$2\r\np*\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:2\r\n")
	for _, q := range []struct{ send, want string }{
		{"PUBSUB NUMSUB a b", "*4\r\n$1\r\na\r\n:6\r\n$1\r\nb\r\n:1\r\n"},
		{"PUBSUB SHARDNUMSUB a", "*2\r\n$1\r\na\r\n:7\r\n"},
		{"PUBSUB NUMPAT", ":2\r\n"},
		{"PUBSUB CHANNELS", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nzz\r\n"},
		{"PUBSUB SHARDCHANNELS", "*1\r\n$1\r\ns\r\n"},
		{"PUBLISH a x\r\nSPUBLISH b x\r\nINCR n\r\nPUBLISH pq x", ":5\r\n:5\r\n:1\r\n:7\r\n"}, // one of the answers is of another question
		{"MULTI\r\nPUBLISH a x\r\nPUBLISH b x\r\nGET n\r\nPUBLISH c x\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:5\r\n:5\r\n$1\r\n1\r\n:6\r\n"},
	} {
		asked.take()
		c.send(q.send + "\r\n")
		c.want(q.want)
		brief := strings.Contains(q.send, "PUBLISH")
		if got := asked.take(); len(got) != 1 || got[0].Brief != brief || got[0].Client != 0 {
			t.Errorf("%s: asked %+v", q.send, got)
		}
	}
	asked.take()
	c.send("CONFIG SET pubsub-count node\r\nPUBSUB NUMSUB a\r\nPUBLISH a x\r\nMULTI\r\nSUBSCRIBE b\r\nPUBSUB NUMPAT\r\nUNSUBSCRIBE\r\nEXEC\r\n")
	c.want("+OK\r\n*2\r\n$1\r\na\r\n:1\r\n:1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n" +
		"*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n")
	if got := asked.take(); len(got) != 0 {
		t.Errorf("asked %+v", got)
	}
	if srv.settings.CountsCluster() {
		t.Error("the setting has not changed")
	}
}

// A count that is not the whole cluster's is an error, and so is one that asks or answers for more than its limits; a
// message has been published all the same.
func TestCountsThatFail(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	asked := fake.otherNodes(map[string][]resp.Reply{pubsub.NumSub: {ints(1)}, "receivers": {ints(3)}}, resp.Error("LOADING few"))
	c := dial(t, addr)
	c.send("PUBSUB NUMSUB a\r\nPUBSUB NUMPAT\r\nPUBSUB CHANNELS\r\nPUBLISH a x\r\n")
	c.want("-LOADING few\r\n-LOADING few\r\n-LOADING few\r\n:3\r\n")
	asked.take()
	c.send("PUBSUB NUMSUB" + strings.Repeat(" a", countedNamesMax+1) + "\r\n")
	c.want("-ERR Protocol error: too big inline request\r\n")
	c = dial(t, addr)
	c.send(string(resp.AppendCommand(nil, append([]string{"PUBSUB", "NUMSUB"}, slices.Repeat([]string{"a"}, countedNamesMax+1)...)...)))
	c.want("-ERR too many channels to count: one command names 65,536 of 16 MiB at most\r\n")
	c.send("MULTI\r\nPUBSUB NUMSUB a\r\nUNSUBSCRIBE\r\nEXEC\r\n")
	c.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR PUBSUB cannot count the whole cluster in a transaction that subscribes or unsubscribes: send it after EXEC\r\n*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n")
	if got := asked.take(); len(got) != 0 {
		t.Errorf("asked %+v", got)
	}
	long := strings.Repeat("x", 1<<20)
	var names []resp.Reply
	for i := range 17 {
		names = append(names, resp.Bulk(fmt.Sprint(i, long)))
	}
	fake.otherNodes(map[string][]resp.Reply{pubsub.Channels: {resp.Array(names[:9]...), resp.Array(names[9:]...)}}, nil)
	c.send("PUBSUB CHANNELS\r\n")
	c.want("-ERR the names of the channels take more than 16 MiB: ask with a pattern that fewer of them match\r\n")
	fake.otherNodes(map[string][]resp.Reply{pubsub.Channels: {resp.Err("ERR no")}}, nil)
	c.send("PUBSUB CHANNELS\r\n")
	c.want("-ERR no\r\n")
}

// A count that was taken long before the message was in the log is taken again.
func TestStaleCount(t *testing.T) {
	var now atomic.Int64
	clock := func(c *Config) { c.Clock = func() time.Time { return time.Unix(1e9, now.Load()) } }
	_, fake, addr := startServer(t, clock)
	asked := make(chan bool, 10)
	fake.others.Lock()
	fake.members, fake.ask = 2, func(resp.Inquiry) ([]resp.Reply, error) {
		asked <- true
		return []resp.Reply{ints(3)}, nil
	}
	fake.others.Unlock()
	const stale = 100 * time.Millisecond
	c := dial(t, addr)
	for passes, want := range map[time.Duration]int{stale: 0, stale + 1: 1} {
		fake.mu.Lock()
		fake.held = func() {
			<-asked
			now.Add(int64(passes))
		}
		fake.mu.Unlock()
		c.send("PUBLISH a x\r\n")
		c.want(":3\r\n")
		if got := len(asked); got != want {
			t.Errorf("after %s it was asked %d times more, want %d", passes, got, want)
		}
		for range len(asked) {
			<-asked
		}
	}
}

// Answer answers the questions of other nodes' servers, and any other question with an error.
func TestAnswers(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	hub := srv.Hub()
	c := dial(t, addr)
	c.send("PSUBSCRIBE a*\r\nSUBSCRIBE a\r\nSSUBSCRIBE s\r\n")
	c.want("*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:2\r\n*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n")
	for question, want := range map[string]resp.Reply{
		"PING":               resp.OK(),
		"receivers ca ss cs": ints(2, 1, 0),
		"receivers":          resp.Array(),
		"numsub a b":         ints(1, 0),
		"shardnumsub s":      ints(1),
		"channels *":         resp.Bulks("a"),
		"channels":           resp.Err(pubsub.ErrQuestion),
		"shardchannels x":    resp.Bulks(),
		"patterns":           resp.Bulks(patternSum("a*")),
		"unblock 1 ERROR":    resp.Int(0),
		"unblock x":          resp.Err(pubsub.ErrQuestion),
		"kill 1":             resp.Err(pubsub.ErrQuestion),
		"what else":          resp.Err(pubsub.ErrQuestion),
	} {
		if got := hub.Answer(context.Background(), strings.Fields(question)); string(got.AppendTo(nil, 3)) != string(want.AppendTo(nil, 3)) {
			t.Errorf("%s: %q, want %q", question, got.AppendTo(nil, 3), want.AppendTo(nil, 3))
		}
		if got := NewHub().Answer(context.Background(), strings.Fields(question)); strings.Contains(got.Str, "ERR") && !want.IsErr() {
			t.Errorf("%s, before there is a server: %q", question, got.AppendTo(nil, 3))
		}
	}
	kill := resp.Args{askKill, "0", "", "", "pubsub", "default"}
	if got := hub.Answer(context.Background(), kill); got.Int != 1 {
		t.Errorf("kill: %+v", got)
	}
	c.wantClosed()
}

// Clients of other nodes are asked for by their id, address or user. What one question has done counts, even if others
// were not answered.
func TestAsksForClients(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dial(t, addr)
	asked := fake.otherNodes(map[string][]resp.Reply{askKill: {resp.Int(1), resp.Int(2)}, askUnblock: {resp.Int(1)}}, nil)
	for _, q := range []struct {
		send, want, asks string
		client           int64
	}{
		{"CLIENT KILL ID 77", ":3\r\n", "kill 77    ", 77},
		{"CLIENT KILL ADDR 1.2.3.4:5 TYPE normal", ":3\r\n", "kill 0 1.2.3.4:5  normal ", 0},
		{"CLIENT KILL USER default SKIPME yes", ":3\r\n", "kill 0    default", 0},
		{"CLIENT KILL 1.2.3.4:5", "+OK\r\n", "kill 0 1.2.3.4:5   ", 0},
		{"CLIENT KILL TYPE normal", ":0\r\n", "", 0},
		{"CLIENT KILL LADDR 1.2.3.4:5", ":0\r\n", "", 0},
		{"CLIENT UNBLOCK 77", ":1\r\n", "unblock 77 TIMEOUT", 77},
		{"CLIENT UNBLOCK 77 error", ":1\r\n", "unblock 77 ERROR", 77},
		{"CLIENT UNBLOCK -1", ":0\r\n", "", 0},
		{"CLIENT UNBLOCK " + c.clientNumber(), ":0\r\n", "", 0},
	} {
		asked.take()
		c.send(q.send + "\r\n")
		c.want(q.want)
		got, client := "", int64(0)
		for _, a := range asked.take() {
			got, client = got+strings.Join(a.Args, " "), a.Client
		}
		if got != q.asks || client != q.client {
			t.Errorf("%s: asked %q about %d, want %q about %d", q.send, got, client, q.asks, q.client)
		}
	}
	fake.otherNodes(map[string][]resp.Reply{askKill: {resp.Int(1)}}, resp.Error(resp.ErrUnknown))
	c.send("CLIENT KILL ADDR 1.2.3.4:5\r\nCLIENT UNBLOCK 77\r\n")
	c.want(":1\r\n-" + resp.ErrUnknown + "\r\n")
}
