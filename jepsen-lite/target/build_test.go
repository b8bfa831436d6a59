package target

import (
	"bytes"
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// patches are the files of patchDir, in their order.
func patches(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", patchDir, "*.patch"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there are %d patches in %s: %v", len(found), patchDir, err)
	}
	for i, patch := range found {
		if found[i], err = filepath.Abs(patch); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// Every patch says what it breaks, applies to the sources as they are, and leaves Go that is
// formatted. That it builds is up to the run that catches it.
func TestPatchesApply(t *testing.T) {
	repo, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches(t) {
		t.Run(filepath.Base(patch), func(t *testing.T) {
			text, err := os.ReadFile(patch)
			if err != nil {
				t.Fatal(err)
			}
			if says, _, _ := bytes.Cut(text, []byte("diff --git ")); len(bytes.TrimSpace(says)) == 0 {
				t.Error("it does not begin with what it breaks")
			}
			overlay, err := plant(repo, t.TempDir(), patch)
			if err != nil {
				t.Fatal(err)
			}
			for from, to := range replaced(t, overlay) {
				was, _ := os.ReadFile(from) // none: the patch adds it
				is, err := os.ReadFile(to)
				if err != nil || bytes.Equal(was, is) {
					t.Errorf("%s is as it was: %v", from, err)
				}
				if neat, err := format.Source(is); strings.HasSuffix(from, ".go") && (err != nil || !bytes.Equal(neat, is)) {
					t.Errorf("%s is not as gofmt would have it: %v", from, err)
				}
			}
		})
	}
}

// replaced reads an overlay.
func replaced(t *testing.T, overlay string) map[string]string {
	t.Helper()
	var o struct{ Replace map[string]string }
	text, err := os.ReadFile(overlay)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil || len(o.Replace) == 0 {
		t.Fatalf("%s replaces %d files: %v", overlay, len(o.Replace), err)
	}
	return o.Replace
}

// A patch may change a file and add another. Nothing is changed but the copies, even in a
// folder of a repository, and where a hook of git has set its variables.
func TestPlant(t *testing.T) {
	repo, dir := sources(t), t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("GIT_DIR", filepath.Join(dir, ".git"))
	t.Setenv("GIT_WORK_TREE", dir)
	dir = filepath.Join(dir, "copies")
	overlay, err := plant(repo, dir, writePatch(t, " one\n-two\n+2\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := replaced(t, overlay)
	for path, want := range map[string]string{"a/b.txt": "one\n2\n", "c/new.txt": "three\n"} {
		if text, err := os.ReadFile(got[filepath.Join(repo, path)]); string(text) != want {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(repo, "a/b.txt")); string(text) != "one\ntwo\n" {
		t.Errorf("the source is %q, %v", text, err)
	}
}

// sources are a repository with one file.
func sources(t *testing.T) (repo string) {
	t.Helper()
	repo = t.TempDir()
	if err := os.Mkdir(filepath.Join(repo, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repo, "a", "b.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return repo
}

// writePatch makes a patch that changes a/b.txt as hunk says, and adds c/new.txt.
func writePatch(t *testing.T, hunk string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bug.patch")
	text := "It breaks all.\n\ndiff --git a/a/b.txt b/a/b.txt\n--- a/a/b.txt\n+++ b/a/b.txt\n@@ -1,2 +1,2 @@\n" + hunk +
		"diff --git a/c/new.txt b/c/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/c/new.txt\n@@ -0,0 +1 @@\n+three\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What cannot be planted is said in a sentence of one line.
func TestPlantFails(t *testing.T) {
	fails := func(want, patch string) {
		t.Helper()
		_, err := plant(sources(t), t.TempDir(), patch)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	nothing := filepath.Join(t.TempDir(), "nothing.patch")
	if err := os.WriteFile(nothing, []byte("It breaks nothing.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails("nothing.patch changes nothing", nothing)
	fails("no such file or directory", filepath.Join(t.TempDir(), "none.patch"))
	fails("its patch does not apply to the sources as they are: error: patch failed: a/b.txt:1; ", writePatch(t, " one\n-too\n+2\n"))
	t.Setenv("PATH", t.TempDir())
	fails("git applies the patch, and there is none: ", writePatch(t, " one\n-two\n+2\n"))
}

// The next build has its command and its setting, in a file that comes before that of the table, and more.
func TestNextBuild(t *testing.T) {
	repo, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := plant(repo, t.TempDir(), filepath.Join(repo, patchDir, NextBuild+".patch"))
	if err != nil {
		t.Fatal(err)
	}
	files := replaced(t, overlay)
	text, err := os.ReadFile(files[filepath.Join(repo, "keyspace", "cmd_jepsenlite.go")])
	if err != nil || !bytes.Contains(text, []byte(strconv.Quote(NextCommand))) ||
		!bytes.Contains(text, []byte(strconv.Quote(NextSetting))) || len(files) != 3 {
		t.Errorf("%v, %v\n%s", files, err, text)
	}
	out, err := exec.Command("go", "build", "-overlay", overlay, "lockd/keyspace").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The other build has the command that makes it another one, in a file that comes before
// that of the table.
func TestOtherBuild(t *testing.T) {
	repo, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := plant(repo, t.TempDir(), filepath.Join(repo, patchDir, OtherBuild+".patch"))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range replaced(t, overlay) {
		text, err := os.ReadFile(to)
		if err != nil || !bytes.Contains(text, []byte(strconv.Quote(OtherCommand))) || filepath.Base(from) > "table.go" {
			t.Errorf("%s: %v\n%s", from, err, text)
		}
	}
	out, err := exec.Command("go", "build", "-overlay", overlay, "lockd/keyspace").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
