package wait

import (
	"context"
	"time"

	"lockd/cluster/wake"
	"lockd/resp"
)

// claimer asks the leader whether clients of a blocker may be told that their commands were served.
type claimer struct{ b *Blocker }

// run asks the leader for all clients that are to be told, until the node stops.
func (c *claimer) run(ctx context.Context) {
	for {
		select {
		case <-c.b.claim:
		case <-ctx.Done():
			return
		}
		for all := c.next(); len(all) > 0 && ctx.Err() == nil; all = c.next() {
			c.settleAll(ctx, all)
		}
	}
}

func (c *claimer) next() []claimed {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	n := min(len(c.b.claims), claimsMax)
	all := c.b.claims[:n:n]
	c.b.claims = c.b.claims[n:]
	return all
}

// settleAll asks for some ends, and tells their clients. A LOCK that was granted too long ago, or whose grant is refused,
// is asked for again: a token that holds the lock renews its lease thereby, one that has left by UNLOCK is answered nil,
// and another one stands in line again.
func (c *claimer) settleAll(ctx context.Context, all []claimed) {
	var given []resp.BlockID
	var locks []resp.HeldLock
	for _, served := range all {
		if served.end.Given {
			given = append(given, served.end.ID)
		}
		if served.call.grantsLock(&served.end) {
			locks = append(locks, served.call.lock(&served.end))
		}
	}
	began := c.b.Clock.Monotonic()
	verdicts := c.ask(ctx, resp.BlockClaiming(given, locks))
	if len(verdicts) != len(given)+len(locks) {
		return // this node stops
	}
	took := c.b.Clock.Monotonic() - began
	ofGiven, ofLocks := verdicts[:len(given)], verdicts[len(given):]
	for _, served := range all {
		how, isLock := resp.BlockServed, served.call.grantsLock(&served.end)
		if served.end.Given {
			if ofGiven[0].Int == resp.ClaimRefused {
				how = blockTakenBack
			}
			ofGiven = ofGiven[1:]
		}
		if isLock {
			switch age := ofLocks[0].Int; {
			case how != resp.BlockServed:
			case age == resp.ClaimRefused:
				how = blockTakenBack
			case millis(age)+took > AnswerAgeMax:
				how = blockLate
			}
			ofLocks = ofLocks[1:]
		}
		if how == blockTakenBack && !isLock {
			c.b.giveBack(served.end.ID) // the leader may lead no more before it has taken it back
		}
		c.settle(served, how)
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// settle tells a client, or has its command asked for again.
func (c *claimer) settle(served claimed, how resp.Ending) {
	if how == resp.BlockServed || !c.asksAgain(served.call) {
		c.b.tell(served.call, served.end)
		return
	}
	served.call.client.ResumePushes()
	served.call.end(resp.BlockEnd{ID: served.end.ID, How: how})
}

// asksAgain has a command asked for again, unless its client has been told something else, or is gone.
func (c *claimer) asksAgain(call *waiter) bool {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if call.telling != tellingOpen {
		return false
	}
	call.telling = tellingDone
	return true
}

// ask asks the leader until it has answered; it returns nothing if this node stops.
func (c *claimer) ask(ctx context.Context, req resp.Request) []resp.Reply {
	for pause := wake.RetryMin; ctx.Err() == nil; pause = min(2*pause, wake.RetryMax) {
		changed := c.b.Changed.Next()
		res, ok := c.b.Read(ctx, req)
		if ok && len(res.Replies) == 1 && !res.Replies[0].IsErr() {
			return res.Replies[0].Elems
		}
		wake.Sleep(ctx, changed, pause)
	}
	return nil
}
