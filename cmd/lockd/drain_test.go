package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lockd/internal/locks"
)

// Draining a leader hands leadership over, and the others do without the node; a node that the others need has to
// stay, and drain tells why. Programs can parse the sentences.
func TestDrain(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	drain := func(status int, want string, args ...string) { // a member that takes long counts as down: ask again
		t.Helper()
		eventually(t, startTimeout, "drain says so", func() error {
			var out bytes.Buffer
			got := run(append([]string{"drain"}, args...), nil, &out, &out)
			if got != status || !regexp.MustCompile("^(?s:"+want+")$").MatchString(out.String()) {
				return fmt.Errorf("drain %q: status %d, want %d and %s:\n%s", args, got, status, want, &out)
			}
			return nil
		})
	}
	for range 2 { // the second time another node may lead
		leader := cluster.leader(t)
		drain(0, leader.name+` can be taken away: (it has handed over its leadership, )?n[123] leads, and of 3 voters `+
			`n[123], n[123] have caught up`+"\n", "--wait", "60s", leader.addr)
		if next := cluster.leader(t); next == leader {
			t.Errorf("%s leads as before", leader.name)
		}
	}
	leader := cluster.leader(t)
	others := cluster.others(leader)
	drain(0, others[0].name+` can be taken away: `+leader.name+` leads, .*`+"\n", "--wait", "60s", "--addr", others[0].addr)
	others[0].Kill()
	stays := ` has to stay: the majority would be lost without it: not up: ` + others[0].name + "\n"
	drain(1, leader.name+stays, "--wait", "0s", leader.addr)
	drain(1, others[1].name+stays, "--wait", "0s", others[1].addr)
	if still := cluster.others(others[0]).leader(t); still != leader {
		t.Errorf("%s leads, and was not to", still.name)
	}
	drain(1, others[0].addr+` does not answer: .*refused`+"\n", others[0].addr)
	drain(2, "lockd: --addr names 2 nodes: one is drained at a time\n", "--addr", "127.0.0.1:1,127.0.0.1:2")
	drain(2, "lockd: --wait -1s is negative\n", "--wait=-1s")
}

// Draining a single node, or without permission, fails at once, however long the wait.
func TestDrainOfOne(t *testing.T) {
	t.Parallel()
	p := startSingle(t, "--requirepass", "hunter2")
	for password, want := range map[string]string{
		"":        p.addr + " refuses: NOAUTH ",
		"wrong":   p.addr + " refuses: WRONGPASS ",
		"hunter2": "n1 has to stay: it is the only voter: add others first\n",
	} {
		var out bytes.Buffer
		status := run([]string{"drain", p.addr, "--wait", "1h"}, []string{"LOCKD_PASSWORD=" + password}, &out, &out)
		if status != exitFault || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: %d: %s", password, status, &out)
		}
	}
}

// The result of a poll of the members.
func TestDrainVerdicts(t *testing.T) {
	member := func(words string) locks.Member { // id role applied, or id role down
		var m locks.Member
		if _, err := fmt.Sscan(words, &m.ID, &m.Role, &m.State); err != nil {
			t.Fatal(err)
		}
		m.Suffrage = suffrageVoter
		if strings.HasPrefix(m.ID, "x") {
			m.Suffrage = "nonvoter"
		}
		if m.State != "down" {
			_, _ = fmt.Sscan(m.State, &m.Applied)
			m.State = stateUp
		}
		return m
	}
	for _, c := range []struct{ members, want string }{
		{"n1 leader 9; n2 follower 9; n3 follower 9", "n2 can be taken away: n1 leads, and of 3 voters n1, n3 have caught up"},
		{"n1 follower 9; n2 leader 9; n3 follower 9", "leads"},
		{"n1 follower down; n2 leader 9; n3 follower 9", "n2 has to stay: the majority would be lost without it: not up: n1"},
		{"n1 follower 9; n2 follower 9; n3 follower 9", "n2 has to stay: nobody leads"},
		{"n1 leader 9; n2 follower 9; n3 follower 8", "n2 has to stay: the others have not caught up: n3"},
		{"n1 leader 9; n2 follower 9", "n2 has to stay: of 2 voters 2 must be up: add others first (for ever)"},
		{"n1 leader 9; n2 follower 9; n3 follower 9; n4 follower 7; n5 follower down",
			"n2 has to stay: the others have not caught up: n4"},
		{"n1 leader 9; n2 follower 7; n3 follower 9; n4 follower 9; n5 follower down", "n2 can be taken away: n1 leads, and " +
			"of 5 voters n1, n3, n4 have caught up; no other may fail meanwhile, as n5 already has"},
		{"n2 leader 9; x1 follower 9", "n2 has to stay: it is the only voter: add others first (for ever)"},
		{"n1 leader 9; x2 follower 1", "x2 can be taken away: n1 leads, and of 1 voters n1 have caught up"},
		{"n1 leader 9; n3 follower 9; n4 follower 9", "n2 can be taken away: n1 leads, and of 3 voters n1, n3, n4 have caught up"},
	} {
		id := "n2"
		var members []locks.Member
		for words := range strings.SplitSeq(c.members, "; ") {
			members = append(members, member(words))
			if members[len(members)-1].ID == "x2" {
				id = "x2"
			}
		}
		d := drain{id: id}
		rest := restOf(id, members)
		v := d.assess(rest)
		got := v.said
		if got == "" && rest.ledByIt {
			got = "leads"
		}
		if v.hopeless {
			got += " (for ever)"
		}
		if got != c.want || v.done != strings.Contains(got, "can be taken away") {
			t.Errorf("%s:\n%q, not\n%q", c.members, got, c.want)
		}
	}
}

// An address that leads to several nodes drains none of them.
func TestDrainThroughBalancer(t *testing.T) {
	t.Parallel()
	a, b := startSingle(t), startSingle(t, "--id", "n2")
	d := drain{node: (&clusterFlags{}).client("test", a.addr)}
	if v := d.poll(context.Background()); !v.hopeless {
		t.Errorf("%+v", v)
	}
	d.node.Close()
	d.node.Addrs = []string{b.addr}
	if v := d.poll(context.Background()); !v.hopeless || v.said != b.addr+" is several nodes: n1 and n2" {
		t.Errorf("%+v", v)
	}
}
