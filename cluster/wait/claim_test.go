package wait

import (
	"testing"

	"lockd/cluster/clock"
	"lockd/cluster/replica"
	"lockd/resp"
)

// given is a machine that remembers gifts.
type given struct {
	replica.Machine
	resp.BlockView
	gifts []resp.BlockGift
}

func (g *given) Blocks() resp.BlockView                    { return g }
func (g *given) Gifts(uint64) []resp.BlockGift             { return g.gifts }
func (g *given) Given(resp.BlockID) bool                   { return true }
func (g *given) Leases(locks []resp.HeldLock) []resp.Lease { return make([]resp.Lease, len(locks)) }

// A claim whose round was confirmed in an earlier term of this leader, and which is judged late, forgets nothing of
// what was decided in the present one.
func TestLateClaimForgetsNothing(t *testing.T) {
	id := resp.BlockID{Session: 1, Number: 1}
	earlier := &clock.Leadership{Term: 1, Clock: clock.NewSystem()}
	lead := &clock.Leadership{Term: 3, From: 10, Clock: clock.NewSystem()}
	claim := resp.BlockClaiming([]resp.BlockID{id}, nil).Block
	newClaims := func() *Claims {
		return NewClaims(replica.New(replica.Config{Machine: &given{gifts: []resp.BlockGift{{ID: id, Entry: 11}}}}))
	}
	verdict := func(r resp.Reply) int64 { return r.Elems[0].Int }

	c := newClaims()
	if back := c.Refuse(lead, 1); len(back) != 1 {
		t.Fatalf("the leader takes back %v", back)
	}
	if late := c.Judge(earlier, claim); !late.IsErr() {
		t.Errorf("the leader of an earlier term answers %+v", late)
	}
	if v := verdict(c.Judge(lead, claim)); v != resp.ClaimRefused {
		t.Errorf("what is on its way back is agreed to: %d", v)
	}

	c = newClaims()
	if v := verdict(c.Judge(lead, claim)); v != resp.ClaimGranted {
		t.Fatalf("the claim is answered %d", v)
	}
	c.Judge(earlier, claim)
	if back := c.Refuse(earlier, 1); len(back) > 0 {
		t.Errorf("in an earlier term the leader takes back %v", back)
	}
	if back := c.Refuse(lead, 1); len(back) > 0 {
		t.Errorf("the leader takes back %v, to which it has agreed", back)
	}
}

// A client that goes when its command is about to be asked for again is answered by that command's end: what it was
// given under the first number is not forgotten.
func TestAskedForAgainIsNotAbandoned(t *testing.T) {
	b := NewBlocker(BlockerConfig{})
	for _, gone := range []bool{false, true} {
		call := &waiter{}
		if gone && !b.abandon(call) {
			t.Error("a client that waits cannot go")
		}
		if again := (&claimer{b}).asksAgain(call); again == gone {
			t.Errorf("gone %t, asked for again %t", gone, again)
		}
		if !gone && b.abandon(call) {
			t.Error("a client went whose command is asked for again: nobody gives back what it was given")
		}
	}
}
