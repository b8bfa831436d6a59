package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// read reads marks, one each second, such as "serves n1" or "link n1 n2 cut", and an
// event at the end.
func read(t *testing.T, end int, marks ...string) *History {
	t.Helper()
	text := ""
	for i, mark := range marks {
		w := append(strings.Fields(mark), "", "")
		value := "[]"
		if w[0] == Link {
			value = fmt.Sprintf("[%q]", w[3])
		}
		text += fmt.Sprintf(`{"time":%d,"process":-1,"type":"info","op":%q,"node":%q,"key":%q,"value":%s}`+"\n", i, w[0], w[1], w[2], value)
	}
	h, err := Read(strings.NewReader(text + fmt.Sprintf(`{"time":%d,"process":1,"type":"invoke","op":"get","value":[]}`, end)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// during is the time of a quorum.
type during struct {
	start, end int64
	slow       bool
}

// A quorum lasts as long as the same majority serves and is joined both ways. What
// happens to others, and to clients, does not end it.
func TestQuorums(t *testing.T) {
	all := []string{"serves n1", "serves n2", "serves n3"} // 0, 1, 2; two of two from 1 on
	for name, c := range map[string]struct {
		marks []string
		want  []during
	}{
		"all":           {nil, []during{{0, 1, false}, {1, 20, false}}},
		"another ends":  {[]string{"leaves n3", "serves n3"}, []during{{0, 1, false}, {1, 20, false}}},
		"one of it":     {[]string{"leaves n1", "serves n1"}, []during{{0, 1, false}, {1, 3, false}, {3, 20, false}}},
		"two":           {[]string{"leaves n1", "leaves n2", "serves n1"}, []during{{0, 1, false}, {1, 3, false}, {3, 4, false}, {5, 20, false}}},
		"one way":       {[]string{"leaves n3", "link n2 n1 cut", "link n2 n1 whole"}, []during{{0, 1, false}, {1, 4, false}, {5, 20, false}}},
		"a bridge":      {[]string{"link n1 n2 cut", "link n2 n1 cut"}, []during{{0, 1, false}, {1, 3, false}, {3, 20, false}}},
		"clients":       {[]string{"link clients n1 cut", "link n2 clients cut"}, []during{{0, 1, false}, {1, 20, false}}},
		"slow":          {[]string{"leaves n3", "link n2 n1 slow", "link n2 n1 whole"}, []during{{0, 1, false}, {1, 4, false}, {4, 5, true}, {5, 20, false}}},
		"a healthy way": {[]string{"link n2 n1 slow"}, []during{{0, 1, false}, {1, 3, false}, {3, 20, false}}},
	} {
		quorums := read(t, 20, append(slices.Clone(all), c.marks...)...).Quorums
		if !slices.EqualFunc(quorums, c.want, func(q Quorum, w during) bool {
			return q.Start == w.start && q.End == w.end && q.Slow == w.slow
		}) {
			t.Errorf("%s: %v, want %v", name, quorums, c.want)
		}
	}
}

// A quorum names its nodes.
func TestQuorumNodes(t *testing.T) {
	h := read(t, 20, "serves n1", "serves n2", "serves n3", "leaves n1", "serves n1", "leaves n2")
	var got []string
	for _, q := range h.Quorums {
		got = append(got, strings.Join(q.Nodes, " "))
	}
	if want := []string{"n1", "n1 n2", "n2 n3", "n1 n3"}; !slices.Equal(got, want) {
		t.Errorf("quorums of %q, want %q", got, want)
	}
}

// Five nodes in a ring have no majority of which each two reach each other.
func TestQuorumOfRing(t *testing.T) {
	var marks []string
	for i := range 5 {
		marks = append(marks, fmt.Sprintf("serves n%d", i))
	}
	for i := range 5 {
		marks = append(marks, fmt.Sprintf("link n%d n%d cut", i, (i+2)%5))
	}
	h := read(t, 20, marks...)
	if last := h.Quorums[len(h.Quorums)-1]; last.End != 9 { // the last cut parts n4 and n1
		t.Errorf("quorums %v", h.Quorums)
	}
}

// The share is of the time from the first fault to the last one. A recording without marks has none.
func TestQuorumTime(t *testing.T) {
	h := read(t, 20, "serves n1", "serves n2", "serves n3", "leaves n1", "leaves n2", "serves n2")
	h.Faults = []Window{{Start: 2, End: 4}, {Start: 3, End: 12}}
	if start, end := h.Broken(); start != 2 || end != 12 || h.QuorumTime(start, end) != 9 || !h.Marked {
		t.Errorf("%d of %d..%d in a quorum, marked %v", h.QuorumTime(start, end), start, end, h.Marked)
	}
	if h := read(t, 20); h.Marked || len(h.Quorums) > 0 {
		t.Errorf("no marks, and quorums %v", h.Quorums)
	}
}
