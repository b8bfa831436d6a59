package workload

import (
	"slices"
	"strings"
	"testing"

	"lockd/jepsen-lite/target"
)

func bulk(text string) target.Reply { return target.Reply{Kind: '$', Str: text} }

// flat makes a map of RESP2.
func flat(words ...any) target.Reply {
	r := target.Reply{Kind: '*'}
	for _, w := range words {
		switch w := w.(type) {
		case string:
			r.Elems = append(r.Elems, bulk(w))
		case int:
			r.Elems = append(r.Elems, target.Reply{Kind: ':', Int: int64(w)})
		case target.Reply:
			r.Elems = append(r.Elems, w)
		}
	}
	return r
}

// The judged fields of an event are recorded, one word each. A missing field and nil are empty words.
func TestToldHistory(t *testing.T) {
	events := flat(
		flat("time", "2024-01-01T00:00:00.000Z", "tick", 12, "event", "forced", "token", "t1", "owner", target.Reply{Kind: '$', Nil: true},
			"fence", 7, "by", "LOCKS FORCE", "client-id", 3, "client-name", "w1.2", "held-ms", 5, "lease-ms", 900, "renewals", 2,
			"last-renewal", target.Reply{Kind: '$', Nil: true}, "reason", "r3: it hangs"),
		flat("event", "gave-up", "tick", 13, "token", "t4", "client-name", target.Reply{Kind: '$', Nil: true}),
	)
	want := []string{"2023-12-31T23:59:59.000Z", "forced|t1|7|LOCKS FORCE|w1.2|r3: it hangs|12|5|900|2", "gave-up|t4|||||13|||"}
	got, err := toldHistory([]target.Reply{flat("known-since", "2023-12-31T23:59:59.000Z", "events", events)})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, r := range []target.Reply{bulk("x"), flat("events", "x"), flat()} {
		if got, err := toldHistory([]target.Reply{r}); err == nil {
			t.Errorf("%+v is taken for %q", r, got)
		}
	}
}

// Every sentence of LOCKS WHY is understood, and any other text is an error.
func TestToldWhy(t *testing.T) {
	const (
		got  = "t1 got k at 2024-01-01T00:00:00.000Z (fence 7)"
		kept = ", after 30 ms, renewed 2 times, last at 2024-01-01T00:00:01.000Z."
		next = " Next was t2 at 2024-01-01T00:00:03.000Z (fence 9)."
		none = " Nobody has got it since."
	)
	for _, c := range []struct {
		said string
		want []string
	}{
		{"t1 holds k since 2024-01-01T00:00:03.000Z (fence 7), never renewed; its lease of 30 ms has 20 ms left.", []string{"held", "7", "", "", ""}},
		{got + ".", []string{"held", "7", "", "", ""}},
		{got + " after waiting 5 ms.", []string{"held", "7", "", "", ""}},
		{"t1 has waited for k for 200 ms, behind 1 others in line, and waits 800 ms more.", []string{"waits", "", "", "", ""}},
		{"Nothing is known of t1 and k: what is known begins at 2024-01-01T00:00:00.000Z.", []string{"nothing", "", "", "", ""}},
		{got + " and released it at 2024-01-01T00:00:03.000Z by UNLOCK of client 5 (w1.2) from 1.2.3.4:5 at node n1" + kept + next, []string{"released", "7", "", "t2", "9"}},
		{got + " and released it at 2024-01-01T00:00:03.000Z by DEL in a script of client 5 from 1.2.3.4:5 at node n1" + kept + none, []string{"released", "7", "", "", ""}},
		{got + " and released it at 2024-01-01T00:00:03.000Z by DEL of client 5 from 1.2.3.4:5 at node n1" + kept + none, []string{"DEL", "7", "", "", ""}},
		{got + " and lost it at 2024-01-01T00:00:03.000Z: deleted by DEL" + kept + next, []string{"DEL", "7", "", "t2", "9"}},
		{"t1 had k (fence 7) and lost it at 2024-01-01T00:00:03.000Z: deleted by UNLINK" + kept + none, []string{"deleted", "7", "", "", ""}},
		{got + " and lost it at 2024-01-01T00:00:03.000Z: its lease of 30 ms was over" + kept + next, []string{"expired", "7", "", "t2", "9"}},
		{got + " and lost it at 2024-01-01T00:00:03.000Z: overwritten by SET" + kept + none, []string{"overwritten", "7", "", "", ""}},
		{got + " and lost it at 2024-01-01T00:00:03.000Z: ended by LOCKS FORCE, because: r3: it hangs" + kept + next, []string{"forced", "7", "r3: it hangs", "t2", "9"}},
		{"t1 waited 30 ms for k in vain: its time was over at 2024-01-01T00:00:03.000Z." + next, []string{"gave-up", "", "", "t2", "9"}},
		{"t1 waited 30 ms for k in vain: UNLOCK ended the wait at 2024-01-01T00:00:03.000Z.", []string{"left", "", "", "", ""}},
		{"t1 waited 30 ms for k on one connection; another one took its place at 2024-01-01T00:00:03.000Z.", []string{"replaced", "", "", "", ""}},
		{"t1 waited 30 ms for k in vain: its client, or its node, was gone at 2024-01-01T00:00:03.000Z.", []string{"gone", "", "", "", ""}},
	} {
		out, err := toldWhy([]target.Reply{bulk(c.said)})
		if err != nil || !slices.Equal(out, append(c.want, c.said)) {
			t.Errorf("%q: %q, %v, want %q", c.said, out, err, c.want)
		}
	}
	if out, err := toldWhy([]target.Reply{bulk("t1 is well.")}); err == nil {
		t.Errorf("%q", out)
	}
}

