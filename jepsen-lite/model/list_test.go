package model

import "testing"

// The answers of a short list must be explained by an order of its operations.
func TestQueue(t *testing.T) {
	good := []string{
		"0-1 1 rpush q a = 1\n 2-3 1 rpush q b = 2\n 4-5 1 lpush q c = 3\n 6-7 2 range q = c,a,b\n 8-9 2 lpop q = c\n 10-11 2 llen q = 2",
		"0-1 1 lpop q = nil\n 2-3 1 range q =\n 4-5 1 llen q = 0",
		"0-? 1 rpush q a\n 2-3 1 lpop q = nil\n 4-5 1 lpop q = a\n 6-7 1 lpop q = nil", // unknown, done late
		"0-1 1 rpush q a = 1\n 2-? 1 lpop q\n 4-5 2 range q = a\n 6-7 2 range q =",
		"0-9 1 rpush q a = 2\n 0-9 2 rpush q b = 1\n 10-11 1 lpop q = b",
		"0-1 1 rpush q a failed\n 2-3 1 lpop q = nil",
	}
	for _, s := range good {
		expect(t, List, s)
	}
	expect(t, List, "0-1 1 rpush q a = 1\n 2-3 1 rpush q b = 2\n 4-5 1 lpop q = b", "not linearizable@3")
	expect(t, List, "0-1 1 rpush q a = 1\n 2-3 1 lpop q = a\n 4-5 1 lpop q = a", "not linearizable@3")
	expect(t, List, "0-1 1 rpush q a = 1\n 2-3 1 range q =", "not linearizable@2")
	expect(t, List, "0-1 1 rpush q a = 2", "not linearizable@1")
	expect(t, List, "0-1 1 lpush q a = 1\n 2-3 1 lpush q b = 2\n 4-5 1 range q = a,b", "not linearizable@3")
	expect(t, List, "0-1 1 rpush q a failed\n 2-3 1 llen q = 1", "not linearizable@2")
}

// All reads of a long list are prefixes of one order, which is that of the appends.
func TestList(t *testing.T) {
	good := []string{
		"0-1 1 append l a = 1\n 2-3 1 append l b = 2\n 4-5 2 all l = a,b\n 6-7 1 append l c = 3\n 8-9 2 all l = a,b,c",
		"0-? 1 append l a\n 2-3 1 append l b = 1\n 4-5 2 all l = b\n 6-7 2 all l = b,a",
		"0-9 1 append l a = 2\n 0-9 2 append l b = 1\n 3-4 3 all l = b\n 3-12 3 all l =\n 10-11 1 all l = b,a",
		"0-1 1 append l a failed\n 2-3 2 all l =",
		"0-1 1 append l a = 1\n 2-3 2 all k =\n 4-5 2 append k b = 1\n 6-7 2 all k = b",
	}
	for _, s := range good {
		expect(t, List, s)
	}
	expect(t, List, "0-1 1 append l a = 1\n 2-3 2 all l =", "update lost@2")
	expect(t, List, "0-9 1 append l a = 1\n 0-9 2 append l b = 2\n 10-11 3 all l = a,b\n 12-13 4 all l = b,a", "order differs@4")
	expect(t, List, "0-1 1 append l a = 1\n 2-3 2 append l b = 2\n 4-5 3 all l = b,a", "wrong place@1", "wrong place@2", "order differs@2")
	expect(t, List, "0-? 1 append l a\n 2-3 3 all l = a\n 4-5 3 all l =", "went back@3")
	expect(t, List, "0-? 1 append l a\n 2-3 3 all l = a,a", "done twice@2")
	expect(t, List, "0-1 1 append l a = 1\n 2-3 2 append l b = 1\n 4-5 3 all l = a,b", "wrong place@2")
	expect(t, List, "0-1 1 append l a failed\n 2-3 3 all l = a", "failed but done@2")
	expect(t, List, "0-1 1 all l = a\n 2-3 1 append l a = 1", "never sent@1")
}
