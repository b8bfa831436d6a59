//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockd/cmd/lockd/hold"
)

// besideWaiting returns the errors that `lockd run` printed, without the message after a second of waiting, which a
// slow machine causes even for a free lock.
func besideWaiting(stderr string) string {
	return regexp.MustCompile(`^lockd: waiting for the lock \w+\n`).ReplaceAllString(stderr, "")
}

// lockdRun runs `lockd run` for a shell script and returns what it printed, besideWaiting, and its status.
func lockdRun(t *testing.T, addr, script string, flags ...string) (stdout, stderr string, status int) {
	t.Helper()
	dir := t.TempDir()
	out, errs := newFile(t, dir+"/out"), newFile(t, dir+"/errs")
	args := append([]string{"run", "--lock", "door", "--addr", addr}, flags...)
	status = run(append(args, "--", "sh", "-c", script), nil, out, errs)
	return content(t, out), besideWaiting(content(t, errs)), status
}

func newFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The command runs while the lock is held, and gets its fence; lockd ends with the command's status.
func TestRunHoldsTheLock(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	c := p.client()
	dir := t.TempDir()
	held := filepath.Join(dir, "held")
	go func() {
		for range 6000 {
			if _, err := os.Stat(held); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		token, _ := c.Get(t.Context(), "door").Result()
		_ = os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600)
	}()
	stdout, stderr, status := lockdRun(t, p.addr, fmt.Sprintf(
		`echo $LOCKD_FENCE; touch %s; until [ -s %s/token ]; do sleep 0.01; done; cat %s/token; exit 3`, held, dir, dir))
	fence, token, _ := strings.Cut(stdout, "\n")
	if n, err := strconv.Atoi(fence); status != 3 || err != nil || n <= 0 || !strings.Contains(token, "@lockd-run:") || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if n := c.Exists(t.Context(), "door").Val(); n != 0 {
		t.Error("the lock is not released")
	}
	for _, tt := range []struct {
		script string
		status int
	}{{"true", 0}, {"kill -9 $$", 137}, {"kill -TERM $$", 143}} {
		if _, stderr, status := lockdRun(t, p.addr, tt.script); status != tt.status || stderr != "" {
			t.Errorf("%s: status %d, %q", tt.script, status, stderr)
		}
	}
}