// A message about a lock is recorded as LOCKS HISTORY tells the event. Any other text is recorded as it is.
func TestLockEvent(t *testing.T) {
	const text = `{"key":"k","time":"2026-11-22T14:03:07.212Z","tick":81403212,"event":"forced","token":"t1","mode":"exclusive",` +
		`"fence":812,"by":"LOCKS FORCE","client-name":"w1.2","held-ms":35262,"lease-ms":30000,"renewals":1,"reason":"r3: it hangs"}`
	for _, c := range []struct{ text, want string }{
		{text, "k forced|t1|812|LOCKS FORCE|w1.2|r3: it hangs|81403212|35262|30000|1"},
		{`{"key":"k","event":"gave-up","tick":3}`, "k gave-up||||||3|||"},
		{"no JSON", "no JSON"},
	} {
		if got := lockEvent("", c.text); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

// The digest is the one that the command DIGEST answers.
func TestDigestOf(t *testing.T) {
	if got := digestOf("foo"); got != "ab6e5f64077e7d8a" {
		t.Error(got)
	}
}

// Who holds and who waits becomes words; an answer of another shape is an error.
func TestAskWho(t *testing.T) {
	list := func(elems ...target.Reply) target.Reply { return target.Reply{Kind: '*', Elems: elems} }
	holders := list(flat("token", "t1", "owner", "o1", "fence", 7, "note", target.Reply{Kind: '$', Nil: true}))
	check := func(want string, out []string, err error) {
		t.Helper()
		if got := strings.Join(out, " "); got != want || (err != nil) != (want == "") {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	out, err := listed([]target.Reply{list(flat("key", "g.0", "holders", holders, "waiters", 2))})
	check("held|g.0|t1|o1|7 waiters|g.0|2", out, err)
	out, err = informed([]target.Reply{flat("holders", holders, "line", list(flat("token", "t2", "owner", "o2")))}, "g.0")
	check("held|g.0|t1|o1|7 waits|g.0|t2|o2", out, err)
	edge := func(key string) target.Reply {
		return flat("waiter", "o2", "waiter-token", "t2", "key", key, "holder", "o1", "holder-token", "t1")
	}
	out, err = edges([]target.Reply{flat("edges", list(edge("g.0"), edge("h.0")), "more", 0)}, "g.")
	check("edge|g.0|t2|o2|t1|o1", out, err)
	out, err = edges([]target.Reply{flat("edges", list(edge("g.0")), "more", 1)}, "g.")
	check("", out, err)
	out, err = informed([]target.Reply{flat("holders", holders)}, "g.0")
	check("", out, err)
	out, err = listed([]target.Reply{bulk("x")})
	check("", out, err)
}

// A deadlock is a result, with what it says.
func TestGrantedOrDeadlock(t *testing.T) {
	says := target.Reply{Kind: '-', Str: "DEADLOCK a holds x and waits for x"}
	if out, err := grantedOrDeadlock([]target.Reply{says}); err != nil || !slices.Equal(out, []string{deadlocked, "a holds x and waits for x"}) {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := grantedOrDeadlock([]target.Reply{{Kind: ':', Int: 7}}); err != nil || !slices.Equal(out, []string{"7"}) {
		t.Errorf("%q, %v", out, err)
	}
}
