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
// all nodes and at the leader.
func TestBench(t *testing.T) {
	cluster := startCluster(t, 3, calm...)
	var addrs []string
	for _, p := range cluster {
		addrs = append(addrs, p.addr)
	}
	list, file := strings.Join(addrs, ","), filepath.Join(t.TempDir(), "figures.json")
	all := []string{"set", "get", "lock", "reentrant", "contend", "stock", "pubsub", "mixed"}
	var stdout bytes.Buffer
	for length, idle := 200*time.Millisecond, "all"; idle != ""; length *= 4 { // a machine that is elsewhere does nothing in a moment
		if length > startTimeout {
			t.Fatalf("no operation: %s", idle)
		}
		idle = ""
		var stderr bytes.Buffer
		stdout.Reset()
		status := run([]string{"bench", "--target", "all=redis://" + list, "--target", "leader=redis://" + list + "?to=master&wait=1",
			"--workload", strings.Join(all, ","), "--clients", "4", "--pipeline", "3", "--time", length.String(), "--rounds", "1", "--keys", "50", "--json", file}, nil, &stdout, &stderr)
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
		for _, workload := range all {
			for _, target := range []string{"all", "leader"} {
				if s, ok := report.Find(workload, 4, 3, target); !ok || s.Operations == 0 {
					idle += fmt.Sprintf("%s of %s: %+v\n", workload, target, s)
				}
			}
		}
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
	if !strings.Contains(stdout.String(), "lockd "+version+", master of 2, appendonly yes, appendfsync always") {
		t.Errorf("the leader is not described:\n%s", stdout.String())
	}
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
