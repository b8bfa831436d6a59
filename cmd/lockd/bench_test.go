package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockd/cmd/lockd/bench"
)

// lockd bench gets the right answers from a cluster of lockd in every workload, over
// all nodes and at the leader, and leaves nothing behind.
func TestBench(t *testing.T) {
	cluster := startCluster(t, 3, calm...)
	var addrs []string
	for _, p := range cluster {
		addrs = append(addrs, p.addr)
	}
	list := strings.Join(addrs, ",")
	stdout := runBench(t, list, 3, "set", "get", "lock", "reentrant", "contend", "stock", "pubsub", "mixed")
	if inLine := runBench(t, list, 1, "line"); strings.Contains(inLine, "knows no LOCK") {
		t.Errorf("clients do not wait in line:\n%s", inLine)
	}
	left, err := cluster[0].client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range left {
		if !strings.HasPrefix(key, "bench:latch:") { // of Redisson's unlock(); they end by themselves
			t.Errorf("the key %s is left", key)
		}
	}
	if !strings.Contains(stdout, "lockd "+version+", master of 2, appendonly yes, appendfsync always") {
		t.Errorf("the leader is not described:\n%s", stdout)
	}
}

// runBench measures workloads at a cluster, over all nodes and at the leader, and returns what is printed.
func runBench(t *testing.T, list string, pipeline int, workloads ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout bytes.Buffer
	for length, idle := 200*time.Millisecond, "all"; idle != ""; length *= 4 { // a machine that is elsewhere does nothing in a moment
		if length > startTimeout {
			t.Fatalf("no operation: %s", idle)
		}
		idle = ""
		var stderr bytes.Buffer
		stdout.Reset()
		status := run([]string{"bench", "--target", "all=redis://" + list, "--target", "leader=redis://" + list + "?to=master&wait=1",
			"--workload", strings.Join(workloads, ","), "--clients", "4", "--pipeline", fmt.Sprint(pipeline), "--time", length.String(), "--rounds", "1", "--keys", "50", "--json", file}, nil, &stdout, &stderr)
		if status != exitOK {
			if !strings.Contains(stderr.String(), "no operation was done") {
				t.Fatalf("status %d:\n%s", status, stderr.String())
			}
			idle = stderr.String()
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var report bench.Report
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		for _, workload := range workloads {
			for _, target := range []string{"all", "leader"} {
				if s, ok := report.Find(workload, 4, pipeline, target); !ok || s.Operations == 0 {
					idle += fmt.Sprintf("%s of %s: %+v\n", workload, target, s)
				}
			}
		}
	}
	return stdout.String()
}

// What cannot be measured is a mistake in a flag.
func TestBenchUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"missing flags: --target":      {"bench"},
		`there is no workload "nope"`:  {"bench", "--target", "redis://127.0.0.1:1", "--workload", "nope"},
		"is not of the form redis://":  {"bench", "--target", "127.0.0.1:1"},
		"cd bench && go run . load":    {"bench", "--target", "etcd://127.0.0.1:1"},
		"--clients 0 is not between 1": {"bench", "--target", "redis://127.0.0.1:1,127.0.0.1:2", "--clients", "0"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(args, nil, &stdout, &stderr); status != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: status %d, %q; want 2 and %q", args, status, stderr.String(), want)
		}
	}
}
