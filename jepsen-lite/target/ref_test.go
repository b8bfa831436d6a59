package target

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// extract writes the files of a commit, whatever the work tree contains and whatever git has set for a hook. An unknown
// commit is an error of one line.
func TestExtract(t *testing.T) {
	repo := tree(t, map[string]string{"a/b.txt": "one\ntwo\n"})
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	git("tag", "v1")
	if err := os.WriteFile(filepath.Join(repo, "a", "b.txt"), []byte("later\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("commit", "-q", "-a", "-m", "two")
	t.Setenv("GIT_DIR", t.TempDir())
	dir := t.TempDir()
	if err := extract(repo, "v1", dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a", "b.txt")); string(text) != "one\ntwo\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, ref := range []string{"v2", "--output=x"} {
		if err := extract(repo, ref, t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "git has no sources of ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// Builds with different peer protocols cannot form a cluster. A binary that tells no protocol is not lockd, or an old
// build.
func TestCanTalk(t *testing.T) {
	build := func(says string) (path string) {
		path = filepath.Join(t.TempDir(), "lockd")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+says+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two := build("echo 'peer protocol     8'; echo 'levels            level 1'"),
		build("echo 'lockd 1'; echo; echo 'peer protocol     8'; echo 'levels            levels 1 to 2'")
	other := build("echo 'peer protocol     7'")
	for _, c := range []struct {
		older, newer, want string
		highest            int
	}{
		{one, two, "<nil>", 2},
		{two, one, "<nil>", 1},
		{other, two, "it speaks version 7 of the peer protocol, this tree 8: they make no cluster", 2},
		{build("echo lockd"), two, "it does not say which peer protocol it speaks", 0},
		{build("exit 2"), two, "it does not say what it is: lockd version --verbose: exit status 2", 0},
	} {
		highest, err := CanTalk(c.older, c.newer)
		if said := fmt.Sprint(err); said != c.want || err == nil && highest != c.highest {
			t.Errorf("%d, %s, want %d, %s", highest, said, c.highest, c.want)
		}
	}
}
