package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// drillProc begins a drill whose lease outlives any pause of this machine.
func drillProc(t *testing.T, args ...string) *proc {
	t.Helper()
	return launch(t, "drill", "", append([]string{"drill", "--lease", "1h", "--work", "100ms"}, args...)...)
}

// leavesNothing looks whether a drill has left processes, or its folder, and returns the folder.
func leavesNothing(t *testing.T, said string, folder bool) (dir string) {
	t.Helper()
	first := regexp.MustCompile(`, data in (\S+)\.\n`).FindStringSubmatch(said)
	if first == nil {
		t.Fatalf("it said:\n%s", said)
	}
	dir = first[1]
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline") // none where there is no such folder
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range processes {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), dir) {
			t.Errorf("%s goes on: %q", filepath.Dir(file), text)
		}
	}
	if _, err := os.Stat(dir); (err == nil) != folder {
		t.Errorf("the folder: %v", err)
	}
	return dir
}

// A drill kills a leader, starts it again, and reports what clients saw; nothing is left of it.
func TestDrill(t *testing.T) {
	t.Parallel()
	p := drillProc(t)
	if status := p.wait(2 * startTimeout); status != exitOK {
		t.Fatalf("status %d", status)
	}
	said := p.log.String()
	want := regexp.MustCompile(`^Three nodes start, [^\n]*
(n[123]) \(pid (\d+)\) leads in term \d+\.
A client has taken the lock drill:lock with the token \w+: its fence is (\d+)\. [^\n]*
A rival asks [^\n]*
\d+ writes are acknowledged\. Now (n[123]) \(pid (\d+)\) is killed: kill -9 (\d+)\.
(n[123]) \(pid (\d+)\) leads in term \d+\. No write was acknowledged for \d+\.\d\d s\.
The lock is still held, by the same token, with the fence (\d+)\.
(n[123]) is started again with its data: pid (\d+)\.
It follows, and has caught up after \d+\.\d\d s\.
\d+ writes were acknowledged, [^\n]*: none was lost, none was done twice\.
The lock was renewed \d+ times, and is held with the fence (\d+) as ever; the rival asked \d+ times and never got it\.
All three nodes have the same state: [0-9a-f]+\.
The promise held\.
$`).FindStringSubmatch(said)
	if want == nil {
		t.Fatalf("it said:\n%s", said)
	}
	same := func(groups ...int) {
		for _, g := range groups {
			if want[g] != want[groups[0]] {
				t.Errorf("%s is not %s:\n%s", want[g], want[groups[0]], said)
			}
		}
	}
	same(1, 4, 10)
	same(2, 5, 6)
	same(3, 9, 12)
	if want[7] == want[1] || want[11] == want[2] {
		t.Errorf("the killed node goes on:\n%s", said)
	}
	leavesNothing(t, said, false)
}

// A drill that is interrupted ends its processes; its folder stays if it is to.
func TestDrillInterrupted(t *testing.T) {
	t.Parallel()
	p := drillProc(t, "--work", "1h", "--keep")
	eventually(t, startTimeout, "clients work", func() error {
		if !strings.Contains(p.log.String(), "A rival asks") {
			return errors.New(p.log.String())
		}
		return nil
	})
	p.Signal(syscall.SIGINT)
	if status := p.wait(startTimeout); status != exitFault ||
		!strings.HasSuffix(p.log.String(), "lockd: the drill was not finished: all its processes were ended\n") {
		t.Errorf("status %d:\n%s", status, p.log)
	}
	dir := leavesNothing(t, p.log.String(), true)
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// Wrong flags of a drill are reported, and settings of this machine's node do not apply to its nodes.
func TestDrillFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"--lease=1ms": "lockd: --lease 1ms is less than 1s\n", "--work=-1s": "lockd: --work -1s is negative\n",
	} {
		var out bytes.Buffer
		if status := run([]string{"drill", flag}, nil, &out, &out); status != exitUsage || out.String() != want {
			t.Errorf("%s: %d, %s", flag, status, &out)
		}
	}
	got := withoutSettings([]string{"HOME=/", "LOCKD_CLUSTER=a=b", "LOCKD_PEER_SECRET=x", "LOCKD_CONFIG=f", "LOCKD_TEST_X=1"})
	if strings.Join(got, " ") != "HOME=/ LOCKD_TEST_X=1" {
		t.Errorf("%q", got)
	}
}
