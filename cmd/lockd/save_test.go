package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// lockd runs a command of this program, and returns what it prints and its exit status.
func lockd(args ...string) (out string, status int) {
	var stdout, stderr bytes.Buffer
	status = run(args, nil, &stdout, &stderr)
	return stdout.String() + stderr.String(), status
}

// allKinds fills a database with values of all kinds, and says by which commands they are seen.
func (p *proc) allKinds() (looks [][]any) {
	p.t.Helper()
	for _, line := range []string{
		"SET string v", "SETRANGE binary 3 x", "SET leased v PX 6000000", "LOCK exclusive alice PX 6000000 OWNER a NOTE n",
		"LOCK shared alice PX 6000000 SHARED", "LOCK shared bob PX 6000000 SHARED", "LOCK permits alice PX 6000000 LIMIT 2",
		"HSET hash a 1 b 2", "RPUSH list a b c", "SADD ints 1 2 3", "SADD set a b", "ZADD zset 1 a 2.5 b", "XADD stream 5-1 f v",
		"CONFIG SET lock-show-tokens full",
	} {
		p.ask(strings.Fields(line)...)
	}
	p.ask("SCRIPT", "LOAD", "return 1")
	p.ask("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 2 end)")
	for _, line := range []string{
		"GET string", "GET binary", "GET leased", "FENCE exclusive", "FENCE shared", "LOCKS HISTORY exclusive", "HGETALL hash",
		"LRANGE list 0 -1", "SMEMBERS ints", "SMEMBERS set", "ZRANGE zset 0 -1 WITHSCORES", "XRANGE stream - +",
		"EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "FCALL f 0", "CONFIG GET lock-show-tokens", "DBSIZE",
	} {
		var look []any
		for _, word := range strings.Fields(line) {
			look = append(look, word)
		}
		looks = append(looks, look)
	}
	return looks
}

func (p *proc) ask(words ...string) any {
	p.t.Helper()
	var args []any
	for _, w := range words {
		args = append(args, w)
	}
	r, err := p.client().Do(context.Background(), args...).Result()
	if err != nil {
		p.t.Errorf("%q: %v", words, err)
	}
	return r
}

func (p *proc) see(looks [][]any) (seen []string) {
	c := p.client()
	for _, look := range looks {
		r, err := c.Do(context.Background(), look...).Result()
		seen = append(seen, fmt.Sprint(look, r, err))
	}
	return seen
}

// stopAll ends the nodes in order.
func (n nodes) stopAll() {
	for _, p := range n {
		p.Signal(syscall.SIGTERM)
	}
	for _, p := range n {
		p.wait(startTimeout)
	}
}

// A backup of a follower is restored beside the cluster: all kinds of values are there, fences keep rising, unknown
// locks are refused for a while, and nodes of the two clusters stay apart. Then two of three nodes are lost, and the
// last one becomes a separate cluster, which the others cannot rejoin.
func TestBackupAndRecovery(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	looks := cluster[0].allKinds()
	want := cluster[1].see(looks)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	if out, status := lockd("backup", "--from", cluster[2].addr, "--out", file); status != exitOK {
		t.Fatal(out)
	}
	if out, status := lockd("backup", "--from", cluster[2].addr, "--out", file); status != exitUsage || !strings.Contains(out, "is there already") {
		t.Errorf("a backup was to be replaced: %d %s", status, out)
	}
	piped, status := lockd("backup", "--addr", cluster[1].addr, "--out", "-")
	if made, err := os.ReadFile(file); status != exitOK || err != nil || len(made) < 1000 || len(piped) < len(made)/2 {
		t.Errorf("to standard output: %d, %d bytes", status, len(piped))
	}
	if out, status := lockd("inspect", file); status != exitOK || !strings.Contains(out, "sound") {
		t.Errorf("%d %s", status, out)
	}
	restored := cluster.restore(t, file, filepath.Join(dir, "restored"))
	if got := restored.see(looks); !slices.Equal(got, want) {
		t.Errorf("restored: %q\nnot %q", got, want)
	}
	restored.checkGrants()
	cluster.recover(t, looks, want)
}

