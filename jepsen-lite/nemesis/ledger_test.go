package nemesis

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// The longest time without an acknowledgement counts from measure on, and lasts until now where none has come.
func TestLedgerGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{pens: map[string]*pen{"n1": {}, "n2": {gap: time.Hour}, "n3": {}}}
		acknowledged := func(node string) {
			p := l.pens[node]
			p.gap, p.last = max(p.gap, time.Since(p.last)), time.Now()
		}
		l.measure()
		time.Sleep(time.Second)
		acknowledged("n1")
		acknowledged("n2")
		time.Sleep(3 * time.Second)
		acknowledged("n2")
		want := map[string]time.Duration{"n1": 3 * time.Second, "n2": 3 * time.Second, "n3": 4 * time.Second}
		if got := l.gaps(); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// The id of a cluster is found in INFO, unless there is no answer.
func TestClusterID(t *testing.T) {
	info := target.Reply{Kind: '$', Str: "# Raft\r\nnode_id:n1\r\ncluster_id:ABC7\r\nlockd_release:dev\r\n"}
	if got := idIn(info, nil); got != "ABC7" {
		t.Errorf("%q", got)
	}
	if got := idIn(target.Reply{}, os.ErrDeadlineExceeded); got != "" {
		t.Errorf("%q", got)
	}
}
