package keyspace

import (
	"bytes"
	"testing"

	"lockd/keyspace/lifecycle"
	"lockd/luavm"
	"lockd/resp"
)

// In a new cluster fences go on above the given one, waiters are forgotten, and a lock that was not known is granted
// only after the embargo: on the machine itself and on one that has its image.
func TestRefound(t *testing.T) {
	m := New(luavm.New())
	at := func(tick int64, index uint64) resp.Stamp {
		return resp.Stamp{Tick: tick, Wall: tick * 1000, Index: index}
	}
	apply := func(m *Machine, tick int64, index uint64, line string) string {
		t.Helper()
		res, _ := m.Apply(at(tick, index), []resp.Request{request(0, line)})
		return string(res[0].Replies[0].AppendTo(nil, 3))
	}
	apply(m, 1000, 1, "LOCK known alice PX 60000")
	id := m.state.Waits.Sessions.Open("", 0, m.state.Tick)
	step := &resp.BlockStep{Kind: resp.BlockAsk, ID: resp.BlockID{Session: id, Number: 1}}
	wait := request(0, "LOCK known bob PX 60000 WAIT 50000")
	wait.Block = step
	m.Apply(at(1001, 2), []resp.Request{wait})
	if m.state.Waits.Len() != 1 {
		t.Fatal("nobody waits")
	}
	const fence = 1 << 41
	m.Fork(fence, 5000)
	if m.state.Waits.Len() != 0 || m.state.Waits.Sessions.Len() != 0 || m.state.Waits.Sessions.Open("", 0, m.state.Tick) <= id {
		t.Error("who waited in the old cluster is still there, or his session's number is given again")
	}
	img := image(t, m)
	if !bytes.Equal(image(t, restored(t, img)), img) {
		t.Error("the image of a restored machine differs")
	}
	other := New(luavm.New())
	if err := other.Restore(bytes.NewReader(img)); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Machine{m, other} {
		refused := string(resp.Errf(lifecycle.ErrEmbargoFmt, 5001).AppendTo(nil, 3))
		if got := apply(m, 1001, 3, "SET new carol NX PX 1000"); got != refused {
			t.Errorf("in the embargo: %q", got)
		}
		if got := apply(m, 2000, 4, "RENEW known alice PX 60000"); got != ":1\r\n" {
			t.Errorf("a lock that was held has the fence %q", got)
		}
		if got := apply(m, 2001, 5, "UNLOCK known alice"); got != ":1\r\n" {
			t.Errorf("released: %q", got)
		}
		if got := apply(m, 6001, 6, "LOCK known carol PX 1000"); got != string(resp.Errf(lifecycle.ErrEmbargoFmt, 1).AppendTo(nil, 3)) {
			t.Errorf("at the end of the embargo: %q", got)
		}
		if got := apply(m, 6002, 7, "LOCK known carol PX 1000"); got != string(resp.Int(fence+1).AppendTo(nil, 3)) {
			t.Errorf("after the embargo: %q", got)
		}
		if got := apply(m, 6003, 8, "SET new carol NX PX 1000"); got != "+OK\r\n" || m.state.Keys.LastFence != fence+2 {
			t.Errorf("after the embargo: %q, fence %d", got, m.state.Keys.LastFence)
		}
	}
	if !bytes.Equal(image(t, m), image(t, other)) {
		t.Error("a machine that was restored went another way")
	}
	// The next cluster may be told less than was given, and no embargo.
	m.Fork(5, 0)
	if got := apply(m, 6004, 9, "LOCK third carol PX 1000"); got != string(resp.Int(fence+3).AppendTo(nil, 3)) {
		t.Errorf("without an embargo: %q", got)
	}
}

// Redisson's scripts, as it sends them, in the embargo: a holder renews and releases, nobody else comes in.
func TestHoldAndRedisson(t *testing.T) {
	const (
		take = `if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then ` +
			`redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; ` +
			`return redis.call('pttl', KEYS[1]);`
		release = `if (redis.call('hexists', KEYS[1], ARGV[2]) == 0) then return nil; end; ` +
			`local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1); ` +
			`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[1]); redis.call('set', KEYS[2], 0, 'px', 5000); return 0; ` +
			`else redis.call('del', KEYS[1]); redis.call('publish', 'redisson_lock__channel:{l}', 0); ` +
			`redis.call('set', KEYS[2], 1, 'px', 5000); return 1; end;`
		read = `local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then ` +
			`redis.call('hset', KEYS[1], 'mode', 'read'); end; redis.call('hset', KEYS[1], ARGV[2], 1); ` +
			`redis.call('pexpire', KEYS[1], ARGV[1]); return nil`
		alice = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"
		bob   = "8743c9c0-0795-4907-87fd-6c719a6b4587:1"
		latch = "redisson_unlock_latch:{l}:1"
	)
	m := New(luavm.New())
	index := uint64(0)
	eval := func(script, key, token string) resp.Reply {
		t.Helper()
		index++
		req := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"EVAL", script, "2", key, latch, "30000", token}}}}
		res, _ := m.Apply(resp.Stamp{Tick: 1000, Wall: 1, Index: index}, []resp.Request{req})
		return res[0].Replies[0]
	}
	expect := func(what string, got resp.Reply, want resp.Reply) {
		t.Helper()
		if g, w := string(got.AppendTo(nil, 3)), string(want.AppendTo(nil, 3)); g != w {
			t.Errorf("%s: %q, not %q", what, g, w)
		}
	}
	eval(take, "l", alice)
	eval(take, "l", alice)
	eval(read, "rw", alice)
	m.Fork(0, 5000)
	refused := m.state.EmbargoError()
	expect("taken once more by its holder", eval(take, "l", alice), resp.Nil())
	expect("held by another", eval(take, "l", bob), resp.Int(30000))
	expect("a free lock", eval(take, "free", bob), refused)
	expect("another reader", eval(read, "rw", bob), refused)
	expect("the same reader", eval(read, "rw", alice), resp.Nil())
	expect("released", eval(release, "l", alice), resp.Int(0))
	expect("released", eval(release, "l", alice), resp.Int(0))
	expect("released", eval(release, "l", alice), resp.Int(1))
	expect("taken anew", eval(take, "l", bob), refused)
	if m.state.Keys.Len() != 2 { // rw and the latch
		t.Errorf("%d keys", m.state.Keys.Len())
	}
}
