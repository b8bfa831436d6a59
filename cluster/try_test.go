package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// Who asks for what is taken is refused without an entry, at the leader and elsewhere; what
// is free is taken through the log.
func TestRefusedWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		c.expect(leader, "SETNX a 1", ":1")
		last := leader.raft.LastIndex()
		for range 10 {
			c.expect(leader, "SETNX a 2", ":0")
			c.expect(c.others(leader)[0], "SETNX a 2", ":0")
		}
		if now := leader.raft.LastIndex(); now != last {
			t.Errorf("%d entries for requests that change nothing", now-last)
		}
		c.expect(c.others(leader)[1], "SETNX b 1", ":1")
		c.expect(leader, "GET a", "$1 1")
	})
}

// A leader that was deposed refuses nobody: what is taken there may be free by now.
func TestDeposedLeaderDoesNotRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		old := c.leader()
		c.expect(old, "SET a 1 2000", "+OK")
		c.cut(old)
		answer := make(chan string, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			answer <- old.doCtx(ctx, "SETNX a old")
		}()
		select {
		case got := <-answer:
			if got == ":0" {
				t.Fatal("a leader that nobody hears refuses")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no answer at all")
		}
		time.Sleep(5 * time.Second) // the lease ends on the other side
		others := c.others(old)
		c.expect(c.leader(others[0].id, others[1].id), "SETNX a new", ":1")
	})
}

// What was taken when a request came, and is free when leadership is confirmed, is taken
// through the log.
func TestTriedAndFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.leader()
		done := make(chan answer, 1)
		req := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SETNX", "free", "1"}}}}
		leader.reader.submit(&op{req: req, size: resp.RequestSize(req), try: true, done: func(o outcome, res resp.Result) { done <- answer{o, res} }})
		if a := <-done; a.outcome != outcomeDone || a.result.Replies[0].Int != 1 {
			t.Errorf("%v, %v", a.outcome, a.result)
		}
		c.expect(leader, "GET free", "$1 1")
		c.agree()
	})
}