// Failures before the command starts have separate statuses.
func TestRunDoesNotRun(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	c := p.client()
	if err := c.Set(t.Context(), "door", "another", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.LPush(t.Context(), "list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"--lock door --wait 100ms --addr " + p.addr + " -- echo no", 75, "the lock door did not become free within 100ms"},
		{"--lock door --wait 0s --addr " + p.addr + " -- echo no", 75, "the lock door did not become free within 0s"},
		{"--lock door --wait 100ms --addr " + dead + " -- echo no", 75, "the lock door was not acquired within 100ms: dial tcp"},
		{"--lock list --addr " + p.addr + " -- echo no", 1, "the server refuses: WRONGTYPE"},
		{"--lock door --addr " + p.addr + " -- no-such-command", 127, `"no-such-command": executable file not found`},
		{"--lock door --addr " + p.addr + " -- " + file, 126, "permission denied"},
		{"--lock door", 2, "expected \"<command>"},
		{"-- echo no", 2, "missing flags: --lock"},
		{"--lock door --addr nowhere -- echo no", 2, "not of the form host:port"},
		{"--lock door --px 10ms -- echo no", 2, "--px 10ms is less than 1s"},
		{"--lock door --grace 20s -- echo no", 2, "--grace 20s is not between 0s and 14s, which is half of --px 30s without the last 1s"},
		{"--lock door --wait=-1s -- echo no", 2, "--wait -1s is negative"},
		{"--lock door --limit=-1 -- echo no", 2, "--limit -1 is negative"},
		{"--lock door --shared --limit 2 -- echo no", 2, "--shared and --limit are two kinds of lock"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(append([]string{"run"}, strings.Fields(tt.args)...), nil, &stdout, &stderr)
		said := besideWaiting(stderr.String())
		if status != tt.status || !strings.Contains(said, tt.want) || stdout.Len() != 0 || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q; want %d, %q", tt.args, status, stdout.String(), said, tt.status, tt.want)
		}
	}
}

// With --shared and --limit a command runs beside others that hold the lock.
func TestRunBesideOthers(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	c := p.client()
	for _, tt := range []struct {
		held, flags string
		status      int
		want        string
	}{
		{"SHARED", "--shared", 0, ""},
		{"SHARED", "", 75, "the lock door did not become free within 100ms"},
		{"SHARED", "--limit 2", 75, "the lock door did not become free within 100ms"},
		{"LIMIT 2", "--limit 2", 0, ""},
		{"LIMIT 1", "--limit 1", 75, "the lock door did not become free within 100ms"},
		{"LIMIT 2", "--limit 3", 1, "the server refuses: ERR this lock is held with LIMIT 2 now"},
		{"LIMIT 2", "--limit 2000", 1, "the server refuses: ERR LIMIT is a number from 1 to 1024"},
	} {
		lock := []any{"LOCK", "door", "another", "PX", 600000}
		for _, word := range strings.Fields(tt.held) {
			lock = append(lock, word)
		}
		if err := c.Do(t.Context(), lock...).Err(); err != nil {
			t.Fatal(err)
		}
		flags := append(strings.Fields(tt.flags), "--wait", "100ms")
		_, stderr, status := lockdRun(t, p.addr, "true", flags...)
		if status != tt.status || !strings.Contains(stderr, tt.want) || tt.want == "" && stderr != "" {
			t.Errorf("%s beside %s: status %d, %q; want %d, %q", tt.flags, tt.held, status, stderr, tt.status, tt.want)
		}
		if n, err := c.Do(t.Context(), "UNLOCK", "door", "another").Int(); n != 1 || err != nil {
			t.Errorf("%s: the other one has lost the lock: %d %v", tt.flags, n, err)
		}
		if n := c.Exists(t.Context(), "door").Val(); n != 0 {
			t.Errorf("%s: the lock is not released", tt.flags)
		}
	}
}

// losing is a server that takes the lock away when a file is there.
type losing struct{ ready string }

func (losing) Lock(context.Context, time.Duration) (int64, error) { return 1, nil }

func (l losing) Renew(context.Context) error {
	for range 6000 {
		if _, err := os.Stat(l.ready); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return hold.ErrNotHeld
}

func (losing) Unlock(context.Context) error { return nil }

// A command whose lock is lost is told to end, and then made to, with all that it has started.
func TestRunLosesTheLock(t *testing.T) {
	const (
		obeys    = `trap 'echo told; exit 0' TERM; `
		stubborn = `trap '' TERM; `
		leaves   = `sh -c "trap '' TERM; echo \$\$ > left; while :; do sleep 0.01; done" & until [ -s left ]; do sleep 0.01; done; `
		works    = `touch ready; while :; do sleep 0.01; done`
	)
	for _, tt := range []struct {
		script string
		grace  time.Duration
		stdout string
	}{
		{obeys + leaves + works, time.Hour, "told\n"},
		{stubborn + leaves + works, time.Millisecond, ""},
	} {
		dir := t.TempDir()
		h := hold.New(losing{dir + "/ready"}, time.Second)
		out, errs := newFile(t, dir+"/out"), newFile(t, dir+"/errs") // no pipes, which what is left would hold open
		lost := (&hold.Command{
			Holder: h, Lock: "door", Wait: time.Hour, Grace: tt.grace, Stdout: out, Stderr: errs,
			Args: []string{"sh", "-c", "cd " + dir + "; exec 2>/dev/null; " + tt.script},
		}).Run()
		if end := (hold.EndError{}); !errors.As(lost, &end) || end.Status != hold.StatusLost {
			t.Errorf("%s: %v", tt.script, lost)
		}
		said := besideWaiting(content(t, errs))
		if stdout := content(t, out); stdout != tt.stdout || said != "lockd: the lock is lost: the lock is not held: the command is told to end\n" {
			t.Errorf("%s: %q, %q", tt.script, stdout, said)
		}
		awaitGone(t, dir+"/left")
	}
}

// awaitGone waits until the process whose number is in a file is gone.
func awaitGone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, startTimeout, "it is gone", func() error {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z") {
			return nil
		}
		return fmt.Errorf("it is there: %s", state)
	})
}

