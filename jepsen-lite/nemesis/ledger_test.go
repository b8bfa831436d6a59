package nemesis

import (
	"strings"
	"testing"

	"lockd/jepsen-lite/target"
)

// What a copy of a ledger lacks, and what cannot be the state at one moment, is told apart from what it need not have.
func TestLedgerCheck(t *testing.T) {
	const whole = "n1 1,n2 1,n1 2,n1 3|,n2 1,n1 2,n1 3,"
	for _, c := range []struct {
		copied string // the list, and the other keys
		sure   map[string]int
		lacks  string
		torn   string
	}{
		{whole, map[string]int{"n1": 3, "n2": 1}, "", ""},
		{whole, nil, "", ""},
		{whole, map[string]int{"n1": 4}, `has no "n1 4", which was acknowledged before`, ""},
		{"n1 1,n2 1,n1 2|,n2 1,n1 2,,", map[string]int{"n1": 3}, `has no "n1 3"`, ""},
		{"n1 1,n1 2,n1 3|,n1 1,n1 2,n1 3,", map[string]int{"n1": 3, "n2": 1}, `has no "n2 1"`, ""},
		{"n1 1,n1 3|,n1 1,,n1 3,", nil, "", `and not "n1 2"`},
		{"n1 1,n1 2|,n1 1,,,", nil, "", "has the entries"},          // a key is older than the list
		{"n1 1|,n1 1,n1 2,,", nil, "", "has the entries"},           // or newer
		{"n1 2,n1 1|,n1 1,n1 2,,", nil, "", "has the entry"},        // not in order
		{"n1 1,n1 1|,n1 1,,,", nil, "", "has the entry"},            // twice
		{"n1 7|,,n1 7,,", nil, "", "has the entry"},                 // never sent
		{"n2 1,n2 3|,n2 1,,n2 3,", map[string]int{"n2": 3}, "", ""}, // the second one was not acknowledged
		{"|,,,,", map[string]int{"n1": 0}, "", ""},
	} {
		l := &ledger{pens: map[string]*pen{
			"n1": {sent: 5, acked: 4, not: map[int]bool{}}, "n2": {sent: 3, acked: 3, not: map[int]bool{2: true}},
		}}
		list, keys, _ := strings.Cut(c.copied, "|")
		read := strings.Split(keys, ",")
		if list != "" {
			read = append(strings.Split(list, ","), read...)
		}
		lacks, torn := l.check(read, c.sure)
		if (lacks == "") != (c.lacks == "") || !strings.Contains(lacks, c.lacks) ||
			(torn == "") != (c.torn == "") || !strings.Contains(torn, c.torn) {
			t.Errorf("%s with %v: %q, %q", c.copied, c.sure, lacks, torn)
		}
	}
}

// The number of those who wait is found in the answer of LOCKS LIST.
func TestWaitersIn(t *testing.T) {
	text := func(s string) target.Reply { return target.Reply{Kind: '$', Str: s} }
	row := target.Reply{Kind: '*', Elems: []target.Reply{text("key"), text("k"), text("waiters"), {Kind: ':', Int: 2}}}
	if n, ok := waitersIn(target.Reply{Kind: '*', Elems: []target.Reply{row}}); n != 2 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := waitersIn(target.Reply{Kind: '*'}); ok {
		t.Errorf("%d in an empty answer", n)
	}
}
