//go:build upgrade

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockd/jepsen-lite/target"
)

// As docs/upgrade.md has it: each node is drained and replaced by the next release, for which a stand-in is built, and
// the clients of the others notice nothing. `bench run` ends with the first error that it meets, so one that runs has
// met none. The level rises once the last node is replaced.
func TestUpgrade(t *testing.T) {
	newer, load := filepath.Join(t.TempDir(), "lockd"), filepath.Join(t.TempDir(), "bench")
	if said, err := exec.Command("go", "build", "-C", "../../bench", "-o", load).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := target.Kinds[0].Build(newer, []string{target.NextBuild}); err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t, 3, calm...)
	for i, node := range cluster {
		rest := cluster.others(node)
		bench := launchIn(t, instead(load), "bench", "", "run", "--target", "redis://"+rest[0].addr+","+rest[1].addr,
			"--workload", "lock", "--clients", "20", "--rounds", "1", "--time", "1h")
		works(t, rest)
		var said bytes.Buffer
		if status := run([]string{"drain", "--wait", "60s", node.addr}, nil, &said, &said); status != exitOK {
			t.Fatalf("drain: status %d: %s", status, &said)
		}
		node.Signal(syscall.SIGTERM)
		if status := node.wait(startTimeout); status != exitOK {
			t.Fatalf("%s ended with status %d", node.name, status)
		}
		works(t, rest)
		node.wrap = instead(newer)
		node.start()
		node.awaitServing()
		works(t, rest)
		if !bench.Running() {
			t.Fatalf("a bench at the others has met an error, while %s was replaced:\n%s", node.name, bench.log)
		}
		bench.Kill()
		if err := node.client().FlushAll(context.Background()).Err(); err != nil { // the locks that it held
			t.Fatal(err)
		}
		level := "1"
		if i == len(cluster)-1 {
			level = "2"
		}
		eventually(t, startTimeout, "all members say what they can", func() error { return canDo(cluster[:i+1], cluster[i+1:], level) })
	}
	if err := cluster[0].client().Do(context.Background(), target.NextCommand, "k").Err(); err != nil {
		t.Error(err)
	}
}

// instead is a command that runs a program with the arguments of lockd.
func instead(program string) []string { return []string{"sh", "-c", `shift; exec "$0" "$@"`, program} }

// works waits until nodes have done a thousand commands more for their clients.
func works(t *testing.T, at nodes) {
	t.Helper()
	for _, node := range at {
		client := node.client()
		commands := func() (n int) {
			info := client.Info(context.Background(), "stats").Val()
			_, rest, _ := strings.Cut(info, "total_commands_processed:")
			_, _ = fmt.Sscan(rest, &n)
			return n
		}
		before := commands()
		eventually(t, startTimeout, node.name+" serves its clients", func() error {
			if more := commands() - before; more < 1000 {
				return fmt.Errorf("%d commands", more)
			}
			return nil
		})
	}
}

// canDo reports what `lockd members` does not say as it must.
func canDo(newer, older nodes, level string) error {
	for _, asked := range append(newer[:len(newer):len(newer)], older...) {
		var out bytes.Buffer
		run([]string{"members", asked.addr}, nil, &out, &out)
		for _, m := range newer {
			if !hasWords(out.String(), m.name, level, "1-2") {
				return fmt.Errorf("%s says:\n%s", asked.name, &out)
			}
		}
		for _, m := range older {
			if !hasWords(out.String(), m.name, level, "1") {
				return fmt.Errorf("%s says:\n%s", asked.name, &out)
			}
		}
	}
	return nil
}

// hasWords reports whether a line of members is about one with a level in force, and the levels that it can do.
func hasWords(lines, name, level, can string) bool {
	for line := range strings.Lines(lines) {
		if words := strings.Fields(line); len(words) > columnVersion && words[0] == name {
			return words[columnLevel] == level && words[columnCan] == can
		}
	}
	return false
}
