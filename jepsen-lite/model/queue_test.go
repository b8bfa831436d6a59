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
			4-5 1 left q =`, "lost@1"},
		"order": {`
			0-1 1 push q 1 = 1
			2-3 1 push q 2 = 2
			4-5 2 pop q = 2
			6-7 2 pop q = 1`, "order differs@3"},
		"in vain": {`
			0-1 1 push q 1 = 1
			2-5 2 pop q = nil
			6-7 2 pop q = 1`, "in vain@2"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, Queue, c.text, c.want) })
	}
}