// makeNew runs restore or recover. If this machine's clock may be wrong, the command demands a number and names it.
func makeNew(args ...string) (out string, status int) {
	out, status = lockd(args...)
	if _, rest, demanded := strings.Cut(out, "if no cluster was made of these data before, --fence-above "); demanded && status == exitUsage {
		number, _, _ := strings.Cut(rest, ";")
		return lockd(append(args, "--fence-above", number)...)
	}
	return out, status
}

// fenceOf is the fence that a restore or a recovery has printed.
func fenceOf(out string) string {
	_, rest, _ := strings.Cut(out, "has a fence above ")
	number, _, _ := strings.Cut(rest, ",")
	return number
}

// restore starts a cluster that was restored.
func (n nodes) restore(t *testing.T, file, dir string) *proc {
	t.Helper()
	out, status := makeNew("restore", "--in", file, "--dir", dir, "--id", "r1", "--hold", "1h")
	begins := fenceOf(out)
	if low, status := lockd("restore", "--in", file, "--dir", dir+"2", "--fence-above", "0"); status != exitUsage || !strings.Contains(low, "--fence-above 0 is too low: the data have fences up to") {
		t.Errorf("a number below the backup's own: %d %s", status, low)
	}
	second, status2 := lockd("restore", "--in", file, "--dir", dir+"2", "--fence-above", begins)
	if status2 != exitOK || len(fenceOf(second)) < len(begins) || fenceOf(second) <= begins {
		t.Errorf("a second restore: %d, begins above %s after %s", status2, fenceOf(second), begins)
	}
	if status != exitOK || !strings.Contains(out, "Fences: ") || !strings.Contains(out, "Hold: for 1h0m0s") {
		t.Fatalf("%d %s", status, out)
	}
	if out, status := lockd("restore", "--in", file, "--dir", dir); status == exitOK {
		t.Errorf("a folder with data was replaced: %s", out)
	}
	if out, status := lockd("inspect", dir); status != exitOK {
		t.Errorf("%d %s", status, out)
	}
	ports := freePorts(t, 2)
	p := launch(t, "r1", fmt.Sprintf("127.0.0.1:%d", ports[0]), "serve", "--id", "r1",
		"--listen", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[1]), "--dir", dir)
	p.awaitServing()
	return p
}

// checkGrants looks at fences and at the hold.
func (p *proc) checkGrants() {
	p.t.Helper()
	c, ctx := p.client(), context.Background()
	before := p.ask("FENCE", "exclusive").(int64)
	if err := c.Do(ctx, "SET", "new", "me", "NX", "PX", "1000").Err(); err == nil || !strings.HasPrefix(err.Error(), "LOADING ") {
		p.t.Errorf("a lock that is not known: %v", err)
	}
	if got := p.ask("RENEW", "exclusive", "alice", "PX", "6000000").(int64); got != before {
		p.t.Errorf("a lock that was held had the fence %d, and has %d", before, got)
	}
	p.ask("CONFIG", "SET", "lock-hold-until", "-1")
	if got := p.ask("LOCK", "new", "me", "PX", "1000").(int64); got < 1<<40 || got > 1<<53 {
		p.t.Errorf("a new lock has the fence %d", got)
	}
	p.ask("DEL", "new")
}

