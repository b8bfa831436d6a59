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

	"lockd/bench/load"
	"lockd/internal/secure/securetest"
)

// calm are flags for clusters that need a stable leader: a pause of the machine for two seconds causes no election.
var calm = []string{"--heartbeat", "2s", "--leader-wait", "20s"}

// bench run gets the right answers from a cluster of lockd in every workload, over all nodes and at the leader, and
// leaves nothing behind.
func TestRun(t *testing.T) {
	nodes, err := builtFarm(t).lockd(t.Context(), "lockd", 3, calm...)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, p := range nodes {
		addrs = append(addrs, p.addr)
	}
	list := strings.Join(addrs, ",")
	stdout := runAt(t, list, 3, "set", "get", "lock", "reentrant", "contend", "stock", "pubsub", "mixed")
	if inLine := runAt(t, list, 1, "line"); strings.Contains(inLine, "knows no LOCK") {
		t.Errorf("clients do not wait in line:\n%s", inLine)
	}
	left, err := load.Ask(t.Context(), nodes[0].addr, "KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range left {
		if !strings.HasPrefix(key, "bench:latch:") { // of Redisson's unlock(); they end by themselves
			t.Errorf("the key %s is left", key)
		}
	}
	if !strings.Contains(stdout, ", master of 2, appendonly yes, appendfsync always") {
		t.Errorf("the leader is not described:\n%s", stdout)
	}
}

// builtFarm is a farm of a real lockd.
func builtFarm(t *testing.T) *farm {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFarm(t.Context(), binary, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

// untilDone runs the program with longer and longer measurements until ok finds operations, since a busy machine does
// none in a moment. It returns the output.
func untilDone(t *testing.T, environ, args []string, ok func() (idle string)) string {
	t.Helper()
	for length := 200 * time.Millisecond; ; length *= 4 {
		var stdout, stderr bytes.Buffer
		status := run(append(args, "--time", length.String()), environ, &stdout, &stderr)
		idle := stderr.String()
		switch {
		case status == exitOK:
			if idle = ok(); idle == "" {
				return stdout.String()
			}
		case !strings.Contains(idle, "no operation was done"):
			t.Fatalf("status %d:\n%s", status, idle)
		}
		if length > readyMax {
			t.Fatalf("no operation: %s", idle)
		}
	}
}

// runAt measures workloads at a cluster, over all nodes and at the leader, and returns the output.
func runAt(t *testing.T, list string, pipeline int, workloads ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	args := []string{"run", "--target", "all=redis://" + list, "--target", "leader=redis://" + list + "?to=master&wait=1",
		"--workload", strings.Join(workloads, ","), "--clients", "4", "--pipeline", fmt.Sprint(pipeline), "--rounds", "1",
		"--keys", "50", "--json", file}
	return untilDone(t, nil, args, func() (idle string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var report load.Report
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
		return idle
	})
}

// bench run measures a node that serves TLS only, with a password, by the login flags of lockd's clients.
func TestRunOverTLS(t *testing.T) {
	ca, dir := securetest.NewCA(t, "ca"), t.TempDir()
	own := ca.Write(t, dir, time.Hour, "127.0.0.1")
	addrs, err := addrs(2)
	if err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := builtFarm(t)
	p, err := f.add("tls", addrs[0], f.binary, func(dir string) []string {
		return []string{"serve", "--listen=", "--tls-listen", addrs[0], "--peer-listen", addrs[1], "--dir", dir,
			"--requirepass-file", password, "--tls-cert-file", own.Cert, "--tls-key-file", own.Key,
			"--tls-ca-cert-file", own.CA}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.await(t.Context(), connects(p.addr)); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--workload", "lock", "--clients", "2", "--rounds", "1", "--cacert", own.CA, "--cert", own.Cert,
		"--key", own.Key}
	done := func() string { return "" }
	untilDone(t, nil, append(args[:len(args):len(args)], "--target", "rediss://"+p.addr, "--password-file", password), done)
	untilDone(t, []string{"LOCKD_PASSWORD=hunter2"}, append(args[:len(args):len(args)], "--target", "redis://"+p.addr, "--tls"),
		done)
	var stdout, stderr bytes.Buffer
	args = append(args, "--target", "rediss://"+p.addr)
	if status := run(args, []string{"LOCKD_PASSWORD=hunter3"}, &stdout, &stderr); status != exitFault || !strings.Contains(stderr.String(), "WRONGPASS") {
		t.Errorf("a wrong password: status %d, %s", status, &stderr)
	}
}

// A measurement that is impossible is reported as a mistake in a flag.
func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"missing flags: --target":      {"run"},
		`there is no workload "nope"`:  {"run", "--target", "redis://127.0.0.1:1", "--workload", "nope"},
		"is not of the form redis://":  {"run", "--target", "127.0.0.1:1"},
		"--clients 0 is not between 1": {"run", "--target", "redis://127.0.0.1:1,127.0.0.1:2", "--clients", "0"},
		"--tls-key-file need each":     {"run", "--target", "rediss://127.0.0.1:1", "--cert", "x"},
		"--password-file: open":        {"run", "--target", "etcd://127.0.0.1:1", "--password-file", filepath.Join(t.TempDir(), "x")},
		`no limit "speed"`:             {"scale", "--only", "speed"},
		"--idle must be more":          {"scale", "--idle", "0"},
		"unexpected argument nope":     {"nope"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(args, nil, &stdout, &stderr); status != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: status %d, %q; want 2 and %q", args, status, stderr.String(), want)
		}
	}
	var stdout, stderr bytes.Buffer
	if status := run([]string{"run", "--help"}, nil, &stdout, &stderr); status != exitOK || !strings.Contains(stdout.String(), "--workload") || stderr.Len() > 0 {
		t.Errorf("status %d, %q, %q", status, &stdout, &stderr)
	}
}
