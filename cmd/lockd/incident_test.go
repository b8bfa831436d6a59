package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// said returns a node's answers to commands, byte for byte.
func (p *proc) said(commands ...string) string {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(startTimeout))
	_, err = io.WriteString(c, strings.Join(commands, "\r\n")+"\r\nQUIT\r\n")
	all, readErr := io.ReadAll(c)
	if err = errors.Join(err, readErr); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return string(all)
}

// lead makes a node the leader.
func (n nodes) lead(t *testing.T, p *proc) {
	t.Helper()
	eventually(t, startTimeout, p.name+" leads", func() error {
		leader := n.leader(t)
		if leader == p {
			return nil
		}
		return errors.Join(errors.New("it does not lead yet"), leader.client().Do(t.Context(), "LOCKD", "TRANSFER", p.name).Err())
	})
}

// "Who had it at 14:03?" A lock changes hands in every way while nodes are killed and return, from the log and from
// an image. All nodes answer the same bytes, whichever of them leads.
func TestWhoHadItThen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := startCluster(t, 3, calm...)
	leader := cluster.leader(t)
	a, b := cluster.others(leader)[0], cluster.others(leader)[1]
	waitFor := func(p *proc, token, name string) (granted chan error) {
		t.Helper()
		granted = make(chan error, 1)
		c := p.named(name)
		go func() {
			granted <- c.Do(ctx, "LOCK", "order:42", token, "PX", 600_000, "WAIT", 60_000, "NOTE", "bills").Err()
		}()
		p.blockedClients(1)
		return granted
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	must(a.named("web-6").Do(ctx, "SET", "order:42", "6-token-of-web", "NX", "PX", 600_000).Err())
	second := waitFor(b, "7-token-of-web", "web-7")
	do(ctx, t, leader, "PEXPIRE", "order:42", 1) // its lease ends
	must(<-second)
	do(ctx, t, b, "RENEW", "order:42", "7-token-of-web", "PX", 600_000)
	third := waitFor(leader, "8-token-of-web", "web-8")
	eventually(t, startTimeout, "it is a later moment", func() error {
		if s := a.said("LOCKS HISTORY order:42 FROM -0s"); strings.Contains(s, "granted") {
			return errors.New("it was granted now")
		}
		return nil
	})
	must(a.named("operator").Do(ctx, "LOCKS", "FORCE", "order:42", "REASON", "web-7 hangs").Err())
	must(<-third)
	leader.Kill() // and its client with it
	must(b.named("operator").Do(ctx, "DEL", "order:42").Err())
	last := a.named("web-9")
	must(last.Do(ctx, "LOCK", "order:42", "9-token-of-web", "PX", 600_000).Err())
	must(last.Do(ctx, "UNLOCK", "order:42", "9-token-of-web").Err())

	history, err := a.client().Do(ctx, "LOCKS", "HISTORY", "order:42").Result()
	must(err)
	events := history.(map[any]any)["events"].([]any)
	var story []string
	for _, e := range events {
		f := e.(map[any]any)
		story = append(story, fmt.Sprint(f["event"], " ", f["token"], " ", f["client-name"]))
	}
	want := "granted 6-token-... web-6, expired 6-token-... <nil>, granted 7-token-... web-7, forced 7-token-... operator, " +
		"granted 8-token-... web-8, deleted 8-token-... operator, granted 9-token-... web-9, released 9-token-... web-9"
	if got := strings.Join(story, ", "); got != want {
		t.Fatalf("the story is\n%s\nwant\n%s", got, want)
	}
	at := func(i int) string { return events[i].(map[any]any)["time"].(string) }
	questions := []string{
		"LOCKS HISTORY order:42",
		"LOCKS HISTORY order:42 CURSOR 0 COUNT 3",
		"LOCKS HISTORY order:42 FROM " + at(2) + " TO " + at(3),
		"LOCKS HISTORY order:42 COUNT 1 TO " + at(2), // the holder at that time: the last grant before it
	}
	for i := 6; i <= 9; i++ {
		questions = append(questions, fmt.Sprintf("LOCKS WHY order:42 %d-token-of-web", i))
	}
	told := a.said(questions...)
	for _, sentence := range []string{
		"6-token-... got order:42 at " + at(0), " and lost it at " + at(1) + ": its lease of 1 ms was over, ", "Next was 7-token-... at " + at(2),
		" and lost it at " + at(3) + ": ended by LOCKS FORCE of client ", ", because: web-7 hangs, after ", ", renewed once, at ",
		" and lost it at " + at(5) + ": deleted by DEL of client ", " and released it at " + at(7) + " by UNLOCK of client ", "Nobody has got it since.",
	} {
		if !strings.Contains(told, sentence) {
			t.Errorf("it does not say %q:\n%s", sentence, told)
		}
	}
	then := a.said(questions[3])
	if !strings.Contains(then, "granted") || !strings.Contains(then, "7-token-...") || strings.Count(then, "time\r\n") != 1 {
		t.Errorf("at %s, says %s", at(2), then)
	}
	alike := func(nodes nodes, when string) {
		t.Helper()
		for _, p := range nodes {
			if got := p.said(questions...); got != told {
				t.Fatalf("%s %s says\n%s\nit was\n%s", when, p.name, got, told)
			}
		}
	}
	alike(nodes{a, b}, "after one was killed")
	leader.start()
	leader.awaitServing()
	alike(cluster, "after it came back")
	do(ctx, t, a, "LOCKD", "SNAPSHOT") // a comes back from an image
	a.Kill()
	alike(nodes{b, leader}, "after another was killed")
	a.start()
	a.awaitServing()
	for _, p := range cluster {
		cluster.lead(t, p) // a leader answers from its own state
		alike(cluster, "led by "+p.name)
	}
}