// recover makes a cluster of the first of three nodes.
func (n nodes) recover(t *testing.T, looks [][]any, want []string) {
	t.Helper()
	dirs := []string{n[0].flagOf("--dir"), n[1].flagOf("--dir"), n[2].flagOf("--dir")}
	if out, status := lockd("inspect", dirs[0]); status != exitUsage || !strings.Contains(out, "in use by another lockd process") {
		t.Errorf("in use: %d %s", status, out)
	}
	if out, status := lockd("recover", "--dir", dirs[0], "--yes"); status != exitUsage {
		t.Errorf("in use: %d %s", status, out)
	}
	nodes{n[1]}.stopAll() // the others go on without it
	n[0].ask("SET", "later", "1")
	n[0].ask("DEL", "later")
	nodes{n[0], n[2]}.stopAll()
	out, status := lockd("recover", "--dir", dirs[1], "--other", dirs[0], "--other", dirs[2], "--yes")
	if status != exitFault || !strings.Contains(out, "knows more than") || !strings.Contains(out, "it is better") {
		t.Errorf("one that knows less: %d %s", status, out)
	}
	if out, status = lockd("recover", "--dir", dirs[0]); status != exitOK || !strings.Contains(out, "Nothing was changed") {
		t.Errorf("%d %s", status, out)
	}
	if out, status = makeNew("recover", "--dir", dirs[0], "--other", dirs[1], "--yes", "--hold", "1h"); status != exitOK || fenceOf(out) == "" {
		t.Fatalf("%d %s", status, out)
	}
	args := slices.Clone(n[0].args)
	at := slices.Index(args, "--cluster")
	n[0].args = slices.Delete(args, at, at+2)
	n[0].start()
	n[0].awaitServing()
	if got := n[0].see(looks); !slices.Equal(got, want) {
		t.Errorf("recovered: %q\nnot %q", got, want)
	}
	n[0].checkGrants()
	n[1].args = append(slices.Clone(n[1].args), "--leader-wait", "1s") // it waits in vain
	n[1].start()
	eventually(t, startTimeout, "an old member is refused", func() error {
		if text := n[1].log.tail(60); !strings.Contains(text, "belongs to another cluster") {
			return fmt.Errorf("its log says %s", text)
		}
		return nil
	})
	if err := n[1].client().Get(context.Background(), "string").Err(); err == nil {
		t.Error("an old member answers")
	}
}

// Wrong flags and files are reported, with the exit status that --help documents.
func TestSaveRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		say    string
		args   []string
	}{
		{exitUsage, "does not exist", []string{"inspect", filepath.Join(dir, "none")}},
		{exitUsage, "no data folder of lockd", []string{"inspect", dir}},
		{exitFault, "no sound backup", []string{"inspect", text}},
		{exitFault, "no sound backup", []string{"restore", "--in", text, "--dir", filepath.Join(dir, "d")}},
		{exitFault, "no such file", []string{"restore", "--in", text + "x", "--dir", filepath.Join(dir, "d")}},
		{exitUsage, "--hold", []string{"restore", "--in", text, "--dir", filepath.Join(dir, "d"), "--hold", "-1s"}},
		{exitUsage, `--fence-above "x" is not a whole number from 0 to`, []string{"restore", "--in", text, "--dir", filepath.Join(dir, "d"), "--fence-above", "x"}},
		{exitUsage, `--fence-above "-1" is not`, []string{"restore", "--in", text, "--dir", filepath.Join(dir, "d"), "--fence-above=-1"}},
		{exitUsage, `--fence-above "9007199254740992" is not`, []string{"recover", "--dir", dir, "--fence-above", "9007199254740992"}},
		{exitUsage, "node id", []string{"restore", "--in", text, "--dir", filepath.Join(dir, "d"), "--id", "a b"}},
		{exitUsage, "--peer-advertise", []string{"recover", "--dir", dir, "--peer-advertise", "x"}},
		{exitUsage, "no data folder of lockd", []string{"recover", "--dir", dir, "--yes"}},
		{exitFault, "no backup from", []string{"backup", "--from", "127.0.0.1:1", "--out", filepath.Join(dir, "b")}},
		{exitUsage, "--out", []string{"backup"}},
	} {
		if out, status := lockd(c.args...); status != c.status || !strings.Contains(out, c.say) {
			t.Errorf("%v: status %d, %s", c.args, status, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
		t.Error("a folder was made")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}