// A command that ends after its lock was lost has the status of a loss, whatever its own.
func TestRunEndsWithoutTheLock(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	lost := filepath.Join(t.TempDir(), "lost")
	go func() {
		c := p.client()
		for range 6000 {
			if n, _ := c.Del(t.Context(), "door").Result(); n == 1 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		_ = os.WriteFile(lost, nil, 0o600)
	}()
	stdout, stderr, status := lockdRun(t, p.addr, fmt.Sprintf(`until [ -e %s ]; do sleep 0.01; done; echo done`, lost), "--px", "1m")
	if status != hold.StatusLost || stdout != "done\n" || !strings.Contains(stderr, "the lock is lost") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

// Signals reach the command, including those of a service manager; a waiting run leaves the line.
func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	c := p.client()
	dir := t.TempDir()
	script := fmt.Sprintf(`trap 'exit 9' HUP; touch %s/ready; while :; do sleep 0.01; done`, dir)
	runs := launch(t, "run", "", "run", "--lock", "door", "--addr", p.addr, "--", "sh", "-c", script)
	eventually(t, startTimeout, "the command runs", func() error {
		_, err := os.Stat(dir + "/ready")
		return err
	})
	waits := launch(t, "waits", "", "run", "--lock", "door", "--addr", p.addr, "--", "echo", "no")
	p.blockedClients(1)
	waits.Signal(syscall.SIGTERM)
	if status := waits.wait(startTimeout); status != 143 {
		t.Errorf("who waited ends with %d:\n%s", status, waits.log)
	}
	runs.Signal(syscall.SIGHUP)
	if status := runs.wait(startTimeout); status != 9 {
		t.Errorf("the command ends with %d:\n%s", status, runs.log)
	}
	if n := c.Exists(t.Context(), "door").Val(); n != 0 {
		t.Error("the lock is not released")
	}
}

// A lock is kept through the death of the leader, whichever node was asked.
func TestRunOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	var addrs []string
	for _, p := range cluster {
		addrs = append(addrs, p.addr)
	}
	dir := t.TempDir()
	leader := cluster.leader(t)
	runs := launch(t, "run", "", "run", "--lock", "door", "--px", "20s", "--grace", "1s", "--addr", strings.Join(addrs, ","),
		"--", "sh", "-c", fmt.Sprintf(`touch %s/ready; until [ -e %s/end ]; do sleep 0.01; done`, dir, dir))
	eventually(t, startTimeout, "the command runs", func() error {
		_, err := os.Stat(dir + "/ready")
		return err
	})
	leader.Kill()
	c := cluster.others(leader)[0].client()
	before := time.Duration(0)
	eventually(t, startTimeout, "the lease is begun anew", func() error {
		left, err := c.PTTL(t.Context(), "door").Result()
		if err == nil && left > before && before > 0 {
			return nil
		}
		before = left
		return fmt.Errorf("%s left, %v", left, err)
	})
	if err := os.WriteFile(dir+"/end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := runs.wait(startTimeout); status != 0 {
		t.Errorf("it ends with %d:\n%s", status, runs.log)
	}
}

// If lockd is killed, its command ends too, because nothing would renew the lock.
func TestRunIsKilled(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	file := filepath.Join(t.TempDir(), "pid")
	runs := launch(t, "run", "", "run", "--lock", "door", "--addr", p.addr, "--", "sh", "-c", "echo $$ > "+file+"; exec sleep 1000")
	eventually(t, startTimeout, "the command runs", func() error {
		text, err := os.ReadFile(file)
		if err == nil && len(text) == 0 {
			err = errors.New("it has not said its number")
		}
		return err
	})
	runs.Kill()
	awaitGone(t, file)
}
