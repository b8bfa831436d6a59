package model

import "testing"

func TestQueueWithWaiters(t *testing.T) {
	expect(t, Queue, `
		0-1 1 push q 1 = 1
		0-9 2 pop q = 1
		2-3 1 push q 2 = 1
		3-4 1 push q 3 = 2
		4-5 3 move q = 2
		5-6 4 pop q = 3
		7-8 4 pop q = nil
		9-10 1 push q 4 = 1
		9-? 2 pop q
		10-11 1 push q 5 = 1
		11-12 1 push q 6 failed
		20-21 1 left q = 5,>2`)
	for name, c := range map[string]struct{ text, want string }{
		"popped twice": {`
			0-1 1 push q 1 = 1
			2-3 2 pop q = 1
			2-3 3 move q = 1`, "given out twice@3"},
		"popped and there": {`
			0-1 1 push q 1 = 1
			2-3 2 pop q = 1
			4-5 1 left q = 1`, "given out twice@3"},
		"moved and there": {`
			0-1 1 push q 1 = 1
			2-3 2 move q = 1
			4-5 1 left q = 1`, "given out twice@3"},
		"moved away": {`
			0-1 1 push q 1 = 1
			2-3 2 move q = 1
			4-5 1 left q =`, "lost@2"},
		"never pushed": {`
			2-3 2 pop q = 1
			4-5 1 push q 1 = 1`, "never pushed@1"},
		"failed": {`
			0-1 1 push q 1 failed
			2-3 2 pop q = 1`, "failed but done@2"},
		"lost": {`
			0-1 1 push q 1 = 1
			0-1 1 push q 2 = 1
			2-? 2 pop q
			4-5 1 left q =`, "lost@2"},
		"order": {`
			0-1 1 push q 1 = 1
			2-3 1 push q 2 = 2
			4-5 2 pop q = 2
			6-7 2 pop q = 1`, "order differs@3"},
		"in vain": {`
			0-1 1 push q 1 = 1
			2-5 2 pop q = nil
			6-7 2 pop q = 1`, "in vain@2"},
		"lost, and who does not know was gone": {`
			0-1 1 push q 1 = 1
			2-?20 2@n1 pop q gone
			4-5 1 left q =`, "lost@1"},
		"lost, and who does not know had died before": {`
			0-?3 2@n1 pop q
			1-9000 died n1
			1-2 fault kill
			4-5 1 push q 1 = 1
			20-21 1 left q =`, "lost@4"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, onThree(Queue), c.text, c.want) })
	}
}

// An element for a client that did not get it is put back at its place. Meanwhile others get elements that were pushed
// later.
func TestQueueGivesBack(t *testing.T) {
	const given = `
		0-1 1 push q 1 = 1
		2-3 1 push q 2 = 2
		4-5 2 pop q = 2
		5-6 3 pop q = nil
		7-8 2 pop q = 1`
	expect(t, onThree(Queue), given, "order differs@3", "in vain@4")
	expect(t, onThree(Queue), given+"\n0-?4 3@n1 pop q gone")
	expect(t, onThree(Queue), given+"\n 0-?3 4@n1 pop q\n 1-2 fault pause")
}
