package model

import (
	"strings"
	"testing"

	"lockd/jepsen-lite/history"
)

// Two owners hold a lock each, and one of them waits for the other one's.
const twoOwners = "0-1 1 enter g.0 t1,9000,100,,o1 = 7\n 0-1 2 enter g.1 t2,9000,100,,o2 = 8\n " +
	"2-4000 1 enter g.1 t3,9000,3990,,o1 = nil\n "

// manyOwners is Owners of a story in which a deadlock has commas.
func manyOwners(h *history.History) *Verdict {
	for i := range h.Ops {
		if o := &h.Ops[i]; o.OK() && o.Out[0] == "deadlock" {
			o.Out = []string{"deadlock", strings.Join(o.Out[1:], ",")}
		}
	}
	return Owners(h)
}

// What a deadlock names must be so at one moment of the request.
func TestDeadlockIsTrue(t *testing.T) {
	const asks = twoOwners + "1000-1001 2 enter g.0 t4,9000,3990,,o2 = deadlock,"
	expect(t, manyOwners, asks+"o2 holds g.1 and waits for g.0, held by o1, which waits for g.1")
	for _, says := range []string{
		"o2 holds g.1 and waits for g.0, held by o1, which waits for g.0",                            // it does not
		"o2 holds g.1 and waits for g.0, held by o3, which waits for g.1",                            // nobody
		"o2 holds g.2 and waits for g.0, held by o1, which waits for g.1",                            // not what it holds
		"o1 holds g.1 and waits for g.0, held by o1, which waits for g.1",                            // another one
		"o2 holds g.1 and waits for g.0, held by o1, which waits for g.1, held by o1",                // no circle
		"o2 holds g.1 and waits for g.0",                                                             // no circle
		"o2 holds g.1 and waits for g.0, held by o1, which waits for g.1, held by o9, which has g.1", // nonsense
		"nothing",
	} {
		expect(t, manyOwners, asks+says, "no such deadlock@4")
	}
	// The lock was released before.
	expect(t, manyOwners, strings.Replace(asks, "1000-1001", "3-4 1 release t1 t1 = 1\n 8-9 1 release g.0 t1 = 1\n 1000-1001", 1)+
		"o2 holds g.1 and waits for g.0, held by o1, which waits for g.1", "no such deadlock@6")
}

// A lock of many is in a circle only if all who hold it wait; and then the circle is told.
func TestDeadlockOfMany(t *testing.T) {
	const (
		held  = "0-1 1 enter g.2 t1,9000,100,2,o1 = 7\n 0-1 2 enter g.2 t2,9000,100,2,o2 = 8\n 2-3 3 enter g.0 t3,9000,100,,o3 = 9\n "
		waits = "4-4000 1 enter g.0 t4,9000,3990,,o1 = nil\n "
		all   = "4-4000 2 enter g.0 t5,9000,3990,,o2 = nil\n "
		ends  = "3000-3001 3 enter g.2 t6,9000,900,2,o3 = deadlock,o3 holds g.0 and waits for g.2, held by o1, which waits for g.0"
		goes  = "1000-3900 3 enter g.2 t6,9000,2890,2,o3 = nil"
	)
	expect(t, manyOwners, held+waits+all+ends)
	expect(t, manyOwners, held+waits+ends, "deadlock of some holders@5")
	expect(t, manyOwners, held+waits+"2900-2901 2 release t2 t2 = 1\n 2900-2901 2 release g.2 t2 = 1\n "+ends)
	expect(t, manyOwners, held+waits+goes)
	expect(t, manyOwners, held+waits+all+goes, "deadlock missed@4", "deadlock missed@5", "deadlock missed@6")
	expect(t, manyOwners, "0-1 1 enter g.2 t1,9000,100,2,o1 = 7\n 4-4000 1 enter g.2 t4,9000,3990,2,o1 = nil") // another one may hold it, too
}

