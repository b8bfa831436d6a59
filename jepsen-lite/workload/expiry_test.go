package workload

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// The log clock is the part of the clock's lease that has passed. A reply without it makes no sense.
func TestSeen(t *testing.T) {
	integer := func(n int64) target.Reply { return target.Reply{Kind: ':', Int: n} }
	null := target.Reply{Kind: '$', Nil: true}
	for _, c := range []struct {
		answer []target.Reply
		want   string
	}{
		{[]target.Reply{integer(1), integer(70), {Kind: '$', Str: "v"}, integer(clockSpan - 1234)}, "[1 70 v 1234] <nil>"},
		{[]target.Reply{integer(0), integer(-2), null, integer(clockSpan)}, "[0 -2 nil 0] <nil>"},
		{[]target.Reply{integer(0), integer(-2), null, integer(-2)}, `[] "-2" is left of the clock, which was to run for 1000000000000 ms`},
		{[]target.Reply{integer(0), integer(-2)}, "[] the answer has another shape"},
	} {
		out, err := seen([]target.Reply{{Kind: '*', Elems: c.answer}})
		if got := fmt.Sprint(out, " ", err); got != c.want {
			t.Errorf("%v: %s, want %s", c.answer, got, c.want)
		}
	}
}

// clocked is a target with a log clock, or without.
type clocked struct {
	target.Target
	has bool
}

func (c clocked) LogClock() bool { return c.has }

// Without a log clock no call asks for one: two times to live that one script sees may then differ by a millisecond.
func TestToldWithoutLogClock(t *testing.T) {
	plain := Call{Op: "lock", Cmds: [][]string{{"plain"}}}
	c := NewClient(t.Context(), &Env{Target: clocked{}}, 1)
	for range 100 {
		if call := usuallyTelling(c, plain, "EVAL", "return 1", holderOfString, []string{"k"}); call.Cmds[0][0] != "plain" {
			t.Fatalf("%q", call.Cmds[0])
		}
	}
}

// Most calls tell the log clock beside their own result, which stays the same. nil differs from other words.
func TestTold(t *testing.T) {
	integer := func(n int64) target.Reply { return target.Reply{Kind: ':', Int: n} }
	clock := integer(clockSpan - 1234)
	plain := Call{Op: "lock", Cmds: [][]string{{"plain"}}, Out: taken}
	c := NewClient(t.Context(), &Env{Prefix: "p:", Target: clocked{has: true}}, 1)
	plains := 0
	for range 1000 {
		call := usuallyTelling(c, plain, "EVAL", "return 1", holderOfString, []string{"k", "ch"}, "arg")
		cmd := call.Cmds[0]
		if len(cmd) == 1 {
			plains++
			continue
		}
		if want := []string{"EVAL", tellingScript("return 1", holderOfString), "3", "k", "ch", "p:clock", "arg"}; !slices.Equal(cmd, want) {
			t.Fatalf("%q, want %q", cmd, want)
		}
		for _, r := range []struct {
			first target.Reply
			want  string
		}{
			{target.Reply{Kind: '$', Nil: true}, "[nil 70 v 1234] <nil>"},
			{integer(70), "[held 70 v 1234] <nil>"},
			{target.Reply{Kind: '$', Str: "x"}, `[] answered "x"`},
		} {
			elems := []target.Reply{r.first, integer(70), {Kind: '$', Str: "v"}, clock}
			out, err := call.Out([]target.Reply{{Kind: '*', Elems: elems}})
			if got := fmt.Sprint(out, " ", err); got != r.want {
				t.Errorf("%v: %s, want %s", elems, got, r.want)
			}
		}
	}
	if plains < 150 || plains > 350 {
		t.Errorf("%d of 1000 calls are plain, and 1 of %d are to be", plains, toldOf)
	}
}

// A term counts only at the node that leads it.
func TestTermLed(t *testing.T) {
	for info, want := range map[string]string{
		"# Raft\r\nnode_id:n1\r\nstate:leader\r\nterm:12\r\nlast_log_term:11\r\n":   "[12] <nil>",
		"# Raft\r\nnode_id:n1\r\nstate:follower\r\nterm:12\r\nlast_log_term:11\r\n": "[nil] <nil>",
		"": "[nil] <nil>",
	} {
		out, err := termLed([]target.Reply{{Kind: '$', Str: info}})
		if got := fmt.Sprint(out, " ", err); got != want {
			t.Errorf("%q: %s, want %s", info, got, want)
		}
	}
}

// A key is looked at just before its end, and often.
func TestUntilLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(t.Context(), &Env{}, 1)
		for range 1000 {
			if d := untilLook(c, 10_000, time.Now().Add(20*time.Millisecond)); d > 20*time.Millisecond {
				t.Fatalf("the next look comes %s after the end", d-20*time.Millisecond)
			}
			if d := untilLook(c, 400, time.Now().Add(-time.Second)); d <= 0 || d > 51*time.Millisecond {
				t.Fatalf("after the end the next look comes in %s", d)
			}
		}
	})
}
