package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lockd/cmd/lockd/operate"
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

// An address that leads to several nodes drains none of them.
func TestDrainThroughBalancer(t *testing.T) {
	t.Parallel()
	a, b := startSingle(t), startSingle(t, "--id", "n2")
	d := operate.Drain{Node: (&clusterFlags{}).client("test", a.addr)}
	if v := d.Poll(context.Background()); !v.Hopeless {
		t.Errorf("%+v", v)
	}
	d.Node.Close()
	d.Node.Addrs = []string{b.addr}
	if v := d.Poll(context.Background()); !v.Hopeless || v.Said != b.addr+" is several nodes: n1 and n2" {
		t.Errorf("%+v", v)
	}
}