// Owners that wait for each other are told, unless a fault may have kept one of them from the line.
func TestDeadlockIsTold(t *testing.T) {
	expect(t, Owners, twoOwners+"1000-4900 2 enter g.0 t4,9000,3890,,o2 = nil", "deadlock missed@3", "deadlock missed@4")
	expect(t, Owners, twoOwners+"1000-4900 2 enter g.0 t4,9000,3890,,o2 = nil\n 900-950 fault kill")
	expect(t, Owners, twoOwners+"1000-4900 3 enter g.0 t4,9000,3890,,o3 = nil")
	expect(t, Owners, twoOwners+"1000-4900 2 enter g.0 t4,9000,3890,,o2 = 9\n 1100-1101 1 release g.0 t1 = 1") // it got it soon
}

// An answer is right if all that it tells, and all that it does not tell, can have been so at one moment.
func TestPresentIsTrue(t *testing.T) {
	const held1, held2, waits = "held|g.0|t1|o1|7", "held|g.1|t2|o2|8", "waits|g.1|t3|o1"
	const edge = "edge|g.1|t3|o1|t2|o2"
	for _, c := range []struct{ asks, out, want string }{
		{"info g.0", held1, ""},
		{"info g.1", held2 + "," + waits, ""},
		{"info g.1", held2, "waiter not shown@4"},
		{"info g.0", "", "wrong info@4"},
		{"info g.0", "held|g.0|t1|o1|9", "wrong info@4"},
		{"info g.0", "held|g.0|t1|t1|7", "wrong info@4"},
		{"info g.0", held1 + "," + waits + ",waits|g.0|t9|o9", "wrong info@4"},
		{"list g", held1 + ",waiters|g.0|0," + held2 + ",waiters|g.1|1", ""},
		{"list g", held1 + ",waiters|g.0|0", "wrong list@4"},
		{"list g", held1 + ",waiters|g.0|1," + held2 + ",waiters|g.1|1", "wrong list@4"},
		{"list g", held1 + ",waiters|g.0|0," + held2 + ",waiters|g.1|0", "waiter not shown@4"},
		{"graph g", edge, ""},
		{"graph g", "", "waiter not shown@4"},
		{"graph g", edge + ",edge|g.0|t3|o1|t1|o1", "wrong graph@4"},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		expect(t, Owners, twoOwners+"1000-1001 9 "+c.asks+" = "+c.out, want...)
	}
	// One lock is handed over while it is asked: it was held by one of them, not by both, nor by nobody and both lines.
	const over = "0-1 1 enter g.0 t1,9000,100,,o1 = 7\n 2-1005 2 enter g.0 t2,9000,3000,,o2 = 8\n 1000-1004 1 release g.0 t1 = 1\n 990-1010 9 info g.0 = "
	expect(t, Owners, over+held1+",waits|g.0|t2|o2")
	expect(t, Owners, over+"held|g.0|t2|o2|8")
	expect(t, Owners, over+"held|g.0|t2|o2|7", "wrong info@4")
	// The line is in the order in which its clients came.
	const line = twoOwners + "700-4000 3 enter g.1 t5,9000,3290,,o3 = nil\n 2000-2001 9 info g.1 = " + held2
	expect(t, Owners, line+","+waits+",waits|g.1|t5|o3")
	expect(t, Owners, line+",waits|g.1|t5|o3,"+waits, "line out of order@5")
}

// A grant that its node cannot tell of is taken back, and the request waits on: until its answer the lock is held with
// the fence of that grant. Without a fault no grant is taken back.
func TestGrantThatWasTakenBackIsTold(t *testing.T) {
	const story = "0-1 1 enter g.0 t1,9000,100,,o1 = 7\n 2-3000 2 enter g.0 t2,9000,2900,,o2 = 9\n " +
		"500-501 1 release g.0 t1 = 1\n "
	const fault = "\n 400-450 fault pause"
	expect(t, Owners, story+"600-601 9 info g.0 = held|g.0|t2|o2|8"+fault)
	expect(t, Owners, story+"600-601 9 info g.0 = held|g.0|t2|o2|8", "wrong info@4")
	expect(t, Owners, story+"600-601 9 info g.0 = held|g.0|t2|o2|10"+fault, "wrong info@4")
	expect(t, Owners, story+"3001-3002 9 info g.0 = held|g.0|t2|o2|8"+fault, "wrong info@4")
	expect(t, Owners, story+"3001-3002 9 info g.0 = held|g.0|t2|o2|9"+fault)
}
